/**
 * Exchange of a gradient bucket for the ranks' mean. MPI adds up in host memory; ranks of one
 * host read each other's gradients from memory that they share, and their devices add.
 */
import {
  backendOf,
  type Block,
  type Communicator,
  type DeviceHandle,
  type DType,
  dtypes,
  type WireType,
} from "../../../backend/internal.ts";
import { RepeatedLaunches } from "../../execution/repeated_launches.ts";
import { Bucket } from "./bucket.ts";
import type { FlatLayout } from "./flat_layout.ts";
import type { Packed } from "./packer.ts";
import type { Pipeline } from "./pipeline.ts";
import { wireTypeOf } from "./wire.ts";

/** Means of a bucket's gradients on the device. */
export interface Means {
  /** All of them side by side, in the parameters' type; the receiver's to release. */
  readonly block: Block;
  /** True where any rank has the gradient; else what is there has no meaning. */
  readonly present: readonly boolean[];
}

/** Layout of a bucket's exchange. */
export interface ExchangeLayout {
  readonly device: DeviceHandle;
  /** The gradients. */
  readonly layout: FlatLayout;
  /** Their type. */
  readonly dtype: DType;
  /** The type in which they are added up. */
  readonly wire: WireType;
}

/**
 * The type in which devices add: float64 where they have it, so that a mean is the exact one, rounded once.
 * Thirds of float32 are rounded twice, and Adam's first steps make much of the last bits of small gradients.
 */
export function sumTypeOf(dtype: DType, hasFloat64: boolean): WireType {
  return hasFloat64 ? "float64" : wireTypeOf(dtype, "mean");
}

/** True where a device computes in float64. */
export function hasFloat64(device: DeviceHandle): boolean {
  return backendOf(device).capabilities.dtypes.has("float64");
}

/** One bucket, again and again. */
export interface GradientExchange extends Disposable {
  /** Element type of packed gradients. */
  readonly sent: DType;
  /** Begins to read this rank's gradients. Others may be read instead before they are reduced. */
  read(own: Packed): void;
  /** Gets ready for the others' gradients, when the own ones and more work behind them are enqueued. */
  expect(): void;
  /**
   * Begins to reduce what was read.
   *
   * @param own What was read; passes to the exchange.
   * @param pipeline Goes on with it; over when `take` was called.
   * @param take Is given the means over all ranks.
   */
  reduce(own: Packed, pipeline: Pipeline, take: (means: Means) => void): void;
}

/** Launches that make means of one rank's gradients after the other's, as `inputs` of the type `sent`. */
export function recordMeans(
  { device, layout: { size }, dtype, wire }: ExchangeLayout,
  { sent, inputs, divisor }: {
    readonly sent: DType;
    readonly inputs: number;
    readonly divisor: number;
  },
): RepeatedLaunches {
  const likes = Array.from({ length: inputs }, () => ({ shape: [size], dtype: sent }));
  return new RepeatedLaunches(device, likes, (parts) => {
    // In the order of the ranks, so that all have the same bits.
    const sum = parts.map((part) => part.cast(wire)).reduce((a, b) => a.add(b));
    return [sum.div(divisor).cast(dtype)];
  });
}

/** By MPI_Iallreduce. */
export class HostExchange implements GradientExchange {
  readonly sent: DType;
  readonly #communicator: Communicator;
  readonly #layout: ExchangeLayout;
  readonly #bucket: Bucket;
  /** Behind the gradients: on how many ranks each is. */
  readonly #marks: Float32Array | Float64Array;
  #means: RepeatedLaunches | null = null;

  /** Reserves memory. */
  constructor(communicator: Communicator, layout: ExchangeLayout) {
    const { device, wire, layout: { size, sizes } } = layout, { bytes } = dtypes[wire];
    const extraBytes = sizes.length * bytes;
    this.sent = wire;
    this.#communicator = communicator;
    this.#layout = layout;
    const bucket = this.#bucket = new Bucket(backendOf(device), size * bytes, extraBytes);
    const { buffer, byteOffset } = bucket.bytes, View = bytes === 8 ? Float64Array : Float32Array;
    this.#marks = new View(buffer, byteOffset + bucket.nbytes, sizes.length);
  }

  read({ block, present }: Packed): void {
    this.#bucket.read(block);
    this.#marks.set(present.map(Number));
  }

  expect(): void {}

  reduce(own: Packed, pipeline: Pipeline, take: (means: Means) => void): void {
    const bucket = this.#bucket, { wire } = this.#layout;
    bucket.hold(own);
    pipeline.add({
      bucket,
      communicate: () => this.#communicator.allReduce(bucket.bytes, wire, "sum"),
      take: () => {
        bucket.releaseHeld();
        take(this.#taken());
      },
    });
  }

  #taken(): Means {
    const landed = this.#bucket.upload(), divisor = this.#communicator.size;
    this.#means ??= recordMeans(this.#layout, { sent: this.sent, inputs: 1, divisor });
    try {
      const present = [...this.#marks].map((mark) => mark !== 0);
      return { block: this.#means.runToBlock([landed]), present };
    } finally {
      landed.release();
    }
  }

  [Symbol.dispose](): void {
    this.#bucket[Symbol.dispose]();
    this.#means?.[Symbol.dispose]();
  }
}
