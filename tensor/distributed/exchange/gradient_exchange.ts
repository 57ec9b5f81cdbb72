/**
 * How one bucket of gradients becomes its sum over the ranks. MPI adds up in host memory; where ranks of
 * one host have devices with memory of their own, each reads the others' gradients and its device adds.
 */
import {
  backendOf,
  type Communicator,
  type DeviceHandle,
  dtypes,
  type NodeStorage,
  type WireType,
} from "../../../backend/internal.ts";
import type { Tensor } from "../../core/tensor.ts";
import { Bucket } from "./bucket.ts";
import type { Pipeline } from "./pipeline.ts";

/** The gradients of a bucket; null for those that this rank does not have. */
export type Gradients = readonly (Tensor | null)[];

/** Sums on the device, the receiver's; null where no rank has the gradient. */
export type Sums = readonly (NodeStorage | null)[];

/** What a bucket's exchange is made from. */
export interface ExchangeLayout {
  readonly device: DeviceHandle;
  /** Elements of each gradient. */
  readonly sizes: readonly number[];
  /** What the elements are on their way. */
  readonly wire: WireType;
}

/** One bucket, again and again. */
export interface GradientExchange extends Disposable {
  /**
   * Begins to read this rank's gradients to the host, in the wire's type. Others may be read instead
   * before they are reduced.
   */
  read(gradients: Gradients): void;
  /**
   * Begins to reduce what was read.
   *
   * @param pipeline Goes on with it; over when `take` was called.
   * @param take Is given the sums over all ranks.
   */
  reduce(gradients: Gradients, pipeline: Pipeline, take: (sums: Sums) => void): void;
}

/** Marks behind the gradients: 1 for each that there is, in the wire's type. */
export function bytesOfMarks({ sizes, wire }: ExchangeLayout): number {
  return sizes.length * dtypes[wire].bytes;
}

/** Bytes of each gradient on its way. */
export function byteSizes({ sizes, wire }: ExchangeLayout): number[] {
  return sizes.map((size) => size * dtypes[wire].bytes);
}

/** The marks at the end of a bucket's memory. */
export function marksIn(
  { buffer, byteOffset, byteLength }: Uint8Array<ArrayBuffer>,
  { sizes, wire }: ExchangeLayout,
): Float32Array | Float64Array {
  const View = wire === "float64" ? Float64Array : Float32Array;
  const start = byteOffset + byteLength - sizes.length * View.BYTES_PER_ELEMENT;
  return new View(buffer, start, sizes.length);
}

/** Marks the gradients that there are. */
export function mark(marks: Float32Array | Float64Array, gradients: Gradients): void {
  marks.set(gradients.map((gradient) => gradient === null ? 0 : 1));
}

/** By MPI_Iallreduce. */
export class HostExchange implements GradientExchange {
  readonly #communicator: Communicator;
  readonly #layout: ExchangeLayout;
  readonly #bucket: Bucket;

  /** Reserves memory. */
  constructor(communicator: Communicator, layout: ExchangeLayout) {
    this.#communicator = communicator;
    this.#layout = layout;
    this.#bucket = new Bucket(backendOf(layout.device), byteSizes(layout), bytesOfMarks(layout));
  }

  read(gradients: Gradients): void {
    this.#bucket.forget();
    this.#bucket.read(gradients);
    mark(this.#marks, gradients);
  }

  reduce(_gradients: Gradients, pipeline: Pipeline, take: (sums: Sums) => void): void {
    const { bytes } = this.#bucket, { wire } = this.#layout;
    pipeline.add({
      bucket: this.#bucket,
      communicate: () => this.#communicator.allReduce(bytes, wire, "sum"),
      take: () => take(this.#sums()),
    });
  }

  #sums(): Sums {
    const stored = this.#bucket.write(), marks = this.#marks;
    return stored.map((storage, k) => {
      if (marks[k] !== 0) return storage;
      storage.release();
      return null;
    });
  }

  get #marks(): Float32Array | Float64Array {
    return marksIn(this.#bucket.bytes, this.#layout);
  }

  [Symbol.dispose](): void {
    this.#bucket[Symbol.dispose]();
  }
}
