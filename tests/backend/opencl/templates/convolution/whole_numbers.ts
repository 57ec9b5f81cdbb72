/** Convolutions of whole numbers, whose sums are the same floats in every order of summation. */
import { assertEquals } from "@std/assert";
import { templateOf, wideTarget } from "../chosen_template.ts";
import { type Conv2dOptions, enableGrad, Tensor, withDevice } from "../../../../../mod.ts";

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

/** Asserts that both have the same numbers. */
export async function assertSame<T>(compute: (whole: Whole) => Promise<T>): Promise<void> {
  const [found, expected] = await both(compute);
  assertEquals(found, expected);
}

export type Shape = readonly [number, number, number, number];

/** The shapes of an image and a weight, and the geometry. */
export type Convolution = readonly [image: Shape, weight: Shape, options: Conv2dOptions];

/** Holds the result, and the gradients of image and weight where the result's is not the same everywhere. */
export function assertConvolution([image, weight, options]: Convolution): Promise<void> {
  return assertSame(async (whole) => {
    const x = whole(image, 5), w = whole(weight, 3);
    x.requiresGrad = w.requiresGrad = true;
    const y = x.conv2d(w, options).relu(), value = await values(y);
    y.backward(whole(y.shape, 11));
    return [value, await values(x.grad!), await values(w.grad!)];
  });
}

/** The templates of a convolution, and of the gradients of image and weight, on a processor of wide vectors. */
export function templatesOf([image, weight, options]: Convolution): string[] {
  const gradient = (of: "x" | "w"): string =>
    templateOf(() => {
      const x = Tensor.ones([...image]), w = Tensor.ones([...weight]), read = of === "x" ? x : w;
      read.requiresGrad = true;
      const y = enableGrad(() => x.conv2d(w, options));
      y.backward(Tensor.full(y.shape, 2).realize());
      return read.grad!;
    }, wideTarget);
  const result = () => Tensor.ones([...image]).conv2d(Tensor.ones([...weight]), options);
  return [templateOf(result, wideTarget), gradient("x"), gradient("w")];
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
