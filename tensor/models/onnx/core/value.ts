/**
 * Values of a graph. Shapes and what is computed from them are known on the host as soon as the inputs'
 * shapes are; so they are kept there, and no device is asked for them.
 *
 * This folder (`core/`) is what operators take and give. It imports `format/`, and `ops/` and `core/` of
 * tensors.
 */
import { manager, sizeOf } from "../../../../backend/internal.ts";
import { Tensor } from "../../../class/tensor.ts";
import type { HostArray } from "../../../io/core/host_array.ts";
import { type OnnxType, typeOf } from "../format/types.ts";

/** A value: a tensor, a list of values, or one that is missing. */
export type OnnxData = Value | OnnxData[] | null;

/** Counts reads from a device: what is computed of their values may be another next time. */
export const reads = { count: 0 };

/** A tensor of a graph, or its elements on the host. */
export class Value {
  /** Its type in ONNX: some whole numbers are held in wider ones here. */
  readonly type: OnnxType;
  /** Its shape. */
  readonly shape: readonly number[];
  #tensor: Tensor | null;
  #numbers: readonly number[] | null = null;
  readonly #array: HostArray | null;

  private constructor(
    type: OnnxType,
    shape: readonly number[],
    { tensor = null, array = null, numbers = null }: {
      tensor?: Tensor | null;
      array?: HostArray | null;
      numbers?: readonly number[] | null;
    },
  ) {
    this.type = type;
    this.shape = shape;
    this.#tensor = tensor;
    this.#array = array;
    this.#numbers = numbers;
  }

  /** A value on a device. */
  static of(tensor: Tensor, type: OnnxType = typeOf(tensor.dtype)): Value {
    return new Value(type, tensor.shape, { tensor });
  }

  /** A constant. */
  static ofArray(array: HostArray, type: OnnxType = typeOf(array.dtype)): Value {
    return new Value(type, array.shape, { array });
  }

  /** Few numbers on the host. */
  static ofNumbers(type: OnnxType, shape: readonly number[], numbers: readonly number[]): Value {
    return new Value(type, shape, { numbers });
  }

  /** Its count of elements. */
  get size(): number {
    return sizeOf(this.shape);
  }

  /** True where its elements are known without asking a device. */
  get isOnHost(): boolean {
    return this.#numbers !== null || this.#array !== null;
  }

  /** The value; a constant is put on the active device. */
  get tensor(): Tensor {
    const isElsewhere = this.isOnHost && this.#tensor?.device !== manager.active;
    return this.#tensor = this.#tensor && !isElsewhere ? this.#tensor : this.#upload();
  }

  #upload(): Tensor {
    if (this.#array) {
      const { data, shape, dtype } = this.#array;
      return Tensor.fromHost(data, { shape, dtype });
    }
    const { shape, type: { dtype } } = this, numbers = this.#numbers!;
    if (dtype !== "int64") return Tensor.fromHost(Float64Array.from(numbers), { shape, dtype });
    return Tensor.fromHost(BigInt64Array.from(numbers, asInt64), { shape, dtype });
  }

  /** All elements as numbers; those of a device are waited for. */
  numbers(): readonly number[] {
    if (this.#numbers) return this.#numbers;
    if (!this.#array) reads.count++;
    const data = this.#array?.data ?? this.#tensor!.toHostSync();
    const numbers = Array.from(data as ArrayLike<number | bigint>, Number);
    // What is on a device may be assigned to.
    if (this.#array) this.#numbers = numbers;
    return numbers;
  }

  /** The same value on the host in another shape. */
  reshaped(shape: readonly number[]): Value {
    return Value.ofNumbers(this.type, shape, this.numbers());
  }
}

/** The nearest number of 64 bits: bounds such as 2^63 - 1 are no exact doubles. */
function asInt64(value: number): bigint {
  if (value >= 2 ** 63) return 2n ** 63n - 1n;
  return value <= -(2 ** 63) ? -(2n ** 63n) : BigInt(Math.trunc(value));
}
