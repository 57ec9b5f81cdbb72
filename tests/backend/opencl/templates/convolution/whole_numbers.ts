/** Convolutions of whole numbers, whose sums are the same floats in every order of summation. */
import { Tensor, withDevice } from "../../../../../mod.ts";

/** Makes a tensor of small whole numbers; `factor` tells tensors apart. */
export type Whole = (shape: readonly number[], factor: number) => Tensor;

/** A tensor's values; zeros have no sign, since programs are built with -cl-no-signed-zeros. */
export async function values(t: Tensor): Promise<number[]> {
  return Array.from(await t.toHost() as ArrayLike<number>, (v) => Number(v) + 0);
}

function numbersIn(dtype: "float32" | "float64"): Whole {
  return (shape, factor) => {
    const size = shape.reduce((a, b) => a * b, 1);
    const numbers = Float32Array.from({ length: size }, (_, k) => (k * factor) % 7 - 3);
    return Tensor.fromHost(numbers).reshape([...shape]).cast(dtype).realize();
  };
}

/** What the OpenCL device computes in single precision, and the built-in backend in doubles. */
export async function both<T>(
  compute: (whole: Whole) => Promise<T>,
): Promise<[found: T, expected: T]> {
  return [
    await withDevice("cl", () => compute(numbersIn("float32"))),
    await withDevice("cpu", () => compute(numbersIn("float64"))),
  ];
}
