/**
 * Special functions, composed of others: the same formula on every device, with derivatives of their own.
 * Formula numbers are those of the NIST Digital Library of Mathematical Functions.
 */
import type { TensorLike } from "../../core/arguments.ts";
import { requireTensor } from "../../core/apply.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import { requireValue, takes } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import { binary } from "./elementwise.ts";
import { inFloat, inverseErf, polynomial, shiftFor, withSlope, zeta } from "./series.ts";

/** The distance from the nearest whole number: sin and tan of pi times it lose no digits. */
function fraction(x: Tensor): Tensor {
  return x.sub(x.round()).mul(Math.PI);
}

/** Series of 5.11.1: Bernoulli's numbers over 2 k (2 k - 1). */
const STIRLING = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360];

/** The logarithm of the gamma function of positive numbers. */
function lgammaAbove(x: Tensor): Tensor {
  const shift = shiftFor(x), isSmall = x.lt(shift);
  const y = isSmall.where(x.add(shift), x);
  let product = x;
  for (let k = 1; k < shift; k++) product = product.mul(x.add(k));
  const inverse = y.reciprocal();
  const tail = polynomial(inverse.square(), STIRLING).mul(inverse);
  const value = y.sub(0.5).mul(y.log()).sub(y).add(0.5 * Math.log(2 * Math.PI)).add(tail);
  const small = value.sub(product.log());
  return x.eq(Infinity).where(Infinity, isSmall.where(small, value));
}

/** See `Tensor.lgamma`. */
export function lgamma(x: Tensor): Tensor {
  return withSlope("lgamma", x, (x) => {
    const isBelow = x.lt(0), above = lgammaAbove(isBelow.where(x.neg().add(1), x));
    // 5.5.3, the reflection.
    const below = fraction(x).sin().abs().reciprocal().mul(Math.PI).log().sub(above);
    return x.eq(-Infinity).where(Infinity, isBelow.where(below, above));
  }, (x) => digamma(x));
}

/** Series of 5.11.2: Bernoulli's numbers over 2 k. */
const DIGAMMA = [1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12];

/** See `Tensor.digamma`. */
export function digamma(x: Tensor): Tensor {
  return withSlope("digamma", x, (x) => {
    const shift = shiftFor(x), isBelow = x.lt(0), z = isBelow.where(x.neg().add(1), x);
    const y = z.add(shift), square = y.square().reciprocal();
    let above = y.log().sub(y.reciprocal().mul(0.5)).sub(polynomial(square, DIGAMMA).mul(square));
    for (let k = 0; k < shift; k++) above = above.sub(z.add(k).reciprocal());
    // 5.5.4, the reflection; the poles have no sign.
    const below = above.sub(fraction(x).tan().reciprocal().mul(Math.PI));
    const isPole = x.eq(x.floor()).logicalAnd(isBelow);
    return isPole.where(NaN, isBelow.where(below, above));
  }, (x) => polygamma(x, 1));
}

/** See `Tensor.polygamma`. */
export function polygamma(x: Tensor, order: number): Tensor {
  requireValue("polygamma", "order", order, takes.whole);
  if (order === 0) return digamma(x);
  let factorial = order % 2 === 1 ? 1 : -1;
  for (let k = 2; k <= order; k++) factorial *= k;
  return withSlope("polygamma", x, (x) => {
    const isBelow = x.lt(0);
    const above = zeta(order + 1, isBelow.where(x.neg().add(1), x)).mul(factorial);
    // The derivatives of 5.5.4, the reflection.
    const turned = polynomial(fraction(x).tan().reciprocal(), slopesOfCotangent(order));
    const mirrored = above.mul(order % 2 === 1 ? -1 : 1);
    return isBelow.where(mirrored.sub(turned.mul(Math.PI ** (order + 1))), above);
  }, (x) => polygamma(x, order + 1));
}

/** The derivative of some order of the cotangent, as a polynomial of it: its slope is `-(1 + c ** 2)`. */
function slopesOfCotangent(order: number): number[] {
  let terms = [0, 1];
  for (let k = 0; k < order; k++) {
    const slope = terms.map((a, power) => a * power).slice(1);
    terms = [...slope, 0, 0].map((a, power) => -a - (slope[power - 2] ?? 0));
  }
  return terms;
}

/** See `Tensor.erfinv`. */
export function erfinv(x: Tensor): Tensor {
  const half = Math.sqrt(Math.PI) / 2;
  return withSlope("erfinv", x, (x) => {
    const tail = x.neg().log1p().add(x.log1p());
    const size = inverseErf(x.abs(), x.abs().neg().add(1), tail.neg());
    return x.abs().eq(1).where(x.mul(Infinity), size.mul(x.sign()));
  }, (_, y) => y.square().exp().mul(half));
}

/** See `Tensor.sinc`. */
export function sinc(x: Tensor): Tensor {
  return inFloat(x, (x) => {
    const isZero = x.eq(0), angle = isZero.where(1, x).mul(Math.PI);
    return isZero.where(1, angle.sin().div(angle));
  });
}

/** An operand as a tensor. */
function secondOperand(op: string, x: Tensor, y: TensorLike): Tensor {
  if (typeof y === "number") return x.fullLike(y);
  requireTensor(op, y, " or a number");
  return y;
}

/** See `Tensor.xlogy`. */
export function xlogy(x: Tensor, y: TensorLike): Tensor {
  const other = secondOperand("xlogy", x, y);
  // Where x is 0 the logarithm counts for nothing, also where it is not finite; NaN stays.
  const isNothing = x.eq(0).logicalAnd(other.le(0).logicalOr(other.eq(Infinity)));
  return binary("mul", x, isNothing.where(1, other).log());
}

/** See `Tensor.logaddexp`. */
export function logaddexp(a: Tensor, b: TensorLike): Tensor {
  const top = a.maximum(b), distance = a.eq(b).where(0, a.sub(b)).abs();
  return top.add(distance.neg().exp().log1p());
}

/** See `Tensor.hypot`. */
export function hypot(a: Tensor, b: TensorLike): Tensor {
  const other = secondOperand("hypot", a, b);
  // The larger one is taken out, so that no square leaves the range; it cancels in the derivatives.
  const top = withoutGrad(() => a.detach().abs().maximum(other.detach().abs()));
  const isPlain = top.gt(0).logicalAnd(top.lt(Infinity)), scale = isPlain.where(top, 1);
  const length = a.div(scale).square().add(other.div(scale).square()).sqrt().mul(scale);
  return a.isInf().logicalOr(other.isInf()).where(Infinity, length);
}
