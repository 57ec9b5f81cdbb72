/** Functions with a logarithm in doubles on the way: it needs more than the 24 bits of a float. */
import { type DoubleWriter, type LaneWriter, SIGN } from "./lane_writer.ts";
import { logValue, splitExponent } from "./logarithms.ts";

/** Results beyond 2 to this are infinite or 0 as floats. */
const MAX_EXPONENT = 200;

/** Adding it rounds to a whole number; 1023 more makes its lowest bits an exponent. */
const MAGIC = 1.5 * 2 ** 52 + 1023;

/** `2^x` by its series, the highest coefficient first. */
const EXP2 = Array.from({ length: 8 }, (_, k) => {
  let c = 1;
  for (let n = 1; n <= 7 - k; n++) c *= Math.LN2 / n;
  return c;
});

/** `2 / ln 2 * artanh(s) / s` in s^2. */
const LOG2 = [
  0.28290238896444203,
  0.31990554834675145,
  0.41220925582459372,
  0.57707794233207188,
  0.96179669411345747,
  2.8853900817778499,
];

function polynomial<V>(d: DoubleWriter<V>, x: V, coefficients: readonly number[]): V {
  const [first, ...rest] = coefficients.map((c) => d.constant(c));
  return rest.reduce((sum, c) => d.madd(sum, x, c), first!);
}

/** `factor * 2^x`, to 27 bits. */
function power<V>(d: DoubleWriter<V>, x: V, factor?: V): V {
  const held = d.clamp(x, -MAX_EXPONENT, MAX_EXPONENT), magic = d.constant(MAGIC);
  const shifted = d.add(held, magic);
  const e = polynomial(d, d.sub(held, d.sub(shifted, magic)), EXP2);
  return d.mul(factor === undefined ? e : d.mul(factor, e), d.powerOfTwo(shifted));
}

/**
 * The logarithm to the base 2 of `2^k f`, to 34 bits: `k + s l(s^2)` with `s = (f - 1) / (f + 1)`. `inverse` is
 * about `1 / (f + 1)`, which a step of Newton's makes that of doubles.
 */
function logarithm<V>(d: DoubleWriter<V>, k: V, f: V, inverse: V): V {
  const one = d.constant(1), first = d.mul(d.sub(f, one), inverse);
  const missing = d.sub(one, d.mul(d.add(f, one), inverse));
  const s = d.madd(first, missing, first);
  return d.madd(polynomial(d, d.mul(s, s), LOG2), s, k);
}

/** The operands of {@linkcode logarithm}. */
function logOperands<V>(m: LaneWriter<V>, x: V): V[] {
  const { k, mantissa } = splitExponent(m, x);
  return [k, mantissa, m.div(m.float(1), m.add(m.float(1), mantissa))];
}

/** 2 to the power of x. */
export function exp2<V>(m: LaneWriter<V>, x: V): V {
  return m.inDoubles([x], (d, exponent) => power(d, exponent!));
}

/** The logarithm to the base 2: exact for powers of two. */
export function log2<V>(m: LaneWriter<V>, x: V): V {
  const value = m.inDoubles(logOperands(m, x), (d, k, f, r) => logarithm(d, k!, f!, r!));
  return logValue(m, x, value);
}

/** The logarithm to the base 10. */
export function log10<V>(m: LaneWriter<V>, x: V): V {
  const value = m.inDoubles(
    logOperands(m, x),
    (d, k, f, r) => d.mul(logarithm(d, k!, f!, r!), d.constant(Math.LN2 / Math.LN10)),
  );
  return logValue(m, x, value);
}

/**
 * C's pow: 1 to any power and anything to 0 are 1, also for NaN; what is negative has powers with whole
 * exponents only.
 */
export function pow<V>(m: LaneWriter<V>, x: V, y: V): V {
  const a = m.abs(x), zero = m.float(0), one = m.float(1), infinity = m.float(Infinity);
  const regular = m.inDoubles(
    [...logOperands(m, a), y],
    (d, k, f, r, by) => power(d, d.mul(by!, logarithm(d, k!, f!, r!))),
  );
  const isZero = m.eq(a, zero), isInfinite = m.eq(a, infinity);
  const grows = m.not(m.xor(isZero, m.lt(y, zero)));
  const size = m.select(m.or(isZero, isInfinite), m.select(grows, infinity, zero), regular);
  const isWhole = m.eq(m.trunc(y), y), half = m.mul(y, m.float(0.5));
  const isOdd = m.and(isWhole, m.not(m.eq(m.trunc(half), half)));
  const signed = m.xor(size, m.and(m.and(x, isOdd), m.int(SIGN)));
  const isFinite = m.lt(a, infinity);
  const hasNone = m.and(m.lt(x, zero), m.and(isFinite, m.not(isWhole)));
  const ordered = m.and(m.eq(x, x), m.eq(y, y));
  const value = m.select(ordered, m.select(hasNone, m.float(NaN), signed), m.add(x, y));
  const isUnit = m.and(m.eq(a, one), m.eq(m.abs(y), infinity));
  return m.select(m.or(m.or(m.eq(x, one), m.eq(y, zero)), isUnit), one, value);
}

/**
 * `t 2^(p(t) - x^2 log2(e))` with `t = 1 / (1 + x / 2)`, from 0 to where floats end: W. Press et al., Numerical
 * Recipes, with a polynomial of degree 10. For numbers below 0, two without that.
 */
export function erfc<V>(m: LaneWriter<V>, x: V): V {
  const value = m.inDoubles([m.abs(x)], (d, size) => {
    const a = d.clamp(size!, 0, 11), one = d.constant(1);
    const t = d.div(one, d.madd(a, d.constant(0.5), one));
    const p = polynomial(d, t, [
      -0.19791946519414197,
      1.3643051392416237,
      -3.9304521262122236,
      5.9898767467521958,
      -5.020919194386674,
      2.3507570269527291,
      -1.0086438465201124,
      0.32178653862604684,
      0.51195183678860479,
      1.4450912592867697,
      -1.8258339067834046,
    ]);
    const square = d.mul(d.mul(a, a), d.constant(Math.LOG2E));
    return power(d, d.sub(p, square), t);
  });
  return m.select(m.lt(x, m.float(0)), m.sub(m.float(2), value), value);
}
