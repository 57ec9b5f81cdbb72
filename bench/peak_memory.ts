/**
 * How much of a GPU's memory a compiled training step takes at its peak, beside PyTorch (eager, which
 * `python3` has, on the same card): the GPT of 10 million parameters and a ResNet-18.
 *
 *     deno run -A bench/peak_memory.ts [--device gpu] [--tiny] [--model gpt]
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

const STEPS = 5, MiB = 2 ** 20;

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

function resnet(isTiny: boolean): Work {
  const model = isTiny ? new ResNet([8, 16], 1) : new ResNet([64, 128, 256, 512], 2);
  const n = isTiny ? 4 : 128;
  return {
    model,
    optimizer: new optim.SGD(model.parameters(), { lr: 1e-2, momentum: 0.9 }),
    batch: [Tensor.rand([n, 3, 32, 32]).realize(), Tensor.randint(0, 10, [n]).realize()],
    precision: "float32",
  };
}

const works: Readonly<Record<string, (isTiny: boolean) => Work>> = {
  gpt: (isTiny) => gpt(isTiny),
  "gpt-bfloat16": (isTiny) => gpt(isTiny, "bfloat16"),
  resnet,
};

/** Bytes at the peak of a step, once memory is as it stays. */
async function peakOf(
  { model, optimizer, batch, precision }: Work,
): Promise<[held: number, reserved: number]> {
  const step = compile((x: Tensor, y: Tensor) => {
    const loss = amp.autocast(precision, () => model.forward(x).crossEntropy(y));
    optimizer.zeroGrad();
    loss.backward();
    optimizer.step();
    return loss;
  });
  const train = async (): Promise<void> => {
    for (let k = 0; k < STEPS; k++) step(...batch).realize().dispose();
    await backendOf(manager.active).finish();
  };
  await train();
  memory.resetPeakStats();
  await train();
  const { peakAllocated, peakReservedBytes } = memory.stats();
  return [peakAllocated, peakReservedBytes];
}

/** What PyTorch's allocator held at most; null where it cannot be asked. */
function torchPeak(name: string): number | null {
  const script = [
    "import sys, torch",
    `sys.path.insert(0, ${JSON.stringify(fileURLToPath(new URL("peers", import.meta.url)))})`,
    "from torch_models import makers",
    `run = makers("cuda", True)["${name}"](${name === "resnet" ? 128 : 64})`,
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
async function measure(name: string, isTiny: boolean): Promise<void> {
  manualSeed(0);
  const [held, reserved] = await peakOf(works[name]!(isTiny));
  const torch = isTiny ? null : torchPeak(name), inMiB = (bytes: number) => Math.round(bytes / MiB);
  const beside = torch === null
    ? ""
    : `  PyTorch ${inMiB(torch)} MiB  ratio ${(held / torch).toFixed(2)}`;
  console.log(`${name}: peak ${inMiB(held)} MiB, reserved ${inMiB(reserved)} MiB${beside}`);
}

// What a device's own kernels need is measured, not what computes while they are compiled.
setDeterministic(true);
const { device: selector, tiny, model } = argumentsOrExit((args) =>
  flagValues(args, {
    device: { type: "string", default: "gpu" },
    tiny: { type: "boolean", default: false },
    model: { type: "string", default: "all" },
  })
);
using _active = device(selector);
if (model in works) await measure(model, tiny);
else {
  // A process each: what one model leaves behind does not count for the next.
  for (const name of Object.keys(works)) {
    const args = ["run", "-A", fileURLToPath(import.meta.url), "--model", name];
    const { code } = new Deno.Command(Deno.execPath(), {
      args: [...args, "--device", selector, ...(tiny ? ["--tiny"] : [])],
      stdout: "inherit",
      stderr: "inherit",
    }).outputSync();
    if (code !== 0) Deno.exit(code);
  }
}
