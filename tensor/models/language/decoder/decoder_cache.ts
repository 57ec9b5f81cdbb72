import type { DeviceHandle, DType } from "../../../../backend/internal.ts";
import { act } from "../../../core/operations.ts";
import { internally } from "../../../core/modes/temporaries.ts";
import { exposed } from "../../../core/internals.ts";
import { Tensor } from "../../../class/tensor.ts";
import { writeRows } from "../../../execution/assignment.ts";
import { realizeAll } from "../../../execution/realization.ts";

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
  readonly dtype: DType;
  readonly device: DeviceHandle;
}

/** Places of one pass's positions. */
export interface CacheStep {
  /** The slots of the new positions, int32 of (N, count). */
  readonly slots: Tensor;
  /** The number of slots of each sequence that are filled with them, int32 of (N). */
  readonly filled: Tensor;
}

/**
 * The keys and values of all layers of a decoder: so many positions of each sequence are filled. New ones are
 * written in place, and attention reads what is filled.
 */
export class DecoderCache implements Disposable {
  readonly capacity: number;
  readonly batch: number;
  /** Of each layer, (N, heads, capacity, features). */
  readonly keys: readonly Tensor[];
  readonly values: readonly Tensor[];
  /** The number of filled positions of each sequence, int32 of (N), on the device. */
  readonly filled: Tensor;
  /** By how many it grows with a pass of one position: 1, or 0 for a sequence that rests; int32 of (N). */
  readonly growth: Tensor;
  readonly #lengths: number[];
  readonly #growth: number[];

  constructor({ layers, batch, heads, capacity, features, dtype, device }: DecoderCacheOptions) {
    const empty = () => Tensor.zeros([batch, heads, capacity, features], { dtype, device });
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
    return [...this.keys, ...this.values, this.filled, this.growth];
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
   * @returns All keys and values of the layer, (N, heads, capacity, features).
   */
  append(layer: number, key: Tensor, value: Tensor, { slots }: CacheStep): [Tensor, Tensor] {
    const pair = [this.keys[layer]!, this.values[layer]!] as [Tensor, Tensor];
    internally(() => {
      const places = slots.reshape([this.batch, 1, -1, 1]);
      for (const [k, rows] of [key, value].entries()) {
        act("assign", writeRows, pair[k]!, 2, places, rows);
      }
    });
    return pair;
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
      const copy = (from: readonly Tensor[], to: readonly Tensor[]) =>
        from.forEach((tensor, k) => {
          to[k]!.assign(tensor.pad([[0, 0], [0, 0], [0, this.capacity - other.capacity], [0, 0]]));
        });
      copy(other.keys, this.keys);
      copy(other.values, this.values);
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
