import { type DeviceHandle, type DType, ZERO_BYTE } from "../../../../backend/internal.ts";
import { act } from "../../../core/operations.ts";
import { internally } from "../../../core/modes/temporaries.ts";
import { exposed } from "../../../core/internals.ts";
import { Tensor } from "../../../class/tensor.ts";
import { writeRows } from "../../../execution/assignment.ts";
import { realizeAll } from "../../../execution/realization.ts";
import type { CachedRows } from "../../../nn/attention/filled_attention.ts";

/** The sizes of a {@linkcode DecoderCache}. */
export interface DecoderCacheOptions {
  readonly layers: number;
  /** Sequences side by side. */
  readonly batch: number;
  /** Heads of keys and values. */
  readonly heads: number;
  /** Positions that there is room for. */
  readonly capacity: number;
  /** Features of a head. */
  readonly features: number;
  /** The type of its numbers; "int8" for bytes with a scale for each position of a head. */
  readonly dtype: DType | "int8";
  readonly device: DeviceHandle;
}

/** Places of one pass's positions. */
export interface CacheStep {
  /** The slots of the new positions, int32 of (N, count). */
  readonly slots: Tensor;
  /** The number of slots of each sequence that are filled with them, int32 of (N). */
  readonly filled: Tensor;
}

/** Empty keys, or values, of a layer: (N, heads, capacity, features). */
function emptyRows(
  { batch, heads, capacity, features, dtype, device }: DecoderCacheOptions,
): CachedRows {
  const lead = [batch, heads, capacity], isQuantised = dtype === "int8";
  const rows = Tensor.zeros([...lead, features], { dtype: isQuantised ? "uint8" : dtype, device });
  return { rows, scales: isQuantised ? Tensor.zeros([...lead, 1], { device }) : null };
}

/** The largest distance of a byte from the one that stands for 0. */
const MAX_STEPS = 127;

/** Rows of numbers as bytes: the largest of a row is {@linkcode MAX_STEPS} steps from 0. */
function quantised(x: Tensor): { readonly rows: Tensor; readonly scales: Tensor } {
  const numbers = x.cast("float32"), most = numbers.abs().max(-1, { keepDims: true });
  // Rows of zeros have a step, too, or they were no numbers.
  const steps = most.div(MAX_STEPS), divisor = steps.eq(0).where(1, steps);
  return { rows: numbers.div(divisor).round().add(ZERO_BYTE).cast("uint8"), scales: steps };
}

/**
 * The keys and values of all layers of a decoder: so many positions of each sequence are filled. New ones are
 * written in place, and attention reads what is filled.
 */
export class DecoderCache implements Disposable {
  readonly capacity: number;
  readonly batch: number;
  /** Of each layer, (N, heads, capacity, features). */
  readonly keys: readonly CachedRows[];
  readonly values: readonly CachedRows[];
  /** The number of filled positions of each sequence, int32 of (N), on the device. */
  readonly filled: Tensor;
  /** By how many it grows with a pass of one position: 1, or 0 for a sequence that rests; int32 of (N). */
  readonly growth: Tensor;
  readonly #lengths: number[];
  readonly #growth: number[];

  constructor(options: DecoderCacheOptions) {
    const { layers, batch, capacity, device } = options, empty = () => emptyRows(options);
    this.capacity = capacity;
    this.batch = batch;
    this.keys = Array.from({ length: layers }, empty);
    this.values = Array.from({ length: layers }, empty);
    this.#lengths = Array(batch).fill(0);
    this.#growth = Array(batch).fill(1);
    this.filled = Tensor.zeros([batch], { dtype: "int32", device });
    this.growth = this.filled.onesLike();
    realizeAll(this.tensors);
  }

  /** Number of positions of each sequence. */
  get lengths(): readonly number[] {
    return this.#lengths;
  }

  /** Number of positions of the longest sequence. */
  get length(): number {
    return Math.max(...this.#lengths);
  }

  /** All that it holds on the device. */
  get tensors(): Tensor[] {
    return [...this.#rows, this.filled, this.growth];
  }

  /** All that has an axis of positions. */
  get #rows(): Tensor[] {
    return [...this.keys, ...this.values].flatMap(({ rows, scales }) =>
      scales ? [rows, scales] : [rows]
    );
  }

  /**
   * Makes room for the positions of a pass.
   *
   * @throws {RangeError} When there is none for so many.
   */
  begin(count: number): CacheStep {
    if (this.length + count > this.capacity) {
      throw new RangeError(
        `Cannot append ${count} positions to a cache that holds ${this.length} of ` +
          `${this.capacity}: make one of a larger capacity, or truncate() it`,
      );
    }
    return internally(() => {
      const first = this.filled.unsqueeze(1);
      // A sequence that rests at the end has no slot of its own left: it writes to the last one.
      const slots = first.add(first.indexLike([count])).minimum(this.capacity - 1);
      return { slots: exposed(slots), filled: exposed(this.filled.add(count)) };
    });
  }

  /**
   * Puts the keys and values of a layer into their slots, (N, heads, count, features).
   *
   * @returns All keys and values of the layer.
   */
  append(
    layer: number,
    key: Tensor,
    value: Tensor,
    { slots }: CacheStep,
  ): [key: CachedRows, value: CachedRows] {
    const [keys, values] = [this.keys[layer]!, this.values[layer]!];
    internally(() => {
      const places = slots.reshape([this.batch, 1, -1, 1]);
      for (const [into, x] of [[keys, key], [values, value]] as const) {
        const from = into.scales ? quantised(x) : { rows: x, scales: null };
        act("assign", writeRows, into.rows, 2, places, from.rows);
        if (from.scales) act("assign", writeRows, into.scales!, 2, places, from.scales);
      }
    });
    return [keys, values];
  }

  /**
   * Moves on behind the positions of a pass, on the device: the last of its operations.
   *
   * @param counts How many are new of each sequence, int32 of (N).
   */
  end(counts: Tensor): void {
    internally(() => {
      using next = this.filled.add(counts);
      this.filled.assign(next);
    });
  }

  /** Counts the positions of a pass on the host, once it was computed: a recorded pass may run twice. */
  advance(counts: readonly number[] = this.#growth): void {
    counts.forEach((count, row) => this.#lengths[row]! += count);
  }

  /**
   * Forgets the positions from `length` on of all sequences that have as many.
   *
   * @throws {RangeError} When none has.
   */
  truncate(length: number): void {
    if (!Number.isInteger(length) || length < 0 || length > this.length) {
      throw new RangeError(`Cannot truncate a cache of ${this.length} positions to ${length}`);
    }
    this.#lengths.forEach((own, row) => this.#lengths[row] = Math.min(own, length));
    internally(() => this.filled.assign(this.filled.minimum(length)));
  }

  /** Takes over what a smaller cache of as many sequences holds. */
  copyFrom(other: DecoderCache): void {
    internally(() => {
      const from = other.#rows, room = this.capacity - other.capacity;
      this.#rows.forEach((to, k) => to.assign(from[k]!.pad([[0, 0], [0, 0], [0, room], [0, 0]])));
      this.filled.assign(other.filled);
      this.growth.assign(other.growth);
    });
    realizeAll(this.tensors);
    this.advance(other.lengths);
    other.#growth.forEach((one, row) => this.#growth[row] = one);
  }

  /** Puts the only sequence of another cache, of the same sizes, in the place of one of its own. */
  place(row: number, other: DecoderCache): void {
    internally(() => {
      const at = Tensor.fromHost(Int32Array.of(row), { device: this.filled.device });
      const put = (from: readonly Tensor[], to: readonly Tensor[]) =>
        from.forEach((tensor, k) => {
          const shape = [1, ...Array(tensor.ndim - 1).fill(1)];
          act("assign", writeRows, to[k]!, 0, at.reshape(shape), tensor);
        });
      put(other.tensors, this.tensors);
    });
    realizeAll(this.tensors);
    this.#lengths[row] = other.length;
    this.#growth[row] = 1;
  }

  /** A sequence rests from now on: it does not grow, and nobody reads it. */
  rest(row: number): void {
    this.#growth[row] = this.#lengths[row] = 0;
    internally(() => {
      const { device } = this.filled, at = Tensor.fromHost(Int32Array.of(row), { device });
      for (const tensor of [this.filled, this.growth]) {
        act("assign", writeRows, tensor, 0, at, at.zerosLike());
      }
    });
    realizeAll([this.filled, this.growth]);
  }

  /** Gives the memory back. */
  [Symbol.dispose](): void {
    for (const tensor of this.tensors) tensor.dispose();
  }
}
