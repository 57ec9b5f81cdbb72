/** Elementwise operations that are made of those in `elementwise.ts`, which gives them their gradients. */
import { requireTensor } from "../../core/apply.ts";
import { widened } from "../../core/autocast.ts";
import type { Tensor } from "../../core/tensor.ts";
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
