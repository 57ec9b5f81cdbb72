/**
 * The peak of a GPU's memory in a training step, compiled and plain, beside PyTorch (eager,
 * which `python3` has, on the same card): the GPT of 10 million parameters and a ResNet-18, in float32 and
 * under autocast. Plain steps dispose of nothing and do not await.
 *
 *     deno run -A bench/peak_memory.ts [--device gpu] [--tiny] [--model gpt] [--plain]
 *
 * For each model it prints the bytes that tensors held at most, what was reserved of the driver, and the
 * ratio to PyTorch's (`max_memory_allocated`); without PyTorch or CUDA, netcl's alone.
 */
import { fileURLToPath } from "node:url";
import {
  amp,
  compile,
  device,
  manager,
  manualSeed,
  memory,
  type nn,
  optim,
  setDeterministic,
  Tensor,
} from "../mod.ts";
import { backendOf } from "../backend/internal.ts";
import { argumentsOrExit, flagValues } from "./arguments.ts";
import { GPT, type Precision, ResNet } from "./peers/models.ts";

const STEPS = 20, MiB = 2 ** 20;

/** A model with an optimizer and one batch. */
interface Work {
  readonly model: nn.Module;
  readonly optimizer: optim.Optimizer;
  readonly batch: readonly [x: Tensor, y: Tensor];
  readonly precision: Precision;
}

function gpt(isTiny: boolean, precision: Precision = "float32"): Work {
  const sizes = {
    vocabulary: 65,
    context: isTiny ? 16 : 256,
    width: isTiny ? 24 : 384,
    heads: 6,
    layers: 6,
  };
  const model = new GPT(sizes), n = isTiny ? 2 : 64;
  const ids = (...shape: number[]): Tensor => Tensor.randint(0, 65, shape).realize();
  return {
    model,
    optimizer: new optim.AdamW(model.parameters(), { lr: 1e-3 }),
    batch: [ids(n, sizes.context), ids(n * sizes.context)],
    precision,
  };
}

function resnet(isTiny: boolean, precision: Precision = "float32"): Work {
  const model = isTiny ? new ResNet([8, 16], 1) : new ResNet([64, 128, 256, 512], 2);
  const n = isTiny ? 4 : 128;
  return {
    model,
    optimizer: new optim.SGD(model.parameters(), { lr: 1e-2, momentum: 0.9 }),
    batch: [Tensor.rand([n, 3, 32, 32]).realize(), Tensor.randint(0, 10, [n]).realize()],
    precision,
  };
}

const works: Readonly<Record<string, (isTiny: boolean) => Work>> = {
  gpt: (isTiny) => gpt(isTiny),
  "gpt-bfloat16": (isTiny) => gpt(isTiny, "bfloat16"),
  "gpt-float16": (isTiny) => gpt(isTiny, "float16"),
  resnet: (isTiny) => resnet(isTiny),
  "resnet-bfloat16": (isTiny) => resnet(isTiny, "bfloat16"),
  "resnet-float16": (isTiny) => resnet(isTiny, "float16"),
};

/** Bytes at the peak of a step, once memory is as it stays. */
async function peakOf(
  { model, optimizer, batch, precision }: Work,
  isPlain: boolean,
): Promise<[held: number, reserved: number]> {
  const plain = (x: Tensor, y: Tensor): Tensor => {
    const loss = amp.autocast(precision, () => model.forward(x).crossEntropy(y));
    optimizer.zeroGrad();
    loss.backward();
    optimizer.step();
    return loss;
  };
  const step = isPlain ? plain : compile(plain);
  const train = async (): Promise<void> => {
    for (let k = 0; k < STEPS; k++) step(...batch).realize();
    await backendOf(manager.active).finish();
  };
  await train();
  memory.resetPeakStats();
  await train();
  const { peakAllocated, peakReservedBytes } = memory.stats();
  return [peakAllocated, peakReservedBytes];
}

/** The most that PyTorch's allocator held; null where it cannot be asked. */
function torchPeak(name: string): number | null {
  const script = [
    "import sys, torch",
    `sys.path.insert(0, ${JSON.stringify(fileURLToPath(new URL("peers", import.meta.url)))})`,
    "from torch_models import makers",
    `run = makers("cuda", True)["${name}"](${name.startsWith("resnet") ? 128 : 64})`,
    `for _ in range(${STEPS}): run()`,
    "torch.cuda.synchronize(); torch.cuda.reset_peak_memory_stats()",
    `for _ in range(${STEPS}): run()`,
    "print(torch.cuda.max_memory_allocated())",
  ].join("\n");
  try {
    const { success, stdout } = new Deno.Command("python3", { args: ["-c", script] }).outputSync();
    return success ? Number(new TextDecoder().decode(stdout)) : null;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/** Measures one model and prints it. */
async function measure(name: string, isTiny: boolean, isPlain: boolean): Promise<void> {
  manualSeed(0);
  const [held, reserved] = await peakOf(works[name]!(isTiny), isPlain);
  const torch = isTiny ? null : torchPeak(name), inMiB = (bytes: number) => Math.round(bytes / MiB);
  const beside = torch === null
    ? ""
    : `  PyTorch ${inMiB(torch)} MiB  ratio ${(held / torch).toFixed(2)}`;
  console.log(
    `${name}${isPlain ? " plain" : ""}: peak ${inMiB(held)} MiB, reserved ${
      inMiB(reserved)
    } MiB${beside}`,
  );
}

// What a device's own kernels need is measured, not what computes while they are compiled.
setDeterministic(true);
const { device: selector, tiny, model, plain } = argumentsOrExit((args) =>
  flagValues(args, {
    device: { type: "string", default: "gpu" },
    tiny: { type: "boolean", default: false },
    model: { type: "string", default: "all" },
    plain: { type: "boolean", default: false },
  })
);
using _active = device(selector);
if (model in works) await measure(model, tiny, plain);
else {
  // A process each: what one model leaves behind does not count for the next.
  const runs = Object.keys(works).flatMap((name) => [[name], [name, "--plain"]]);
  for (const run of runs) {
    const args = ["run", "-A", fileURLToPath(import.meta.url), "--model", ...run];
    const { code } = new Deno.Command(Deno.execPath(), {
      args: [...args, "--device", selector, ...(tiny ? ["--tiny"] : [])],
      stdout: "inherit",
      stderr: "inherit",
    }).outputSync();
    if (code !== 0) Deno.exit(code);
  }
}
