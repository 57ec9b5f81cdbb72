/** A compiled kernel with its sizes: sets the arguments and enqueues it. */
import type { Buffer, CommandQueue, Kernel } from "../../ffi/mod.ts";
import type { Block, Launch } from "../backend.ts";
import { countLaunch } from "../counters.ts";
import { type DType, dtypes } from "../graph/dtype.ts";
import type { Parameter } from "../graph/emit.ts";
import { activeTrace, type Trace } from "../trace.ts";
import type { Generated } from "./codegen.ts";

const scratch = new ArrayBuffer(8);
const asInt = new Int32Array(scratch, 0, 1);
const asFloat = new Float32Array(scratch, 0, 1);
const asDouble = new Float64Array(scratch);
const asLong = new BigInt64Array(scratch);
const asByte = new Uint8Array(scratch, 0, 1);

/** The bytes of a constant in the compute type of `dtype`. */
function encode(value: number, dtype: DType): ArrayBufferView {
  switch (dtype) {
    case "float64":
      asDouble[0] = value;
      return asDouble;
    case "int64":
      asLong[0] = BigInt(Math.trunc(value));
      return asLong;
    case "int32":
      asInt[0] = value;
      return asInt;
    case "uint8":
    case "bool":
      asByte[0] = value;
      return asByte;
    default:
      asFloat[0] = value;
      return asFloat;
  }
}

function encodeParameter(parameter: Parameter): ArrayBufferView {
  if (parameter.kind === "constant") return encode(parameter.value, parameter.dtype);
  asInt[0] = parameter.kind === "index" ? parameter.value : parameter.stream.value;
  return asInt;
}

/** What a launch needs from its backend. */
export interface LaunchContext {
  readonly queue: CommandQueue;
  /** The buffer that receives the first index out of range. */
  readonly errors: () => Buffer;
  /** Called after every enqueue, to hold the host back. */
  readonly afterLaunch: (name: string) => void;
}

/** One kernel, ready to be enqueued with any buffers. */
export class KernelLaunch implements Launch {
  readonly name: string;
  readonly source: string;
  readonly bytes: number;
  readonly #context: LaunchContext;
  readonly #kernel: Kernel;
  readonly #generated: Generated;
  readonly #elementBytes: readonly number[];
  readonly #global: BigUint64Array<ArrayBuffer>;
  readonly #local: BigUint64Array<ArrayBuffer>;

  constructor(context: LaunchContext, kernel: Kernel, generated: Generated, bytes: number) {
    this.#context = context;
    this.#kernel = kernel;
    this.#generated = generated;
    this.#elementBytes = generated.buffers.map((dtype) => dtypes[dtype].bytes);
    this.bytes = bytes;
    this.source = `kernel void ${kernel.name}${generated.source}`;
    this.name = kernel.name;
    this.#global = BigUint64Array.from(generated.global, BigInt);
    this.#local = BigUint64Array.from(generated.local, BigInt);
  }

  run(inputs: readonly Block[], outputs: readonly Block[]): void {
    const kernel = this.#kernel;
    const count = inputs.length;
    let at = 0;
    for (const block of inputs) kernel.setBuffer(at++, block.base);
    for (const block of outputs) kernel.setBuffer(at++, block.base);
    if (this.#generated.checksIndices) kernel.setBuffer(at++, this.#context.errors());
    this.#elementBytes.forEach((bytes, k) => {
      asInt[0] = (k < count ? inputs[k]! : outputs[k - count]!).offset / bytes;
      kernel.setBytes(at++, asInt);
    });
    for (const p of this.#generated.parameters) kernel.setBytes(at++, encodeParameter(p));
    const trace = activeTrace();
    if (trace) this.#enqueueTraced(trace);
    else this.#context.queue.enqueueKernel(kernel, this.#global.length, this.#global, this.#local);
    countLaunch(this.bytes);
    this.#context.afterLaunch(this.name);
  }

  #enqueueTraced(trace: Trace): void {
    const { queue } = this.#context;
    const enqueuedAt = performance.now();
    const dims = this.#global.length;
    const event = queue.enqueueKernelEvent(this.#kernel, dims, this.#global, this.#local);
    trace.host(`enqueue ${this.name}`, enqueuedAt);
    const times = (): { queued: number; start: number; end: number } | null => {
      event.waitSync();
      const profile = queue.profiling ? event.profile : null;
      event.release();
      return profile && { queued: profile.queued, start: profile.started, end: profile.ended };
    };
    trace.device({ name: this.name, bytes: this.bytes, enqueuedAt, times });
  }
}
