import type { DType, TypedArray } from "../../backend/internal.ts";
import type { Rule } from "../../ffi/host/option_rules.ts";
import { shown } from "../core/rules/options.ts";
import { Tensor } from "../class/tensor.ts";

/** Values on the host with their shape: one tensor of a batch, or one sample's part of it. */
export interface Field {
  /** The values in row-major order. */
  readonly data: TypedArray<ArrayBufferLike>;
  /** The length of each axis; `[]` is a single value, such as a label. */
  readonly shape: readonly number[];
  /** The dtype of the tensor, where the array's own type leaves it open: "bool", "bfloat16". */
  readonly dtype?: DType;
}

/** A field for each part: a tuple where the number of parts is known. */
export type FieldsOf<Parts extends readonly unknown[]> = { -readonly [K in keyof Parts]: Field };

/**
 * Samples by index. A sample has a field for every tensor of a batch: an image and its label.
 *
 * @example A dataset that makes its samples up
 * ```ts
 * import { DataLoader, type Dataset, type Field } from "@netcl/netcl";
 *
 * const squares: Dataset<[Field]> = {
 *   length: 100,
 *   get: (index) => [{ data: Float32Array.of(index, index ** 2), shape: [2] }],
 * };
 * for await (const [batch] of new DataLoader(squares, { batchSize: 50 })) {
 *   console.assert(batch.shape.join() === "50,2");
 *   batch.dispose();
 * }
 * ```
 */
export interface Dataset<Fields extends Field[] = Field[]> {
  /** The number of samples. */
  readonly length: number;
  /**
   * One sample.
   *
   * @param index From 0 to `length - 1`.
   * @returns Its fields, of the same shapes and array types for every index.
   */
  get(index: number): Fields | Promise<Fields>;
  /**
   * Whole batches at once, where a dataset can do that faster than sample by sample.
   *
   * @param indices The samples, in the order of the batch.
   * @returns One field a tensor, with the batch as its first axis.
   */
  getBatch?(indices: readonly number[]): Fields | Promise<Fields>;
}

/**
 * A dataset in the host's memory: fields, or tensors, whose first axis counts the samples.
 *
 * @example Two points with a label each
 * ```ts
 * import { TensorDataset } from "@netcl/netcl";
 *
 * const points = new TensorDataset(
 *   { data: Float32Array.of(1, 2, 3, 4), shape: [2, 2] },
 *   { data: Int32Array.of(0, 1), shape: [2] },
 * );
 * const [point, label] = points.get(1);
 * console.assert(point.data.join() === "3,4" && label.data[0] === 1);
 * ```
 *
 * @example Tensors
 * ```ts
 * import { DataLoader, Tensor, TensorDataset } from "@netcl/netcl";
 *
 * const data = new TensorDataset(Tensor.rand([100, 3]), Tensor.arange(100));
 * for await (const [x, y] of new DataLoader(data, { batchSize: 50 })) {
 *   console.assert(x.shape[1] === 3 && y.dtype === "int32");
 * }
 * ```
 */
export class TensorDataset<const Parts extends readonly (Field | Tensor)[] = Field[]>
  implements Dataset<FieldsOf<Parts>> {
  /** The number of samples. */
  readonly length: number;
  readonly #fields: FieldsOf<Parts>;

  /**
   * Keeps the arrays that it is given, without a copy. Tensors are read here, and waited for.
   *
   * @param parts At least one; their first axes have the same length.
   * @throws {RangeError} Where shapes and values do not fit together.
   */
  constructor(...parts: Parts) {
    const fields = parts.map(fieldOf), [first] = fields;
    if (first === undefined) {
      throw new RangeError("Cannot make a TensorDataset of no fields: pass at least one");
    }
    fields.forEach(checkField);
    const counts = fields.map(({ shape }) => shape[0]!);
    if (new Set(counts).size > 1) {
      throw new RangeError(
        `Cannot make a TensorDataset of fields of ${
          counts.join(", ")
        } samples: all must have as many`,
      );
    }
    this.length = counts[0]!;
    this.#fields = fields as FieldsOf<Parts>;
  }

  /**
   * One sample: views of the fields, without a copy.
   *
   * @param index From 0 to `length - 1`.
   * @throws {RangeError} For any other.
   */
  get(index: number): FieldsOf<Parts> {
    checkIndex(index, this.length);
    return this.#fields.map((field) => {
      const width = field.data.length / this.length;
      const data = field.data.subarray(index * width, (index + 1) * width) as TypedArray;
      return { ...field, data, shape: field.shape.slice(1) };
    }) as FieldsOf<Parts>;
  }

  /**
   * A batch, gathered from the fields in one go.
   *
   * @param indices The samples, in the order of the batch.
   * @throws {RangeError} For an index that is not one of the dataset.
   */
  getBatch(indices: readonly number[]): FieldsOf<Parts> {
    for (const index of indices) checkIndex(index, this.length);
    return this.#fields.map((field) => gatherRows(field, indices)) as FieldsOf<Parts>;
  }
}

function fieldOf(part: Field | Tensor): Field {
  if (!(part instanceof Tensor)) return part;
  return { data: part.toHostSync(), shape: part.shape, dtype: part.dtype };
}

function checkField(field: Field, position: number): void {
  if (!ArrayBuffer.isView(field?.data) || !Array.isArray(field.shape)) {
    throw new TypeError(
      `Field ${position} of a TensorDataset is no field: pass a tensor, or ` +
        `{ data, shape } with a typed array`,
    );
  }
  const { data, shape } = field;
  if (shape.length === 0) {
    throw new RangeError(
      `Cannot make a TensorDataset: field ${position} has no axis that counts samples, its shape is []`,
    );
  }
  if (data.length !== shape.reduce((size, n) => size * n, 1)) {
    throw new RangeError(
      `Cannot make a TensorDataset: field ${position}: ${data.length} values do not fill [${shape}]`,
    );
  }
}

/**
 * @throws {RangeError} Unless `index` is one of `length` samples.
 */
export function checkIndex(index: number, length: number): void {
  if (!Number.isInteger(index) || index < 0 || index >= length) {
    throw new RangeError(`Cannot take sample ${index}: the dataset has ${length}, counted from 0`);
  }
}

/** Fields of a sample, and of a batch. */
export const fieldList: Rule = {
  takes: "an array of fields { data, shape } with a typed array; of a tensor await its toHost()",
  accepts: (value) => Array.isArray(value) && value.every(isField),
};

function isField(value: unknown): value is Field {
  const { data, shape } = (value ?? {}) as Partial<Field>;
  return ArrayBuffer.isView(data) && Array.isArray(shape);
}

/** @throws {TypeError} Unless it has a length and samples. */
export function requireDataset(action: string, dataset: Dataset): void {
  const length = dataset?.length;
  if (typeof dataset?.get === "function" && Number.isSafeInteger(length) && length >= 0) return;
  throw new TypeError(
    `Cannot ${action} ${
      shown(dataset)
    }: pass a dataset, which has a length and a method get(index)`,
  );
}

/** An array of the same type as `like`. */
export function emptyLike(like: TypedArray<ArrayBufferLike>, length: number): TypedArray {
  return new (like.constructor as new (length: number) => TypedArray)(length);
}

function gatherRows(field: Field, indices: readonly number[]): Field {
  const width = field.shape.slice(1).reduce((size, n) => size * n, 1);
  const data = emptyLike(field.data, indices.length * width);
  indices.forEach((index, row) => {
    const values = field.data.subarray(index * width, (index + 1) * width);
    (data as Float32Array).set(values as Float32Array, row * width);
  });
  return { ...field, data, shape: [indices.length, ...field.shape.slice(1)] };
}
