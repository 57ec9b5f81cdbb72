/** A compiled kernel with its sizes: sets the arguments and enqueues it. */
import type { Buffer, CommandQueue } from "../../../ffi/mod.ts";
import type { PendingUploads } from "../../../memory/mod.ts";
import type { Block, KeptOutput, Launch, RepeatedLaunch } from "../../execution/backend.ts";
import { countLaunch } from "../../profiling/counters.ts";
import { dtypes } from "../../graph/dtype.ts";
import { activeTrace } from "../../profiling/trace.ts";
import { type Generated, namedKernel } from "../codegen/generated.ts";
import type { Work } from "../templates/launch_steps.ts";
import { sequence } from "../../execution/launch_sequence.ts";
import { isFar, type KernelArguments, type LaunchKernels } from "./kernel_arguments.ts";
import { enqueueTraced } from "../transfers/traced_command.ts";

/** A launch's needs of its backend. */
export interface LaunchContext {
  readonly queue: CommandQueue;
  /** Blocks that are still being filled beside the kernels. */
  readonly uploads: PendingUploads;
  /** The buffer that receives the first index out of range. */
  readonly errors: () => Buffer;
  /** Called after every enqueue, to hold the host back. */
  readonly afterLaunch: (isTiny: boolean) => void;
  /** The driver runs kernels on threads of this machine, which sleep while there is nothing to do. */
  readonly wakesThreads: boolean;
  /** Tiny launches in a row. */
  tinyInRow: number;
}

/** A launch of fewer operations takes a thread less time than it takes to wake one. */
const MAX_TINY_OPERATIONS = 1 << 18;
/** So many tiny launches in a row are enough to expect more. */
const MIN_TINY_STREAK = 4;

/** One kernel, ready to be enqueued with any buffers. */
export class KernelLaunch implements RepeatedLaunch {
  readonly name: string;
  readonly source: string;
  readonly bytes: number;
  readonly #context: LaunchContext;
  readonly #kernels: LaunchKernels;
  readonly #generated: Generated;
  readonly #work: Work;
  readonly #elementBytes: readonly number[];
  readonly #sizes: LaunchSizes;
  readonly #isTiny: boolean;
  readonly #hasStreams: boolean;

  constructor(context: LaunchContext, kernels: LaunchKernels, generated: Generated, work: Work) {
    this.#context = context;
    this.#kernels = kernels;
    this.#generated = generated;
    this.#work = work;
    this.#elementBytes = generated.buffers.map((dtype) => dtypes[dtype].bytes);
    this.bytes = work.bytes;
    this.name = kernels.current.kernel.name;
    this.source = namedKernel(this.name, generated.source);
    this.#sizes = sizesOf(generated.global, generated.local);
    this.#isTiny = context.wakesThreads && work.operations <= MAX_TINY_OPERATIONS;
    this.#hasStreams = generated.parameters.some((p) => p.kind === "stream");
  }

  run(inputs: readonly Block[], outputs: readonly Block[]): void {
    const { uploads } = this.#context;
    if (!uploads.isEmpty) { for (const block of [...inputs, ...outputs]) uploads.await(block); }
    this.#kernels.set((args) => this.#setArguments(args, inputs, outputs));
    this.#launch();
  }

  repeated(): RepeatedLaunch {
    return new KernelLaunch(this.#context, this.#kernels.copy(), this.#generated, this.#work);
  }

  again(): void {
    if (this.#generated.checksIndices) {
      this.#kernels.current.setBuffer(this.#elementBytes.length, this.#context.errors());
    }
    if (this.#hasStreams) this.#setParameters(this.#kernels.current);
    this.#launch();
  }

  /** For a launch with arguments of its own. */
  [Symbol.dispose](): void {
    this.#kernels[Symbol.dispose]();
  }

  #launch(): void {
    enqueue(this.#context, this.#kernels.current, this.#sizes, this, this.#isTiny);
  }

  /** False where the kernel cannot take a block. */
  #setArguments(
    args: KernelArguments,
    inputs: readonly Block[],
    outputs: readonly Block[],
  ): boolean {
    const bytes = this.#elementBytes;
    let at = 0, taken = true;
    for (const block of inputs) taken &&= args.setBlock(at++, block);
    for (const block of outputs) taken &&= args.setBlock(at++, block);
    if (!taken) return false;
    if (this.#generated.checksIndices) args.setBuffer(at++, this.#context.errors());
    let k = 0;
    for (const block of inputs) args.setIndex(at++, startOf(block, bytes[k++]!));
    for (const block of outputs) args.setIndex(at++, startOf(block, bytes[k++]!));
    if (args.owner !== this || this.#hasStreams) this.#setParameters(args);
    return true;
  }

  /** The scalar parameters come last, behind the buffers and where each begins. */
  #setParameters(args: KernelArguments): void {
    const { parameters, isWide, checksIndices } = this.#generated;
    const first = 2 * this.#elementBytes.length + (checksIndices ? 1 : 0);
    args.owner = null;
    args.setParameters(first, parameters, isWide);
    args.owner = this;
  }
}

/** Work-items of a launch, and of a group; null where the driver chooses. */
export interface LaunchSizes {
  readonly global: BigUint64Array<ArrayBuffer>;
  readonly local: BigUint64Array<ArrayBuffer> | null;
}

/** The sizes as the driver takes them. */
export function sizesOf(global: readonly number[], local: readonly number[] | null): LaunchSizes {
  return {
    global: BigUint64Array.from(global, BigInt),
    local: local && BigUint64Array.from(local, BigInt),
  };
}

/**
 * Enqueues a kernel whose arguments are set. One of many tiny launches does not wake the driver's threads by
 * itself.
 */
export function enqueue(
  context: LaunchContext,
  args: KernelArguments,
  { global, local }: LaunchSizes,
  launch: Pick<Launch, "name" | "bytes">,
  isTiny: boolean,
): void {
  const { queue } = context, { kernel } = args, trace = activeTrace();
  args.settle();
  context.tinyInRow = isTiny ? context.tinyInRow + 1 : 0;
  if (trace) enqueueTraced(trace, queue, { kernel, global, local }, launch);
  else if (context.tinyInRow <= MIN_TINY_STREAK) {
    queue.enqueueKernel(kernel, global.length, global, local);
  } else queue.enqueueKernelHeld(kernel, global.length, global, local);
  args.launched(queue);
  countLaunch(launch.bytes);
  context.afterLaunch(isTiny);
}

/** Launches of the same buffers, one after the other; `kept` is what all but the last make. */
export function inSequence(launches: readonly Launch[], kept?: KeptOutput): Launch {
  const run = (launches: readonly Launch[]): Launch["run"] => (inputs, outputs) => {
    for (const launch of launches) launch.run(inputs, outputs);
  };
  return sequence(launches[0]!.name, launches, run, kept);
}

/** Start of a block in its memory object, in elements. */
function startOf(block: Block, elementBytes: number): number {
  return isFar(block) ? 0 : block.offset / elementBytes;
}
