/** Launches of kernels that users wrote. */
import type { DeviceMemory } from "../../../memory/mod.ts";
import type { Block, RepeatedLaunch } from "../../execution/backend.ts";
import { dtypes } from "../../graph/dtype.ts";
import type { CustomKernelCall } from "../../kernel/kernel.ts";
import { encodeScalar } from "../../graph/kernel_declaration.ts";
import { sizeOf } from "../../graph/shape.ts";
import { isFar, type KernelArguments, type LaunchKernels } from "./kernel_arguments.ts";
import { enqueue, type LaunchContext, type LaunchSizes, sizesOf } from "./launch.ts";

/** The least memory that an argument gets: an empty tensor has none, and a kernel needs a pointer. */
const MIN_ARGUMENT_BYTES = 16;

/** One call of a user's kernel, ready to be enqueued with any buffers. */
export class CustomLaunch implements RepeatedLaunch {
  readonly name: string;
  readonly source: string;
  readonly bytes: number;
  readonly needsOwnBuffers: boolean;
  /** Absent where an argument has no elements: what stands for it is another block in each run. */
  readonly repeated?: () => RepeatedLaunch;
  readonly #context: LaunchContext;
  readonly #memory: DeviceMemory;
  readonly #kernels: LaunchKernels;
  readonly #call: CustomKernelCall;
  /** For each output of the kernel its place among the launch's outputs; -1 where nobody reads it. */
  readonly #places: readonly number[];
  readonly #outputBytes: readonly number[];
  readonly #numbers: readonly ArrayBufferView[];
  readonly #sizes: LaunchSizes;

  /** @param isPlaced True where the text adds a place to each pointer. */
  constructor(
    context: LaunchContext,
    memory: DeviceMemory,
    kernels: LaunchKernels,
    kernelCall: CustomKernelCall,
    isPlaced: boolean,
  ) {
    const { call, stored, hasEmpty } = this.#call = kernelCall;
    this.#context = context;
    this.#memory = memory;
    this.#kernels = kernels;
    this.needsOwnBuffers = !isPlaced;
    this.name = call.kernel.name;
    this.source = call.kernel.source;
    this.#places = call.outputs.map((_, k) => stored.indexOf(k));
    this.#outputBytes = call.outputs.map(({ shape, dtype }) => sizeOf(shape) * dtypes[dtype].bytes);
    this.bytes = this.#outputBytes.reduce((sum, bytes) => sum + bytes, 0);
    const declared = call.kernel.declaration!.numbers;
    this.#numbers = call.numbers.map((value, k) => encodeScalar(value, declared[k]!.type!));
    this.#sizes = sizesOf(call.global, call.local);
    if (hasEmpty) return;
    this.repeated = () => new CustomLaunch(context, memory, kernels.copy(), kernelCall, isPlaced);
  }

  run(inputs: readonly Block[], outputs: readonly Block[]): void {
    const { uploads } = this.#context;
    if (!uploads.isEmpty) { for (const block of inputs) uploads.await(block); }
    // The queue is in order: what a later command writes there comes after the kernel.
    const scratch: Block[] = [];
    const empty = (nbytes: number): Block => {
      const block = this.#memory.allocate(Math.max(nbytes, MIN_ARGUMENT_BYTES), {
        label: this.name,
      });
      scratch.push(block);
      return block;
    };
    try {
      const blocks = [
        ...inputs.map((block) => block.nbytes > 0 ? block : empty(0)),
        ...this.#places.map((at, k) => outputs[at] ?? empty(this.#outputBytes[k]!)),
      ];
      this.#kernels.set((args) => this.#setArguments(args, blocks));
      this.again();
    } finally {
      for (const block of scratch) block.release();
    }
  }

  again(): void {
    enqueue(this.#context, this.#kernels.current, this.#sizes, this, false);
  }

  /** For a launch with arguments of its own. */
  [Symbol.dispose](): void {
    this.#kernels[Symbol.dispose]();
  }

  /**
   * Pointers come first, then the numbers of the call, then where the blocks begin. False where the kernel cannot
   * take a block.
   */
  #setArguments(args: KernelArguments, blocks: readonly Block[]): boolean {
    const { numbers } = this.#call.call;
    const first = blocks.length, places = first + numbers.length;
    for (let k = 0; k < first; k++) {
      const block = blocks[k]!, isWhole = this.needsOwnBuffers || isFar(block);
      const taken = this.needsOwnBuffers
        ? args.setBuffer(k, block.buffer)
        : args.setBlock(k, block);
      if (!taken) return false;
      if (!this.needsOwnBuffers) args.setIndex(places + k, isWhole ? 0 : block.offset);
    }
    for (let k = 0; k < numbers.length; k++) {
      args.setEncoded(first + k, numbers[k]!, this.#numbers[k]!);
    }
    return true;
  }
}
