/** Operands whose products lose little in halves. */
import { type DType, Tensor } from "../../../../mod.ts";

/** Numbers between -1 and 1 with few digits, the same for every device and type. */
export function numbers(dtype: DType, ...shape: number[]): Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  let seed = 1;
  const data = Float32Array.from({ length: size }, () => {
    seed = seed * 16807 % 2147483647;
    return (seed % 2001 - 1000) / 1000;
  });
  return Tensor.fromHost(data, { shape }).cast(dtype).realize();
}

/** Geometry of a convolution. */
export interface Geometry {
  readonly stride?: number;
  readonly padding?: number;
  readonly groups?: number;
  readonly dilation?: number;
}

/** The request to a convolution: its value, or the gradient of an operand. */
export type ConvolutionPart = "value" | "image" | "weight";

/** A convolution of such shapes, or one of its gradients. */
export function convolution(
  image: readonly number[],
  weight: readonly number[],
  options: Geometry,
  part: ConvolutionPart = "value",
): (dtype: DType) => Tensor {
  return (dtype) => {
    const x = numbers(dtype, ...image), w = numbers(dtype, ...weight);
    if (part === "value") return x.conv2d(w, options);
    x.requiresGrad = w.requiresGrad = true;
    const y = x.conv2d(w, options);
    y.backward(numbers(dtype, ...y.shape));
    return part === "image" ? x.grad! : w.grad!;
  };
}
