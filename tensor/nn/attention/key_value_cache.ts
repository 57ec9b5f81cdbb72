import type { DeviceHandle, DType } from "../../../backend/internal.ts";
import { sameDevice } from "../../core/apply.ts";
import { shapeError } from "../../core/rules/errors.ts";
import {
  checkOptions,
  deviceChoice,
  elementType,
  type Rules,
  takes,
} from "../../core/rules/options.ts";
import { internally } from "../../core/modes/temporaries.ts";
import { realizeAll } from "../../execution/realization.ts";
import { Tensor } from "../../class/tensor.ts";
import { exposed } from "../../core/internals.ts";

/** Options of a {@linkcode KeyValueCache}. */
export interface KeyValueCacheOptions {
  /** N, how many sequences; default 1. */
  batch?: number;
  /** Heads of keys and values. */
  heads: number;
  /** For how many positions there is room. */
  capacity: number;
  /** Features of a head. */
  features: number;
  /** The type of the elements; default float32. */
  dtype?: DType;
  /** Its device; default the active device. */
  device?: string | DeviceHandle;
}

const rules: Rules<KeyValueCacheOptions> = {
  batch: takes.count,
  heads: takes.count,
  capacity: takes.count,
  features: takes.count,
  dtype: elementType,
  device: deviceChoice,
};

/** Keys and values to look at after an `append`. */
export interface CachedKeys {
  /** (N, heads, capacity, features); zeros where nothing was appended yet. */
  readonly keys: Tensor;
  /** Of the same shape. */
  readonly values: Tensor;
  /** (L, capacity): true where each of the appended positions may look, itself and those before. */
  readonly mask: Tensor;
}

/**
 * The keys and values of the positions that a model has gone through while it generates, so that the
 * next one costs one position. Shapes do not change with the positions: after the first token, no token
 * compiles a kernel.
 *
 * @example A token at a time
 * ```ts
 * import { nn, noGrad, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * using cache = new nn.KeyValueCache({ heads: 2, capacity: 16, features: 4 });
 * noGrad(() => {
 *   for (const length of [5, 1, 1]) {
 *     const [q, k, v] = Tensor.randn([3, 1, 2, length, 4]).unbind<3>();
 *     const { keys, values, mask } = cache.append(k, v);
 *     const y = nn.scaledDotProductAttention(q, keys, values, { mask });
 *     assertEquals(y.shape, [1, 2, length, 4]);
 *   }
 * });
 * assertEquals(cache.length, 7);
 * ```
 */
export class KeyValueCache implements Disposable {
  /** For how many positions there is room. */
  readonly capacity: number;
  readonly #keys: Tensor;
  readonly #values: Tensor;
  readonly #position: Tensor;
  #length = 0;

  /**
   * Makes an empty cache.
   *
   * @param options Its sizes, type and device.
   */
  constructor(options: KeyValueCacheOptions) {
    checkOptions("make a KeyValueCache", options, rules, ["heads", "capacity", "features"]);
    const { batch = 1, heads, capacity, features, dtype = "float32", device } = options;
    const where = device === undefined ? {} : { device };
    const shape = [batch, heads, capacity, features];
    this.capacity = capacity;
    this.#keys = Tensor.zeros(shape, { dtype, ...where }).realize();
    this.#values = Tensor.zeros(shape, { dtype, ...where }).realize();
    this.#position = Tensor.zeros([1], { dtype: "int32", ...where }).realize();
  }

  /** Number of positions it holds. */
  get length(): number {
    return this.#length;
  }

  /**
   * The position that comes next, int32 of shape [1], on the device: for {@linkcode RotaryEmbedding}. It
   * stays what it is when more are appended.
   */
  get position(): Tensor {
    return this.#position.detach();
  }

  /**
   * Adds positions behind those that it holds. No gradient goes through it.
   *
   * @param key (N, heads, L, features).
   * @param value Of the same shape.
   * @throws {ShapeError} When a shape does not fit.
   * @throws {RangeError} When there is no room for so many.
   */
  append(key: Tensor, value: Tensor): CachedKeys {
    this.#check(key, value);
    const count = key.shape[2]!;
    return internally(() => {
      // Computed with the model that reads it; where none has, positions must not pile up uncomputed.
      realizeAll([this.#keys, this.#values]);
      using offset = this.#keys.indexLike([this.capacity]).sub(this.#position);
      using rows = this.#keys.indexLike([count]).unsqueeze(1);
      // Row i may look at the slot that is i behind the position, and at those before.
      const mask = exposed(offset.le(rows));
      this.#put(this.#keys, key, offset);
      this.#put(this.#values, value, offset);
      using end = this.#position.add(count);
      this.#position.assign(end);
      this.#length += count;
      return { keys: this.#keys, values: this.#values, mask };
    });
  }

  /**
   * Puts rows where the offset from the next position is 0, 1, ..., with what is computed next: by itself it
   * would compute the layers before it once more. Whatever is made on the way is disposed of: it would keep
   * the former values until it is collected.
   */
  #put(into: Tensor, rows: Tensor, offset: Tensor): void {
    const count = rows.shape[2]!;
    using isNew = offset.ge(0).logicalAnd(offset.lt(count)).unsqueeze(1);
    using spread = rows.cast(into.dtype).indexSelect(2, offset.clamp(0, count - 1));
    using next = isNew.where(spread, into);
    into.assign(next);
  }

  #check(key: Tensor, value: Tensor): void {
    sameDevice("append", [this.#keys, key, value]);
    const [batch, heads, , features] = this.#keys.shape;
    const due = [batch, heads, key.shape[2] ?? 0, features];
    for (const { shape } of [key, value]) {
      if (`${shape}` === `${due}` && shape[2]! > 0) continue;
      throw shapeError("KeyValueCache")`
        Cannot append keys of shape ${key.shape} and values of ${value.shape} to a cache: pass
        [${batch}, ${heads}, L, ${features}] for both, with L at least 1`;
    }
    if (this.#length + due[2]! <= this.capacity) return;
    throw new RangeError(
      `Cannot append ${
        due[2]
      } positions to a cache that holds ${this.#length} of ${this.capacity}: ` +
        `make one of a larger capacity, or clear() it`,
    );
  }

  /** Forgets all positions; the memory stays for the next ones. */
  clear(): void {
    this.#length = 0;
    this.#position.assign(this.#position.zerosLike());
  }

  /** Gives the memory back. */
  dispose(): void {
    for (const tensor of [this.#keys, this.#values, this.#position]) tensor.dispose();
  }

  /** {@linkcode KeyValueCache.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}
