/**
 * How one bucket of gradients becomes its sum over the ranks. MPI adds up in host memory; where ranks of
 * one host have devices with memory of their own, each reads the others' gradients and its device adds.
 */
import {
  type Backend,
  type Communicator,
  dtypes,
  type Operation,
  type SharedParts,
  shareParts,
  type WireType,
} from "../../backend/internal.ts";
import type { Tensor } from "../core/tensor.ts";
import { Bucket, storedTensor, tensorOf } from "./bucket.ts";

/** The gradients of a bucket; null for those that this rank does not have. */
export type Gradients = readonly (Tensor | null)[];

/** What a bucket's exchange is made from. */
export interface ExchangeLayout {
  readonly backend: Backend;
  /** Elements of each gradient. */
  readonly sizes: readonly number[];
  /** What the elements are on their way. */
  readonly wire: WireType;
}

/** One bucket, again and again. */
export interface GradientExchange extends Disposable {
  /** Begins to read this rank's gradients to the host, in the wire's type. */
  read(gradients: Gradients): Bucket;
  /** Begins to communicate what was read. */
  communicate(): Operation;
  /**
   * The sums over all ranks, on the device; null where no rank has the gradient.
   *
   * @param likes A tensor of the shape and type of each gradient: what was read, where there is one.
   */
  take(gradients: Gradients, likes: readonly Tensor[]): (Tensor | null)[];
}

/** Marks behind the gradients: 1 for each that there is, in the wire's type. */
function bytesOfMarks({ sizes, wire }: ExchangeLayout): number {
  return sizes.length * dtypes[wire].bytes;
}

function byteSizes({ sizes, wire }: ExchangeLayout): number[] {
  return sizes.map((size) => size * dtypes[wire].bytes);
}

/** The marks at the end of a bucket's memory. */
function marksIn(
  { buffer, byteOffset, byteLength }: Uint8Array<ArrayBuffer>,
  { sizes, wire }: ExchangeLayout,
): Float32Array | Float64Array {
  const View = wire === "float64" ? Float64Array : Float32Array;
  const start = byteOffset + byteLength - sizes.length * View.BYTES_PER_ELEMENT;
  return new View(buffer, start, sizes.length);
}

function mark(marks: Float32Array | Float64Array, gradients: Gradients): void {
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
    this.#bucket = new Bucket(layout.backend, byteSizes(layout), bytesOfMarks(layout));
  }

  read(gradients: Gradients): Bucket {
    this.#bucket.read(gradients);
    mark(this.#marks, gradients);
    return this.#bucket;
  }

  communicate(): Operation {
    return this.#communicator.allReduce(this.#bucket.bytes, this.#layout.wire, "sum");
  }

  take(_gradients: Gradients, likes: readonly Tensor[]): (Tensor | null)[] {
    const stored = this.#bucket.write(), marks = this.#marks;
    return stored.map((storage, k) => {
      if (marks[k] !== 0) return storedTensor(storage, likes[k]!);
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

/** The memory of one turn. */
interface Turn {
  readonly shared: SharedParts;
  readonly bucket: Bucket;
}

/**
 * By memory that ranks share. A rank writes to its part only when the others have read what was there:
 * there are two of each, and who is at the barrier of one turn has read all parts of the turn before.
 */
export class DeviceExchange implements GradientExchange {
  readonly #communicator: Communicator;
  readonly #layout: ExchangeLayout;
  readonly #turns: readonly [Turn, Turn];
  #turn = 0;

  private constructor(communicator: Communicator, layout: ExchangeLayout, turns: [Turn, Turn]) {
    this.#communicator = communicator;
    this.#layout = layout;
    this.#turns = turns;
  }

  /** Reserves memory, on all ranks at once; null where they have none in common. */
  static share(communicator: Communicator, layout: ExchangeLayout): DeviceExchange | null {
    const sizes = byteSizes(layout), extra = bytesOfMarks(layout);
    const nbytes = sizes.reduce((a, b) => a + b, extra);
    const shared = [shareParts(communicator, nbytes), shareParts(communicator, nbytes)];
    const turns = shared.flatMap((parts): Turn[] =>
      parts === null ? [] : [{
        shared: parts,
        bucket: new Bucket(layout.backend, sizes, extra, parts.parts[communicator.rank]),
      }]
    );
    if (turns.length === 2) return new DeviceExchange(communicator, layout, turns as [Turn, Turn]);
    turns.forEach(close);
    return null;
  }

  read(gradients: Gradients): Bucket {
    this.#turn ^= 1;
    const { bucket } = this.#turns[this.#turn]!;
    bucket.read(gradients);
    mark(marksIn(bucket.bytes, this.#layout), gradients);
    return bucket;
  }

  communicate(): Operation {
    this.#turns[this.#turn ^ 1]!.bucket.finishCopies();
    return this.#communicator.barrier();
  }

  take(gradients: Gradients, likes: readonly Tensor[]): (Tensor | null)[] {
    const { shared: { parts }, bucket } = this.#turns[this.#turn]!;
    const { sizes } = this.#layout, { rank } = this.#communicator;
    const marks = parts.map((bytes) => marksIn(bytes, this.#layout));
    const total = sizes.reduce((a, b) => a + b, 0);
    bucket.forget();
    const landed = parts.map((bytes, r) =>
      r === rank ? null : tensorOf(bucket.uploadWhole(bytes), [total], likes[0]!)
    );
    let end = 0;
    const sums = likes.map(({ shape, size }, k) => {
      const start = end;
      end += size;
      // In the order of the ranks, so that all have the same bits.
      const terms = landed.flatMap((whole, r) => {
        if (whole === null) return gradients[k] ?? [];
        return marks[r]![k] === 0 ? [] : whole.slice([start, end]).reshape(shape);
      });
      return terms.length === 0 ? null : terms.reduce((a, b) => a.add(b));
    });
    for (const whole of landed) whole?.dispose();
    return sums;
  }

  [Symbol.dispose](): void {
    this.#turns.forEach(close);
  }
}

function close({ shared, bucket }: Turn): void {
  bucket[Symbol.dispose]();
  shared[Symbol.dispose]();
}
