/** Logarithms, and the inverses of hyperbolic functions, which are made of them. */
import { type LaneWriter, polynomial, withSign } from "./lane_writer.ts";

/** The smallest normal float. */
const NORMAL = 2 ** -126;

/**
 * `x = 2^k (1 + f)`, with `1 + f` between the root of one half and that of two: k, and `1 + f`.
 * The constants are those of fdlibm (Sun Microsystems, 1993).
 */
export function splitExponent<V>(m: LaneWriter<V>, x: V): { k: V; mantissa: V } {
  const tiny = m.lt(x, m.float(NORMAL));
  const normal = m.select(tiny, m.mul(x, m.float(2 ** 23)), x);
  const i = m.addInt(normal, m.int(0x004afb0d));
  const bias = m.select(tiny, m.int(127 + 23), m.int(127));
  return {
    k: m.toFloat(m.subInt(m.shiftRight(i, 23), bias)),
    mantissa: m.addInt(m.and(i, m.int(0x007fffff)), m.int(0x3f3504f3)),
  };
}

/** The value of a logarithm at x, or what it is at 0, at infinity and where there is none. */
export function logValue<V>(m: LaneWriter<V>, x: V, value: V): V {
  const infinity = m.float(Infinity), zero = m.float(0);
  const none = m.select(m.lt(x, zero), m.float(NaN), x);
  const odd = m.select(m.eq(x, zero), m.float(-Infinity), none);
  return m.select(m.and(m.gt(x, zero), m.lt(x, infinity)), value, odd);
}

/** The natural logarithm; the polynomial is that of Cephes. */
export function log<V>(m: LaneWriter<V>, x: V): V {
  const { k, mantissa } = splitExponent(m, x);
  const f = m.sub(mantissa, m.float(1)), z = m.mul(f, f);
  const p = polynomial(m, f, [
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
  ]);
  const low = m.madd(k, m.float(-2.12194440e-4), m.mul(m.mul(p, f), z));
  const sum = m.add(f, m.madd(z, m.float(-0.5), low));
  return logValue(m, x, m.madd(k, m.float(0.693359375), sum));
}

/** `log(1 + x)`: adds back what `1 + x` has rounded off, divided by `1 + x`. */
export function log1p<V>(m: LaneWriter<V>, x: V): V {
  const u = m.add(m.float(1), x);
  const lost = m.div(m.sub(x, m.sub(u, m.float(1))), u);
  const value = log(m, u);
  const isNumber = m.and(m.gt(u, m.float(0)), m.lt(u, m.float(Infinity)));
  const sum = m.select(isNumber, m.add(value, lost), value);
  // Keeps the sign of zero.
  return m.select(m.eq(x, m.float(0)), x, sum);
}

/** From here on `1 + x^2` is `x^2`, and the area function is `log(2 x)`. */
const LARGE = 2 ** 28;

/** `log(1 + small)`, or `log(2 x)` where x is large. */
function area<V>(m: LaneWriter<V>, x: V, small: V): V {
  const isLarge = m.ge(x, m.float(LARGE));
  const value = log1p(m, m.select(isLarge, x, small));
  return m.add(value, m.select(isLarge, m.float(Math.LN2), m.float(0)));
}

/** `log(a + sqrt(a^2 + 1))`. */
export function asinh<V>(m: LaneWriter<V>, x: V): V {
  const a = m.abs(x), z = m.mul(a, a), one = m.float(1);
  const rest = m.div(z, m.add(one, m.sqrt(m.add(z, one))));
  return withSign(m, area(m, a, m.add(a, rest)), x);
}

/** `log(x + sqrt(x^2 - 1))`; NaN below 1. */
export function acosh<V>(m: LaneWriter<V>, x: V): V {
  const t = m.sub(x, m.float(1));
  const root = m.sqrt(m.mul(t, m.add(t, m.float(2))));
  return m.select(m.lt(x, m.float(1)), m.float(NaN), area(m, x, m.add(t, root)));
}

/** `log((1 + a) / (1 - a)) / 2`. */
export function atanh<V>(m: LaneWriter<V>, x: V): V {
  const a = m.abs(x);
  const ratio = m.div(m.add(a, a), m.sub(m.float(1), a));
  return withSign(m, m.mul(m.float(0.5), log1p(m, ratio)), x);
}
