import { type DType, sizeOf, type TypedArray } from "../../../backend/internal.ts";
import { elementType, requireValue, takes } from "../../core/rules/options.ts";
import { FileFormatError, shown } from "./file_format_error.ts";

/** A tensor's values on the host, as the readers give them and the writers take them. */
export interface HostArray {
  /** The values in row-major order; bfloat16 values are held as float32, bool as 0 and 1. */
  readonly data: TypedArray;
  /** The length of each axis; `[]` is a scalar. */
  readonly shape: readonly number[];
  /** The dtype that a tensor of these values has. */
  readonly dtype: DType;
}

// NumPy's own bound (NPY_MAXDIMS since 2.0): a longer shape is damage, not data.
const MAX_AXES = 64;

/**
 * Checks a shape that came out of a file and returns its number of elements.
 *
 * @param shape What the file says.
 * @param what Names the array in the error.
 * @returns The product of the axes, at most 2^53 - 1.
 */
export function checkedSize(shape: unknown, what: string): number {
  if (!Array.isArray(shape) || !shape.every((n) => Number.isSafeInteger(n) && n >= 0)) {
    throw new FileFormatError(`${what} has no valid shape: got ${shown(shape)}`);
  }
  if (shape.length > MAX_AXES) {
    throw new FileFormatError(`${what} has ${shape.length} axes: at most ${MAX_AXES} are read`);
  }
  // Axes of length 0 are left out at first: they would hide a product that overflows.
  const product = shape.reduce((size, n) => size * (n || 1), 1);
  if (!Number.isSafeInteger(product)) {
    throw new FileFormatError(`${what} claims more than 2^53 elements: shape ${shown(shape)}`);
  }
  return shape.includes(0) ? 0 : product;
}

/**
 * Checks that an array that is to be written holds what its shape says.
 *
 * @throws {TypeError} When it is none; RangeError that names both.
 */
export function checkFilled(array: HostArray, what: string): void {
  const action = `write ${what}`;
  requireValue(action, "array", array, takes.object("{ data, shape, dtype }"));
  const { data, shape, dtype } = array;
  requireValue(action, "data", data, takes.arrayView);
  requireValue(action, "shape", shape, takes.wholeNumbers);
  requireValue(action, "dtype", dtype, elementType);
  const size = sizeOf(shape);
  if (data.length !== size) {
    throw new RangeError(`Cannot write ${what}: ${data.length} values do not fill [${shape}]`);
  }
}

/** The elements of an array in row-major order, from those in which the first axis is the fastest. */
export function toRowMajor(columnMajor: TypedArray, shape: readonly number[]): TypedArray {
  const data = columnMajor.slice();
  const steps = shape.map((_, axis) => shape.slice(0, axis).reduce((step, n) => step * n, 1));
  const index = new Array<number>(shape.length).fill(0);
  let from = 0;
  for (let to = 0; to < data.length; to++) {
    data[to] = columnMajor[from]!;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      from += steps[axis]!;
      if (++index[axis]! < shape[axis]!) break;
      from -= steps[axis]! * shape[axis]!;
      index[axis] = 0;
    }
  }
  return data;
}
