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
