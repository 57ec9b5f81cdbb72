/** Launches of kernels that users wrote: whole buffers and numbers are their arguments. */
import type { DeviceMemory } from "../../../memory/mod.ts";
import type { Block, Launch } from "../../execution/backend.ts";
import { countLaunch } from "../../profiling/counters.ts";
import type { CustomCall } from "../../graph/custom.ts";
import { dtypes } from "../../graph/dtype.ts";
import type { CustomKernelCall } from "../../kernel/kernel.ts";
import { encodeScalar } from "../../graph/kernel_declaration.ts";
import { sizeOf } from "../../graph/shape.ts";
import { activeTrace } from "../../profiling/trace.ts";
import type { KernelArguments } from "./kernel_arguments.ts";
import type { LaunchContext } from "./launch.ts";
import { enqueueTraced } from "../transfers/traced_command.ts";

/** The least memory that an argument gets: an empty tensor has none, and a kernel needs a pointer. */
const MIN_ARGUMENT_BYTES = 16;

/** One call of a user's kernel, ready to be enqueued with any buffers. */
export class CustomLaunch implements Launch {
  readonly name: string;
  readonly source: string;
  readonly bytes: number;
  readonly needsOwnBuffers = true;
  readonly #context: LaunchContext;
  readonly #memory: DeviceMemory;
  readonly #arguments: KernelArguments;
  readonly #call: CustomCall;
  /** For each output of the kernel its place among the launch's outputs; -1 where nobody reads it. */
  readonly #places: readonly number[];
  readonly #outputBytes: readonly number[];
  readonly #numbers: readonly ArrayBufferView[];
  readonly #global: BigUint64Array<ArrayBuffer>;
  readonly #local: BigUint64Array<ArrayBuffer> | null;

  constructor(
    context: LaunchContext,
    memory: DeviceMemory,
    args: KernelArguments,
    { call, stored }: CustomKernelCall,
  ) {
    this.#context = context;
    this.#memory = memory;
    this.#arguments = args;
    this.#call = call;
    this.name = call.kernel.name;
    this.source = call.kernel.source;
    this.#places = call.outputs.map((_, k) => stored.indexOf(k));
    this.#outputBytes = call.outputs.map(({ shape, dtype }) => sizeOf(shape) * dtypes[dtype].bytes);
    this.bytes = this.#outputBytes.reduce((sum, bytes) => sum + bytes, 0);
    const declared = call.kernel.declaration!.numbers;
    this.#numbers = call.numbers.map((value, k) => encodeScalar(value, declared[k]!.type!));
    this.#global = BigUint64Array.from(call.global, BigInt);
    this.#local = call.local && BigUint64Array.from(call.local, BigInt);
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
      const reads = inputs.map((block) => block.nbytes > 0 ? block : empty(0));
      const writes = this.#places.map((at, k) => outputs[at] ?? empty(this.#outputBytes[k]!));
      this.#setArguments([...reads, ...writes]);
      this.#enqueue();
    } finally {
      for (const block of scratch) block.release();
    }
    this.#arguments.launched(this.#context.queue);
    countLaunch(this.bytes);
    this.#context.afterLaunch(false);
  }

  #setArguments(blocks: readonly Block[]): void {
    const args = this.#arguments;
    blocks.forEach((block, k) => args.setBuffer(k, block.buffer));
    if (args.owner === this.#call) return;
    args.owner = null;
    this.#numbers.forEach((bytes, k) => args.kernel.setBytes(blocks.length + k, bytes));
    args.owner = this.#call;
  }

  #enqueue(): void {
    this.#context.tinyInRow = 0;
    const trace = activeTrace();
    if (trace) {
      return enqueueTraced(
        trace,
        this.#context.queue,
        { kernel: this.#arguments.kernel, global: this.#global, local: this.#local },
        this,
      );
    }
    const { kernel } = this.#arguments;
    this.#context.queue.enqueueKernel(kernel, this.#global.length, this.#global, this.#local);
  }
}
