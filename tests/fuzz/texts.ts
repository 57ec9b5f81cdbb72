/**
 * Random graphs planned for devices that exist as data alone: GPUs with and without warps, matrix units and
 * warpgroups, CPUs. No kernel runs; every text that such a device would be given is built here, with PTX
 * instructions replaced by what takes and gives their operands.
 */
import fc from "fast-check";
import { canOutline, outlinedKernel } from "../../backend/opencl/codegen/outlined_kernel.ts";
import { preludeFor } from "../../backend/opencl/codegen/prelude.ts";
import { type Generated, namedKernel } from "../../backend/opencl/codegen/generated.ts";
import { buildOptions, driverOf } from "../../backend/opencl/runtime/driver.ts";
import { KernelBuildError, Program } from "../../ffi/mod.ts";
import { compile, manager, type Tensor } from "../../mod.ts";
import { paperCPU, type PaperDevice, paperGPU, withPaperDevice } from "../backend/paper_device.ts";
import { build, follow, type Graph, graphs, leavesOf } from "../tensor/graphs/graph.ts";
import { withoutInstructions } from "./without_instructions.ts";

/** Texts of a program, at least: a compiler's start costs as much as dozens of them. */
const AT_ONCE = 64;

/** The devices by name. */
const paperDevices: Readonly<Record<string, PaperDevice>> = {
  "GPU": paperGPU({}, { localMemory: 32768 }),
  "GPU with warps": paperGPU({ warps: true }),
  "GPU with matrix units": paperGPU({ warps: true, matrixUnits: "mma" }),
  "GPU with warpgroups": paperGPU({ warps: true, matrixUnits: "mma", warpgroups: true }),
  "GPU whose indices are wide": paperGPU({ warps: true, matrixUnits: "mma", narrowEnd: 0 }),
  "CPU with vectors of 4": paperCPU(4),
  "CPU with vectors of 16": paperCPU(16),
};

/** A graph, the device that it is planned for, and whether it is compiled. */
export interface TextCase {
  readonly graph: Graph;
  readonly device: string;
  readonly isCompiled: boolean;
}

/** A text that a device is given, and the case that it is of. */
interface FoundText {
  readonly generated: Generated;
  readonly from: TextCase;
}

/** The fault of the text of a kernel: the compiler's words, or the error of the plan. */
export interface RefusedText {
  readonly from: TextCase;
  readonly fault: string;
}

const anyGraph = fc.oneof(
  { arbitrary: graphs(8, { sizes: "any rank", isOfAllTypes: true }), weight: 2 },
  { arbitrary: graphs(4, { sizes: "huge", isOfAllTypes: true }), weight: 1 },
);

/** Random graphs, each for one of the devices. */
const textCases: fc.Arbitrary<TextCase> = fc.record({
  graph: anyGraph,
  device: fc.constantFrom(...Object.keys(paperDevices)),
  isCompiled: fc.boolean(),
});

/** The device and the fault of a refused text. */
export function inWords({ from: { device, isCompiled }, fault }: RefusedText): string {
  return `${isCompiled ? "compiled for" : "for"} a ${device}: ${fault}`;
}

/** The number of texts that were built, and the first that was refused. */
export interface BuiltTexts {
  readonly built: number;
  readonly refused: RefusedText | null;
}

/** Plans so many random cases, and builds every text of theirs once. */
export function buildRandomTexts(cases: number, seed: number): BuiltTexts {
  return buildTexts(fc.sample(textCases, { numRuns: cases, seed }));
}

/** Plans cases, and builds every text of theirs once. */
export function buildTexts(cases: readonly TextCase[]): BuiltTexts {
  const known = new Set<string>();
  let waiting: FoundText[] = [];
  for (const from of cases) {
    try {
      plan(from, (generated) => {
        if (!known.has(generated.source)) waiting.push({ generated, from });
        known.add(generated.source);
      });
    } catch (error) {
      return { built: known.size, refused: { from, fault: String((error as Error).stack) } };
    }
    if (waiting.length < AT_ONCE) continue;
    const refused = firstRefused(waiting);
    if (refused !== null) return { built: known.size, refused };
    waiting = [];
  }
  return { built: known.size, refused: firstRefused(waiting) };
}

/** Plans a case; gives each text to `found`, and runs nothing. */
function plan(from: TextCase, found: (generated: Generated) => void): void {
  const { graph, isCompiled } = from;
  withPaperDevice(paperDevices[from.device]!, ({ generated }) => found(generated), () => {
    if (!isCompiled) return build(graph).forEach((t) => t.realize());
    const run = compile((...leaves: Tensor[]) => follow(graph, leaves));
    for (const round of [0, 1, 2]) run(...leavesOf(graph, round)).forEach((t) => t.realize());
  });
}

/** The first of the texts that the compiler refuses, or null. */
function firstRefused(texts: readonly FoundText[]): RefusedText | null {
  if (texts.length === 0) return null;
  const fault = logOf(texts), half = texts.length >> 1;
  if (fault === null) return null;
  if (half === 0) return { from: texts[0]!.from, fault };
  return firstRefused(texts.slice(0, half)) ?? firstRefused(texts.slice(half));
}

/** The compiler's words on a program of texts, or null where it takes them. */
function logOf(texts: readonly FoundText[]): string | null {
  const { clDevice, context } = manager.default("cl");
  const kernels = texts.map(({ generated, from }, k) => {
    const isCPU = !paperDevices[from.device]!.target.isGpu;
    return isCPU && canOutline(generated)
      ? outlinedKernel(`k${k}`, generated)
      : namedKernel(`k${k}`, generated.source);
  });
  const driver = driverOf(clDevice!), prelude = preludeFor(kernels.join("\n"), driver.readsHeader);
  const text = withoutInstructions([prelude, ...kernels].join("\n"));
  const program = new Program(context!, text);
  try {
    program.build(`${buildOptions(driver)} -cl-opt-disable`);
    return null;
  } catch (error) {
    if (error instanceof KernelBuildError) return error.message;
    throw error;
  } finally {
    program.release();
  }
}
