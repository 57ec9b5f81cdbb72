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

/** The result of the OpenCL device in single precision, and the built-in backend in doubles. */
export async function both<T>(
  compute: (whole: Whole) => Promise<T>,
): Promise<[found: T, expected: T]> {
  return [
    await withDevice("cl", () => compute(numbersIn("float32"))),
    await withDevice("cpu", () => compute(numbersIn("float64"))),
  ];
}

/** Operations that may follow a convolution of 11 columns, in every type, beside another tensor of its shape. */
export function inEveryType(y: Tensor, around: Tensor): Tensor[] {
  return [
    y.mul(0.5).cast("float16"),
    y.cast("bfloat16"),
    y.cast("int32").add(Tensor.arange(0, 11, 1, { dtype: "int32" })),
    y.abs().cast("uint8"),
    y.gt(around),
    y.cast("float64").div(3),
  ];
}
