/**
 * Exponentials and what is made of them. Errors stay below three units of the last place, and NaN,
 * infinities and subnormal numbers come out as they should: a clamp is a comparison and a selection that
 * keep NaN.
 */
import { type LaneWriter, polynomial, SIGN, withSign } from "./lane_writer.ts";

/** Adding 1.5 * 2^23 rounds to a whole number that is then found in the low bits. */
const MAGIC = 12582912;
/** The bits of 1. */
const ONE = 0x3f800000;

/** `x = n ln 2 + r`: r, and a float with n in its low bits. */
function reduced<V>(m: LaneWriter<V>, x: V): { r: V; shifted: V } {
  const shifted = m.madd(x, m.float(Math.LOG2E), m.float(MAGIC));
  const n = m.sub(shifted, m.float(MAGIC));
  const high = m.madd(n, m.float(-0.693359375), x);
  return { r: m.madd(n, m.float(2.12194440e-4), high), shifted };
}

/** `e^r`, and a float with n in its low bits: `e^x = 2^n e^r`. */
function parts<V>(m: LaneWriter<V>, x: V): { p: V; shifted: V } {
  const { r, shifted } = reduced(m, x);
  const p = polynomial(m, r, [
    8.31251312e-3,
    4.18902189e-2,
    1.66671142e-1,
    4.99992311e-1,
    1,
    1,
  ]);
  return { p, shifted };
}

/** Two factors, whose product is 2^(n - `less`), reach subnormal results and infinity. */
function scaled<V>(m: LaneWriter<V>, { p, shifted }: { p: V; shifted: V }, less = 0): V {
  const whole = m.shiftLeft(shifted, 23), first = m.shiftLeft(m.shiftRight(shifted, 1), 23);
  const second = m.addInt(m.subInt(whole, first), m.int(ONE - less * 2 ** 23));
  return m.mul(m.mul(p, m.addInt(first, m.int(ONE))), second);
}

/** Held at `most`. */
function atMost<V>(m: LaneWriter<V>, x: V, most: number): V {
  return m.select(m.gt(x, m.float(most)), m.float(most), x);
}

/**
 * `e^x`. A product that becomes 0 takes a processor a hundred times as long as others: masked scores are
 * zeros without one.
 */
export function exp<V>(m: LaneWriter<V>, x: V): V {
  const { p, shifted } = parts(m, x);
  // Where the result is a normal number n is added to the exponent.
  const quick = m.addInt(p, m.shiftLeft(shifted, 23));
  const isOther = m.not(m.lt(m.abs(x), m.float(87)));
  const [found] = m.whereAny(isOther, [quick], () => {
    const none = m.lt(x, m.float(-104));
    const held = atMost(m, m.select(none, m.float(0), x), 89);
    return [m.select(none, m.float(0), scaled(m, parts(m, held)))];
  });
  return found!;
}

/** Half of `e^x`, from 0 on: infinite only where hyperbolic functions are. */
export const halfExp = <V>(m: LaneWriter<V>, x: V): V => scaled(m, parts(m, atMost(m, x, 90)), 1);

/** `2^n (e^r - 1) + (2^n - 1)`, by halves so that 2^128 is not met on the way. */
export function expm1<V>(m: LaneWriter<V>, x: V): V {
  const low = m.select(m.lt(x, m.float(-18)), m.float(-18), x);
  const { r, shifted } = reduced(m, atMost(m, low, 89));
  const p = polynomial(m, r, [0.0013882510, 0.0083665801, 0.041667201, 0.16666543, 0.5]);
  const tail = m.madd(p, m.mul(r, r), r);
  const half = m.addInt(m.shiftLeft(shifted, 23), m.int(ONE - 2 ** 23));
  const e = m.madd(tail, half, m.sub(half, m.float(0.5)));
  // Keeps the sign of zero.
  return m.select(m.eq(x, m.float(0)), x, m.add(e, e));
}

/**
 * `(e^2x - 1) / (e^2x + 1)`. Beyond 9.02 it is 1 in float, which a quotient need not be: derivatives take the
 * difference from 1 times x.
 */
export function tanh<V>(m: LaneWriter<V>, x: V): V {
  const e = expm1(m, m.add(x, x)), one = m.or(m.and(x, m.int(SIGN)), m.int(ONE));
  const quotient = m.div(e, m.add(e, m.float(2)));
  return m.select(m.gt(m.abs(x), m.float(9.02)), one, quotient);
}

/** `1 / (1 + e^-x)`. */
export function sigmoid<V>(m: LaneWriter<V>, x: V): V {
  return m.div(m.float(1), m.add(m.float(1), exp(m, m.neg(x))));
}

/** `(e^x + e^-x) / 2`. */
export function cosh<V>(m: LaneWriter<V>, x: V): V {
  const half = halfExp(m, m.abs(x));
  return m.add(half, m.div(m.float(0.25), half));
}

/** `(e^x - e^-x) / 2`; up to 1 a series, where the difference would cancel. */
export function sinh<V>(m: LaneWriter<V>, x: V): V {
  const a = m.abs(x), z = m.mul(x, x), half = halfExp(m, a);
  const p = polynomial(m, z, [2.816957505e-6, 1.983615873e-4, 8.333350063e-3, 1.66666665e-1]);
  const small = m.madd(m.mul(p, z), a, a);
  const large = m.sub(half, m.div(m.float(0.25), half));
  return withSign(m, m.select(m.lt(a, m.float(1)), small, large), x);
}

/** A polynomial below 475 / 512, from there on `1 - e^p(|x|)`: the two of N. Juffa's `erff`. */
export function erf<V>(m: LaneWriter<V>, x: V): V {
  const a = m.abs(x), z = m.mul(x, x);
  const factor = polynomial(m, z, [
    -5.96761703e-4,
    4.99119423e-3,
    -2.67681349e-2,
    1.12819925e-1,
    -3.76125336e-1,
    1.28379166e-1,
  ]);
  const small = m.madd(factor, x, x);
  const large = m.sub(m.float(1), exp(m, erfExponent(m, a, z)));
  return m.select(m.lt(a, m.float(0.927734375)), small, withSign(m, large, x));
}

/** The logarithm of `1 - erf(a)`; `square` is that of a. */
function erfExponent<V>(m: LaneWriter<V>, a: V, square: V): V {
  const high = polynomial(m, a, [-1.72853470e-5, 3.83197126e-4]);
  const low = polynomial(m, a, [-3.88396438e-3, 2.42546219e-2]);
  const rest = [-1.06777877e-1, -6.34846687e-1, -1.28717512e-1]
    .reduce((sum, c) => m.madd(sum, a, m.float(c)), m.madd(high, square, low));
  return m.madd(rest, a, m.neg(a));
}
