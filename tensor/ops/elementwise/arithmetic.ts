/** Elementwise operations that are made of those in `elementwise.ts`, which gives them their gradients. */
import type { DType } from "../../../backend/internal.ts";
import { requireTensor } from "../../core/apply.ts";
import { widened } from "../../core/autocast.ts";
import { dtypeError } from "../../core/rules/errors.ts";
import { promote } from "../../core/rules/promotion.ts";
import type { Tensor } from "../../core/mod.ts";
import { binary } from "./elementwise.ts";
import type { TensorLike } from "../../core/arguments.ts";

/** `a ** b`: roots by the functions for them. */
export function pow(a: Tensor, b: TensorLike): Tensor {
  if (b !== 0.5 && b !== -0.5) return binary("pow", a, b);
  const x = widened(a);
  return b > 0 ? x.sqrt() : x.rsqrt();
}

/** `x * x`; of truth values in int64, as powers of them are. */
export function square(x: Tensor): Tensor {
  return x.dtype === "bool" ? x.cast("int64") : x.mul(x);
}

/** Steps of Euclid's method that numbers of a type take at most: Fibonacci's are the worst. */
const EUCLID_STEPS: Readonly<Partial<Record<DType, number>>> = { uint8: 12, int32: 45, int64: 91 };

function requireWhole(op: string, x: Tensor, b: TensorLike): Tensor {
  const other = typeof b === "number" ? x.fullLike(b) : b;
  requireTensor(op, other, " or a whole number");
  for (const { dtype } of [x, other]) {
    if (EUCLID_STEPS[dtype] !== undefined) continue;
    throw dtypeError(op)`Cannot ${op} of ${dtype}: cast it with .cast("int32")`;
  }
  return other;
}

/** The greatest common divisor of whole numbers; of two zeros 0. */
export function gcd(x: Tensor, b: TensorLike): Tensor {
  const other = requireWhole("gcd", x, b), common = promote(x.dtype, other.dtype);
  let large = x.cast(common).abs(), small = other.cast(common).abs();
  [large, small] = [large.maximum(small), large.minimum(small)];
  for (let step = 0; step < EUCLID_STEPS[common]!; step++) {
    const isDone = small.eq(0), divisor = isDone.where(1, small);
    [large, small] = [isDone.where(large, small), isDone.where(0, large.remainder(divisor))];
  }
  return large;
}

/** The least common multiple of whole numbers; 0 where one is 0. */
export function lcm(x: Tensor, b: TensorLike): Tensor {
  const other = requireWhole("lcm", x, b), divisor = gcd(x, other);
  const part = x.cast(divisor.dtype).floorDivide(divisor.eq(0).where(1, divisor));
  return part.mul(other).abs();
}

/** The part behind the point. */
export function frac(x: Tensor): Tensor {
  return x.sub(x.trunc());
}

/** `x + weight * (end - x)`, from whichever end is nearer. */
export function lerp(x: Tensor, end: Tensor, weight: TensorLike): Tensor {
  requireTensor("lerp", end);
  if (typeof weight !== "number") requireTensor("lerp", weight, " or a number");
  const fromStart = (): Tensor => x.add(end.sub(x).mul(weight));
  const fromEnd = (): Tensor =>
    end.sub(end.sub(x).mul(typeof weight === "number" ? 1 - weight : weight.neg().add(1)));
  if (typeof weight === "number") return Math.abs(weight) < 0.5 ? fromStart() : fromEnd();
  return weight.abs().lt(0.5).where(fromStart(), fromEnd());
}

/** True where the element is neither infinite nor NaN. */
export function isFinite(x: Tensor): Tensor {
  return x.isNaN().logicalOr(x.isInf()).logicalNot();
}

/** At least `min`, at most `max`, either of which may be left out. */
export function clamp(x: Tensor, min?: number, max?: number): Tensor {
  const low = min === undefined ? x : binary("clampMin", x, min);
  return max === undefined ? low : binary("clampMax", low, max);
}
