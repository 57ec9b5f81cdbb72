/** Sine, cosine, tangent, and their inverses. */
import { type LaneWriter, polynomial, type ReducedAngle, SIGN, withSign } from "./lane_writer.ts";

/** Adding it rounds to a whole number, whose lowest bit is the sum's. */
const MAGIC = 12582912;

/** Pi in parts of a few bits: their products with numbers of 14 bits are exact. From SLEEF. */
const PI = [3.140625, 0.0009670257568359375, 6.2771141529083251953e-7, 1.2154201256553420762e-10];

/** From here on, angles are reduced by `largeAngle`. */
const LARGE = 39_000;

/** `x` without so many times pi in four parts, each divided by `divisor`. */
function without<V>(m: LaneWriter<V>, x: V, times: V, divisor = 1): V {
  return PI.reduce((rest, part) => m.madd(times, m.float(-part / divisor), rest), x);
}

/** The quick way, with the lanes of large angles replaced where there are any. */
function reduce<V>(
  m: LaneWriter<V>,
  x: V,
  quick: ReducedAngle<V>,
  fn: "sin" | "cos" | "tan",
): ReducedAngle<V> {
  const isLarge = m.not(m.lt(m.abs(x), m.float(LARGE)));
  const [rest, odd] = m.whereAny(isLarge, [quick.rest, quick.odd], () => {
    const exact = m.largeAngle(x, fn);
    return [exact.rest, exact.odd];
  });
  return { rest: rest!, odd: odd! };
}

/** The sine of an angle between -pi / 2 and pi / 2, negative where `odd`; the polynomial is SLEEF's. */
function sineOf<V>(m: LaneWriter<V>, { rest, odd }: ReducedAngle<V>): V {
  const square = m.mul(rest, rest);
  const p = polynomial(m, square, [
    2.6083159809786593541503e-6,
    -0.0001981069071916863322258,
    0.00833307858556509017944336,
    -0.166666597127914428710938,
  ]);
  const sine = m.madd(p, m.mul(square, rest), rest);
  // Keeps the sign of zero.
  const signed = m.select(m.eq(rest, m.float(0)), rest, sine);
  return m.xor(signed, m.and(odd, m.int(SIGN)));
}

/** Sine. */
export function sin<V>(m: LaneWriter<V>, x: V): V {
  const magic = m.float(MAGIC), shifted = m.madd(x, m.float(1 / Math.PI), magic);
  const rest = without(m, x, m.sub(shifted, magic));
  return sineOf(m, reduce(m, x, { rest, odd: m.shiftLeft(shifted, 31) }, "sin"));
}

/** Cosine: a sine, from an odd multiple of pi / 2 on. */
export function cos<V>(m: LaneWriter<V>, x: V): V {
  const a = m.abs(x), magic = m.float(MAGIC);
  const turns = m.madd(a, m.float(1 / Math.PI), m.float(-0.5));
  const shifted = m.add(turns, magic), whole = m.sub(shifted, magic);
  const rest = without(m, a, m.madd(whole, m.float(2), m.float(1)), 2);
  return sineOf(m, reduce(m, a, { rest, odd: m.not(m.shiftLeft(shifted, 31)) }, "cos"));
}

/** Tangent; the polynomial is that of Cephes, between -pi / 4 and pi / 4. */
export function tan<V>(m: LaneWriter<V>, x: V): V {
  const magic = m.float(MAGIC), shifted = m.madd(x, m.float(2 / Math.PI), magic);
  const quick = {
    rest: without(m, x, m.sub(shifted, magic), 2),
    odd: m.shiftLeft(shifted, 31),
  };
  const { rest, odd } = reduce(m, x, quick, "tan");
  const square = m.mul(rest, rest);
  const p = polynomial(m, square, [
    9.38540185543e-3,
    3.11992232697e-3,
    2.44301354525e-2,
    5.34112807005e-2,
    1.33387994085e-1,
    3.33331568548e-1,
  ]);
  const tangent = m.madd(p, m.mul(square, rest), rest);
  const found = m.select(m.eq(rest, m.float(0)), rest, tangent);
  const isOdd = m.shiftRight(odd, 31);
  return m.div(m.select(isOdd, m.float(-1), found), m.select(isOdd, found, m.float(1)));
}

/** Pi / 2 and pi as a float and what it lacks. */
const HALF_PI = [1.57079637, -4.37113883e-8] as const,
  WHOLE_PI = [3.14159274, -8.74227766e-8] as const;

/** An angle taken from pi / 2, or from pi. */
function complement<V>(m: LaneWriter<V>, [high, low]: readonly [number, number], angle: V): V {
  return m.add(m.sub(m.float(high), angle), m.float(low));
}

/**
 * The arcsine of `operand`, which is |x| or x, up to one half; beyond that, half of the arccosine of |x|:
 * `asin(a) = pi / 2 - 2 asin(sqrt((1 - a) / 2))`.
 */
function asinParts<V>(m: LaneWriter<V>, a: V, operand: V): { isLarge: V; angle: V } {
  const isLarge = m.gt(a, m.float(0.5));
  const z = m.select(isLarge, m.madd(a, m.float(-0.5), m.float(0.5)), m.mul(a, a));
  const s = m.select(isLarge, m.sqrt(z), operand);
  const p = polynomial(m, z, [
    3.751774146e-2,
    1.443772962e-2,
    3.180793743e-2,
    4.451693053e-2,
    7.500504304e-2,
    1.666665999e-1,
  ]);
  return { isLarge, angle: m.madd(m.mul(p, z), s, s) };
}

/** Arcsine. */
export function asin<V>(m: LaneWriter<V>, x: V): V {
  const a = m.abs(x), { isLarge, angle } = asinParts(m, a, a);
  const large = complement(m, HALF_PI, m.add(angle, angle));
  return withSign(m, m.select(isLarge, large, angle), x);
}

/** Arccosine. */
export function acos<V>(m: LaneWriter<V>, x: V): V {
  const { isLarge, angle } = asinParts(m, m.abs(x), x), twice = m.add(angle, angle);
  const large = m.select(m.lt(x, m.float(0)), complement(m, WHOLE_PI, twice), twice);
  return m.select(isLarge, large, complement(m, HALF_PI, angle));
}

/** The arctangent of a number from 0 to 1. */
function atanOfQuotient<V>(m: LaneWriter<V>, t: V): V {
  const z = m.mul(t, t);
  const p = polynomial(m, z, [
    -1.793593889e-3,
    1.0914481e-2,
    -3.1177613e-2,
    5.795735952e-2,
    -8.40343665e-2,
    1.09521811e-1,
    -1.426424079e-1,
    1.99985482e-1,
    -3.333329909e-1,
  ]);
  return m.madd(m.mul(p, z), t, t);
}

/** Arctangent. */
export function atan<V>(m: LaneWriter<V>, x: V): V {
  const a = m.abs(x), isLarge = m.gt(a, m.float(1));
  const angle = atanOfQuotient(m, m.select(isLarge, m.div(m.float(1), a), a));
  return withSign(m, m.select(isLarge, complement(m, HALF_PI, angle), angle), x);
}

/** The angle of the point (x, y) by its octant; of two zeros the quotient is 0, of two infinities 1. */
export function atan2<V>(m: LaneWriter<V>, y: V, x: V): V {
  const a = m.abs(x), b = m.abs(y), isSteep = m.gt(b, a);
  const low = m.select(isSteep, a, b), high = m.select(isSteep, b, a);
  const quotient = m.select(m.eq(high, m.float(0)), m.float(0), m.div(low, high));
  const t = m.select(m.eq(low, m.float(Infinity)), m.float(1), quotient);
  const angle = atanOfQuotient(m, t);
  const first = m.select(isSteep, complement(m, HALF_PI, angle), angle);
  const isLeft = m.shiftRight(x, 31);
  const half = m.select(isLeft, complement(m, WHOLE_PI, first), first);
  const ordered = m.and(m.eq(x, x), m.eq(y, y));
  return m.select(ordered, withSign(m, half, y), m.add(x, y));
}
