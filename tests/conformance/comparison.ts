/** Comparison of numbers with those that were expected, and the words for a difference. */
import type { DType, Tensor } from "../../mod.ts";
import { decode, type Value } from "./fixture.ts";

/** Relative and absolute errors that the functions of a type may have; none where there is no row. */
const tolerances: { readonly [dtype in DType]?: readonly [relative: number, absolute: number] } = {
  float64: [1e-12, 1e-13],
  float32: [4e-6, 4e-7],
  float16: [4e-3, 2e-3],
  bfloat16: [2e-2, 1e-2],
};

function agrees(actual: number, expected: number, dtype: DType, slack: number): boolean {
  if (Object.is(actual, expected)) return true;
  // The sign of a zero is not held: fused sums and selections lose it.
  if (actual === expected) return true;
  if (!Number.isFinite(expected)) return false;
  const [relative, absolute] = tolerances[dtype] ?? [0, 0];
  return Math.abs(actual - expected) <= slack * (absolute + relative * Math.abs(expected));
}

function differs(actual: number | bigint, expected: number | string, dtype: DType, slack: number) {
  if (typeof actual === "bigint") return actual !== BigInt(expected);
  return !agrees(actual, decode(expected), dtype, slack);
}

/** The fault of a tensor, or null: its shape, its type, or the first number that differs. */
export function difference(
  actual: Tensor,
  expected: Value,
  dtype: DType,
  slack = 1,
): string | null {
  if (`${actual.shape}` !== `${expected.shape}`) {
    return `has the shape [${actual.shape}] instead of [${expected.shape}]`;
  }
  if (actual.dtype !== dtype) return `has the type ${actual.dtype} instead of ${dtype}`;
  return differenceOf(actual.toHostSync(), expected.data, dtype, slack);
}

/** The first number that differs, or null. */
export function differenceOf(
  actual: ArrayLike<number | bigint>,
  expected: readonly (number | string)[],
  dtype: DType,
  slack = 1,
): string | null {
  for (let k = 0; k < expected.length; k++) {
    if (differs(actual[k]!, expected[k]!, dtype, slack)) {
      return `is ${actual[k]} instead of ${expected[k]} at ${k} of ${expected.length}`;
    }
  }
  return null;
}
