import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { decodeSafetensors } from "../../tensor/io/mod.ts";
import { ignoreOn, testOnBackends, testOpenCL } from "../opencl.ts";
import { onTerminal } from "./terminal.ts";
import { runDeno } from "../run_deno.ts";
import { inFolder } from "../temporary_folder.ts";
import { type Run, runExample } from "./run_example.ts";

const train = fileURLToPath(new URL("../../examples/train.ts", import.meta.url));

function runTrain(folder: string, args: string[], env: Record<string, string> = {}): Promise<Run> {
  return runExample("train.ts", args, undefined, { folder, env });
}

async function losses(folder: string): Promise<number[]> {
  return JSON.parse(await Deno.readTextFile(`${folder}/loss.json`));
}

function accuracyIn({ out, err }: Run): number {
  const [, accuracy] = /accuracy:\s+(\S+) on unseen samples/.exec(out) ?? [];
  assert(accuracy !== undefined, out + err);
  return Number(accuracy);
}

Deno.test("a run without flags reads unseen digits, and both backends learn the same", {
  ignore: ignoreOn("cl"),
}, () =>
  inFolder(async (folder) => {
    const curves: number[][] = [];
    for (const device of ["cpu", "cl"]) {
      const run = await runTrain(folder, ["--device", device, "--out", device]);
      assertEquals(run.code, 0, run.err);
      assert(accuracyIn(run) >= 0.96, run.out);
      assertStringIncludes(run.out, `asked for as "${device}"`);
      const lines = run.out.match(/^epoch .* unseen 0\.\d+ {2}accuracy /gm);
      assertEquals(lines?.length, 20, "off a terminal one line an epoch");
      assert(!run.out.includes("\r") && !run.out.includes("\x1b"));
      curves.push(await losses(`${folder}/${device}`));
    }
    const [cpu, cl] = curves as [number[], number[]];
    assertEquals(cpu.length, 20 * 45);
    assertEquals(cl.length, cpu.length);
    for (let step = 0; step < 50; step++) {
      assert(Math.abs(cpu[step]! - cl[step]!) <= 1e-3, `step ${step}: ${cpu[step]}, ${cl[step]}`);
    }
  }));

testOnBackends("a short run writes the model, the loss curve and its numbers", (backend) => {
  return inFolder(async (folder) => {
    const args = ["--device", backend, "--model", "cnn", "--epochs", "1", "--batch-size", "128"];
    const run = await runTrain(folder, [...args, "--seed", "3"]);
    assertEquals(run.code, 0, run.err);
    for (const name of ["model.safetensors", "loss.svg", "loss.json"]) {
      assertStringIncludes(run.out, `out/${name}`);
    }
    const { arrays, metadata } = decodeSafetensors(
      await Deno.readFile(`${folder}/out/model.safetensors`),
    );
    assertEquals(
      Object.entries(arrays).map(([name, { shape }]) => `${name} ${shape}`).sort(),
      ["0.bias 16", "0.weight 16,1,3,3", "3.bias 32", "3.weight 32,16,3,3", "7.bias 10"].concat(
        "7.weight 10,128",
      ),
    );
    assertEquals({ ...metadata }, { dataset: "digits", model: "cnn", seed: "3" });
    assertEquals((await losses(`${folder}/out`)).length, Math.ceil(1437 / 128));
    assertMatch(
      await Deno.readTextFile(`${folder}/out/loss.svg`),
      /^<svg [^]*digits, cnn, seed 3/,
    );
  });
});

testOnBackends("Ctrl+C saves the model before it ends", (backend) =>
  inFolder(async (folder) => {
    let isSent = false;
    const args = ["--device", backend, "--epochs", "100000"];
    const { code, out, err } = await runExample("train.ts", args, (out, child) => {
      if (isSent || !out.includes("epoch ")) return;
      isSent = true;
      child.kill("SIGINT");
    }, { folder });
    assertEquals(code, 130, out + err);
    assertStringIncludes(out, "interrupted in epoch");
    assertMatch(out, /accuracy: +0\.\d+ on unseen samples/);
    const { arrays } = decodeSafetensors(await Deno.readFile(`${folder}/out/model.safetensors`));
    for (const { data } of Object.values(arrays)) assert(Array.from(data, Number).every(isFinite));
    assert((await losses(`${folder}/out`)).length >= 45);
  }));

Deno.test("without OpenCL the built-in backend serves, and says why", () =>
  inFolder(async (folder) => {
    // Also where the environment names drivers by their files.
    const env = { OCL_ICD_VENDORS: `${folder}/`, OCL_ICD_FILENAMES: "" };
    const run = await runTrain(folder, ["--epochs", "1"], env);
    assertEquals(run.code, 0, run.err);
    assertMatch(run.out, /^device: +built-in CPU backend .*no OpenCL/m);
    const wish = await runTrain(folder, ["--epochs", "1", "--device", "cl"], env);
    assertEquals(wish.code, 2);
    assertEquals(wish.out, "");
    assertStringIncludes(wish.err, "apt install pocl-opencl-icd");
    assert(!wish.err.includes("    at "), "an error for people, without a stack trace");
  }));

Deno.test("a wrong flag ends with status 2 and the right ones", () =>
  inFolder(async (folder) => {
    const run = await runTrain(folder, ["--epoch", "3"]);
    assertEquals(run.code, 2);
    assertStringIncludes(
      run.err,
      "Unknown flag --epoch (did you mean --epochs?): the flags are --device, ",
    );
    const help = await runTrain(folder, ["--help"]);
    assertEquals(help.code, 0);
    assertStringIncludes(help.out, "--batch-size N");
  }));

testOpenCL("deno run without flags asks for what it needs, and works after y", () => {
  return inFolder(async (folder) => {
    const command = [Deno.execPath(), "run", "--no-check", train, "--epochs", "1"];
    const replies = [{ when: "Allow? [y/n/A]", type: "y\n" }];
    const { screen, code, answered } = await onTerminal(command, replies, folder);
    assertEquals(code, 0, screen);
    assert(answered.length <= 4, `asked ${answered.length} times`);
    assertMatch(screen, /device: +OpenCL /);
    assertMatch(screen, /\repoch 1\/1 +step +\d+\/45 +loss .* samples\/s +\d+ s left/);
    assertMatch(screen, /━━ training +━━ unseen/);
    assertMatch(screen, /accuracy: +0\.\d+ on unseen samples/);
    assert((await Deno.stat(`${folder}/out/model.safetensors`)).isFile);
  });
});

Deno.test("a permission that is refused is told before the work begins", () =>
  inFolder(async (folder) => {
    const flags = ["--no-check", "--no-prompt", "--allow-read"];
    const { code, err } = await runDeno(["run", ...flags, train], { cwd: folder });
    assertEquals(code, 2);
    assertStringIncludes(err, 'May not write "out": allow it with');
  }));
