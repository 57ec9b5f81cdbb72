/** The ways to compute one contraction, side by side on the same random numbers. */
import { PendingUploads } from "../../memory/mod.ts";
import type { Block, Launch } from "../../backend/execution/backend.ts";
import { dtypes } from "../../backend/graph/dtype.ts";
import { splitK } from "../../backend/schedule/passes/split_k.ts";
import type { Tuned } from "../../backend/kernel/target.ts";
import { generateKernel, planKernel, sumParts } from "../../backend/opencl/templates/generate.ts";
import {
  inSequence,
  KernelLaunch,
  type LaunchContext,
} from "../../backend/opencl/runtime/launch.ts";
import type { OpenCLBackend } from "../../backend/opencl/runtime/opencl_backend.ts";
import type { Generated } from "../../backend/opencl/codegen/generated.ts";
import { Programs } from "../../backend/opencl/runtime/programs.ts";
import { keyOf } from "../../backend/opencl/templates/parts/tiling.ts";
import { OpenCLError } from "../../ffi/mod.ts";
import type { ContractionWork, Operand } from "./works.ts";

const FLOAT = 4;
/** Sums in another order differ in their last digits, by at most this share of the largest result. */
const SLACK = 1e-4;

/** The median of some times. */
export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!;
}

/** A contraction with its blocks, built in several ways; the first is what the others must match. */
export class Trial {
  readonly #backend: OpenCLBackend;
  readonly #programs: Programs;
  readonly #launches: readonly Launch[];
  readonly #inputs: readonly Block[];
  readonly #outputs: readonly Block[];

  constructor(backend: OpenCLBackend, work: ContractionWork, ways: readonly Tuned[]) {
    this.#backend = backend;
    const { context, clDevice } = backend.device;
    // Without the cache of binaries: hardly one of these programs is ever asked for again.
    this.#programs = new Programs(context!, clDevice!, null);
    this.#launches = this.#build(work, ways);
    const blocks = (sizes: ContractionWork["inputs"]): Block[] =>
      sizes.map(({ size }) => backend.memory.allocate(size * FLOAT));
    this.#inputs = blocks(work.inputs);
    this.#outputs = blocks(work.outputs);
    for (const block of this.#inputs) this.#fill(block, () => Math.random() - 0.5);
  }

  #build(work: ContractionWork, ways: readonly Tuned[]): Launch[] {
    const plans = ways.map((way) => {
      const target = { ...this.#backend.target, tuned: new Map([[keyOf(work.shape), way]]) };
      const parts = sumParts(work.kernel, target);
      const split = parts > 1 ? splitK(work.kernel, parts) : null;
      const kernels = split ? [split.partial, split.final] : [work.kernel];
      const steps = kernels.map((kernel) => ({
        texts: generateKernel(kernel, target),
        scratch: planKernel(kernel, target).scratch,
      }));
      return { split, steps };
    });
    const label = work.kernel.label;
    const texts = plans.flatMap(({ steps }) => steps.flatMap((step) => step.texts));
    const textOf = (generated: Generated) => ({ source: generated.source, label, generated });
    this.#programs.build(texts.map(textOf));
    const context = launchContext(this.#backend), unlimited = { bytes: 0, operations: Infinity };
    return plans.map(({ split, steps }) => {
      const [first, second] = steps.map(({ texts, scratch }) => {
        const launches = texts.map((text) =>
          new KernelLaunch(context, this.#programs.forms(textOf(text)), text, unlimited)
        );
        return withScratch(inSequence(launches), scratch, this.#backend);
      });
      if (split === null) return first!;
      return inTwoSteps(first!, second!, split.partial.outputs, this.#backend);
    });
  }

  #fill(block: Block, value: () => number): void {
    const floats = Float32Array.from({ length: block.nbytes / FLOAT }, value);
    this.#backend.write(block, new Uint8Array(floats.buffer));
  }

  /** The ways that run on this device and give the values of the first. */
  async sound(): Promise<number[]> {
    const wanted = await this.#values(0);
    const sound = [0];
    for (let way = 1; way < this.#launches.length; way++) {
      try {
        const values = await this.#values(way);
        if (values.every((value, k) => isNear(value, wanted[k]!))) sound.push(way);
      } catch (error) {
        // Too many registers or too much local memory for this device.
        if (!(error instanceof OpenCLError)) throw error;
      }
    }
    return sound;
  }

  async #values(way: number): Promise<Float32Array[]> {
    for (const block of this.#outputs) this.#fill(block, () => NaN);
    this.#launches[way]!.run(this.#inputs, this.#outputs);
    const values = this.#outputs.map(({ nbytes }) => new Float32Array(nbytes / FLOAT));
    for (const [k, block] of this.#outputs.entries()) {
      await this.#backend.read(block, new Uint8Array(values[k]!.buffer));
    }
    return values;
  }

  /** The milliseconds of a call, of so many in a row. */
  async time(way: number, calls: number): Promise<number> {
    const launch = this.#launches[way]!;
    const began = performance.now();
    for (let call = 0; call < calls; call++) launch.run(this.#inputs, this.#outputs);
    await this.#backend.finish();
    return (performance.now() - began) / calls;
  }

  [Symbol.dispose](): void {
    for (const block of [...this.#inputs, ...this.#outputs]) block.release();
    this.#programs.dispose();
  }
}

/** Calls a function with blocks that live as long. */
function withBlocks(
  arrays: readonly Operand[],
  { memory }: OpenCLBackend,
  use: (blocks: readonly Block[]) => void,
): void {
  const blocks = arrays.map(({ dtype, size }) => memory.allocate(size * dtypes[dtype].bytes));
  use(blocks);
  for (const block of blocks) block.release();
}

/** A launch whose scratch stands behind its outputs. */
function withScratch(launch: Launch, scratch: readonly Operand[], backend: OpenCLBackend): Launch {
  return {
    ...launch,
    run: (inputs, outputs) =>
      withBlocks(scratch, backend, (blocks) => launch.run(inputs, [...outputs, ...blocks])),
  };
}

/** Two launches as one: the first writes blocks that live from it to the second, which reads them. */
function inTwoSteps(
  first: Launch,
  second: Launch,
  between: readonly Operand[],
  backend: OpenCLBackend,
): Launch {
  return {
    ...second,
    run: (inputs, outputs) =>
      withBlocks(between, backend, (blocks) => {
        first.run(inputs, blocks);
        second.run([...inputs, ...blocks], outputs);
      }),
  };
}

function launchContext({ device }: OpenCLBackend): LaunchContext {
  return {
    queue: device.queue!,
    uploads: new PendingUploads(null),
    errors: () => {
      throw new Error("A contraction checks no indices");
    },
    afterLaunch: () => {},
    wakesThreads: false,
    tinyInRow: 0,
  };
}

/** True if values are those wanted, but for the last digits. */
export function isNear(values: Float32Array, wanted: Float32Array): boolean {
  const largest = wanted.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return values.every((value, k) => Math.abs(value - wanted[k]!) <= SLACK * largest);
}
