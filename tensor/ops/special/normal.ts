/** The normal distribution's function, its inverse and logarithm, and the logistic one's. */
import type { TensorLike } from "../../core/arguments.ts";
import { compute } from "../../core/operations.ts";
import type { Tensor } from "../../core/mod.ts";
import { inFloat, inverseErf, withSlope } from "../elementwise/series.ts";
import { floatOperands, requireFloating } from "./arguments.ts";

/** Levels of the continued fraction: enough for the digits of doubles from {@linkcode FAR} on. */
const LEVELS = 60, FAR = 2.5;

function erfcxOf(x: Tensor): Tensor {
  requireFloating("erfcx", x);
  return withSlope("erfcx", x, (x) => {
    const isFar = x.gt(FAR), far = isFar.where(x, FAR), near = isFar.where(0, x);
    // 7.9.4
    let fraction = far;
    for (let k = LEVELS; k > 0; k--) fraction = fraction.reciprocal().mul(k / 2).add(far);
    const above = fraction.reciprocal().mul(1 / Math.sqrt(Math.PI));
    return isFar.where(above, near.square().exp().mul(near.erfc()));
  }, (x, y) => x.mul(y).mul(2).sub(2 / Math.sqrt(Math.PI)));
}

/** `exp(x ** 2) * erfc(x)`, which stays in range for large numbers. */
export function erfcx(x: Tensor): Tensor {
  return compute(erfcxOf, x);
}

function normalShare(x: Tensor): Tensor {
  requireFloating("ndtr", x);
  return inFloat(x, (x) => x.mul(-Math.SQRT1_2).erfc().mul(0.5));
}

/**
 * The share of a standard normal distribution below each element.
 *
 * @example
 * ```ts
 * import { special, Tensor } from "@netcl/netcl";
 *
 * console.assert(Math.abs(await special.ndtr(Tensor.fromHost(1.96)).item() - 0.975) < 1e-4);
 * ```
 */
export function ndtr(x: Tensor): Tensor {
  return compute(normalShare, x);
}

function logNormalShare(x: Tensor): Tensor {
  requireFloating("logNdtr", x);
  return inFloat(x, (x) => {
    const isLow = x.lt(-1), low = isLow.where(x, -1), high = isLow.where(0, x);
    const below = erfcxOf(low.mul(-Math.SQRT1_2)).mul(0.5).log().sub(low.square().mul(0.5));
    return isLow.where(below, high.mul(Math.SQRT1_2).erfc().mul(-0.5).log1p());
  });
}

/** The logarithm of {@linkcode ndtr}, also where that is too small for the type. */
export function logNdtr(x: Tensor): Tensor {
  return compute(logNormalShare, x);
}

function normalQuantile(x: Tensor): Tensor {
  requireFloating("ndtri", x);
  return withSlope("ndtri", x, (x) => {
    // From the nearer end: there small shares have all of their digits.
    const upper = x.gt(0.5), share = upper.where(x.neg().add(1), x), rest = share.mul(2);
    const size = inverseErf(
      rest.neg().add(1),
      rest,
      share.mul(4).log().add(share.neg().log1p()).neg(),
    );
    const value = share.eq(0).where(Infinity, size.mul(Math.SQRT2));
    return upper.where(value, value.neg());
  }, (_, y) => y.square().mul(0.5).exp().mul(Math.sqrt(2 * Math.PI)));
}

/** The number below which a share of a standard normal distribution lies: the inverse of {@linkcode ndtr}. */
export function ndtri(x: Tensor): Tensor {
  return compute(normalQuantile, x);
}

function logitOf(x: Tensor): Tensor {
  requireFloating("logit", x);
  return inFloat(x, (x) => x.log().sub(x.neg().log1p()));
}

/** `log(x / (1 - x))`: the inverse of `sigmoid`. */
export function logit(x: Tensor): Tensor {
  return compute(logitOf, x);
}

function xlog1pyOf(x: TensorLike, y: TensorLike): Tensor {
  const [left, right] = floatOperands("xlog1py", x, y);
  // Where x is 0 the logarithm counts for nothing; NaN stays.
  const isNothing = left.eq(0).logicalAnd(right.isNaN().logicalNot());
  return isNothing.where(left, left.mul(isNothing.where(0, right).log1p()));
}

/** `x * log1p(y)`, 0 where `x` is. */
export function xlog1py(x: TensorLike, y: TensorLike): Tensor {
  return compute(xlog1pyOf, x, y);
}
