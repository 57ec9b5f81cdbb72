/**
 * `deno task test:models`: layers of `nn` that were saved as ONNX, run by onnxruntime, which pip fetches.
 * Where it cannot be had the test is left out, and it is said.
 */
import { assertEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import { saveNpz, type Tensor, withDevice } from "@netcl/netcl";
import { modelFolder, statOf } from "../../examples/models/registry_models.ts";
import "../opencl.ts";
import { layers, saveLayer } from "../tensor/models/onnx/export/layers.ts";

const PACKAGE = "onnxruntime==1.31.1";
const script = fileURLToPath(new URL("./fixtures/check_onnx.py", import.meta.url));

/** Runs Python and gives what it prints. */
async function python(args: readonly string[], packages: string): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command("python3", {
    args: [...args],
    env: { PYTHONPATH: packages, PYTHONDONTWRITEBYTECODE: "1" },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).output();
  if (success) return new TextDecoder().decode(stdout);
  throw new Error(new TextDecoder().decode(stderr).trim().split("\n").at(-1));
}

/** The folder with onnxruntime; null where it cannot be had. */
async function install(): Promise<string | null> {
  const folder = `${modelFolder()}/onnxruntime`;
  try {
    if (!await statOf(`${folder}/complete`)) {
      await python(
        ["-m", "pip", "install", "--quiet", "--upgrade", "--target", folder, PACKAGE],
        "",
      );
      await Deno.writeTextFile(`${folder}/complete`, PACKAGE);
    }
    await python(["-c", "import onnxruntime"], folder);
    return folder;
  } catch (error) {
    console.log(`The test of saved layers is left out: ${(error as Error).message}`);
    return null;
  }
}

const packages = await install();

function prefixed(prefix: string, tensors: Record<string, Tensor>): Record<string, Tensor> {
  return Object.fromEntries(Object.entries(tensors).map(([name, t]) => [`${prefix}_${name}`, t]));
}

Deno.test("onnxruntime computes of every layer of nn what it does here, for another batch", {
  ignore: packages === null,
}, () =>
  withDevice("cpu", async () => {
    const folder = await Deno.makeTempDir();
    try {
      for (const name of Object.keys(layers)) {
        const { path, inputs, wanted } = await saveLayer(name, folder);
        const arrays = { ...prefixed("in", inputs), ...prefixed("out", wanted) };
        await saveNpz(path.replace(/onnx$/, "npz"), arrays);
      }
      const { met, failed } = JSON.parse(await python([script, folder], packages!));
      assertEquals(failed, {});
      assertEquals(met.length, Object.keys(layers).length);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  }));
