/** Series that special functions are made of, and functions with a derivative by another formula. */
import { isFloat } from "../../../backend/internal.ts";
import { result } from "../../core/apply.ts";
import { atLeastSingle, widened } from "../../core/autocast.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import type { Tensor } from "../../core/mod.ts";

/** Computes in float32 at least, as whole numbers and half types become; the result is of the input's type. */
export function inFloat(x: Tensor, compute: (x: Tensor) => Tensor): Tensor {
  const input = widened(isFloat(x.dtype) ? x : x.cast("float32"));
  return compute(atLeastSingle(input)).cast(input.dtype);
}

/** A value computed by one formula, with a derivative by another. */
export function withSlope(
  name: string,
  x: Tensor,
  value: (x: Tensor) => Tensor,
  slope: (x: Tensor, y: Tensor) => Tensor,
): Tensor {
  return inFloat(
    x,
    (input) =>
      result(name, [input], withoutGrad(() => value(input.detach())), (g, y) => [
        g.mul(slope(input, y)),
      ]),
  );
}

/** `c[0] + x * (c[1] + x * (...))`. */
export function polynomial(x: Tensor, coefficients: readonly number[]): Tensor {
  const [first, ...rest] = coefficients.toReversed();
  return rest.reduce((sum, c) => sum.mul(x).add(c), x.fullLike(first!));
}

/** Distance by which an argument is shifted up for asymptotic series: their last term is below the type's precision. */
export function shiftFor({ dtype }: Tensor): number {
  return dtype === "float64" ? 12 : 5;
}

/** Bernoulli's numbers of 2, 4, ... */
const BERNOULLI = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6];

/**
 * Terms that are added one by one at most. Beyond so many, those of an exponent that would need more are
 * nothing beside the first where they have not begun to converge.
 */
const MAX_ZETA_SHIFT = 64;

/** The zeta function of Hurwitz for `s` above 1 and positive numbers: 25.11.43. */
export function zeta(s: number, x: Tensor): Tensor {
  const shift = shiftFor(x) + Math.min(Math.ceil(s), MAX_ZETA_SHIFT);
  const y = x.add(shift), power = y.pow(-s);
  let sum = power.mul(y).div(s - 1).add(power.mul(0.5));
  // Factors alternate with divisions: none of them leaves the range where the term itself does not.
  let term = power.div(y).mul(s / 2);
  BERNOULLI.forEach((b, k) => {
    sum = sum.add(term.mul(b));
    term = term.div(y).mul((s + 2 * k + 1) / (2 * k + 3)).div(y).mul((s + 2 * k + 2) / (2 * k + 4));
  });
  for (let k = shift - 1; k >= 0; k--) sum = sum.add(x.add(k).pow(-s));
  return sum;
}

/** M. Giles, Approximating the erfinv function, 2010: the middle and the ends. */
const MIDDLE = [
  1.50140941,
  0.246640727,
  -0.00417768164,
  -0.00125372503,
  0.000218580870,
  -4.39150654e-06,
  -3.5233877e-06,
  3.43273939e-07,
  2.81022636e-08,
];
const ENDS = [
  2.83297682,
  1.00167406,
  0.00943887047,
  -0.00762246130,
  0.00573950773,
  -0.00367342844,
  0.00134934322,
  0.000100950558,
  -0.000200214257,
];

/**
 * The positive number of which the error function is `x`, with what is lacking to 1, and
 * `-log(1 - x * x)`.
 */
export function inverseErf(x: Tensor, rest: Tensor, w: Tensor): Tensor {
  const middle = polynomial(w.sub(2.5), MIDDLE), ends = polynomial(w.sqrt().sub(3), ENDS);
  // Beyond the polynomials by 7.12.1, twice: 2 y ** 2 = -log(pi rest ** 2) + log 2 - log(2 y ** 2).
  const isFar = w.gt(16), size = isFar.where(rest, 1e-8).log().mul(-2).sub(Math.log(Math.PI / 2));
  const far = size.sub(size.sub(size.log()).log()).mul(0.5).sqrt();
  let y = isFar.where(far, w.lt(5).where(middle, ends).mul(x));
  // Newton's method has the digits that they lack.
  for (let step = 0; step < (x.dtype === "float64" ? 3 : 2); step++) {
    y = y.add(y.erfc().sub(rest).mul(y.square().exp()).mul(Math.sqrt(Math.PI) / 2));
  }
  return y;
}
