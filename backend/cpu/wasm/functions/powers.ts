/** Powers, and logarithms to the bases 2 and 10, of four floats at a time. */
import type { FunctionBuilder, Local } from "../assembler.ts";
import type { VectorMath } from "../math.ts";
import { f32x4, f64x2, i64x2, v128 } from "../opcodes.ts";

/** Coefficients of `2 / ln 2 * artanh(z) / z` in z², the highest first. */
const LOG2 = [11, 9, 7, 5, 3, 1].map((k) => 2 / (Math.LN2 * k));

/** Those of `2^x`, by its series. */
const EXP2 = Array.from({ length: 8 }, (_, k) => {
  let c = 1;
  for (let n = 1; n <= 7 - k; n++) c *= Math.LN2 / n;
  return c;
});

/** Adding it rounds to a whole number; 1023 more makes its lowest bits an exponent. */
const MAGIC = 1.5 * 2 ** 52 + 1023;

/** Results beyond 2 to this are infinite or 0 as floats. */
const MAX_EXPONENT = 200;

function wide(f: FunctionBuilder, m: VectorMath, x: Local, coefficients: readonly number[]): Local {
  const [first, ...rest] = coefficients.map((c) => f.double(c));
  return rest.reduce((sum, c) => m.maddWide(sum, x, c), first!);
}

/** The logarithm of `2^exponent (1 + m)`, to 34 bits. */
function log2Wide(f: FunctionBuilder, math: VectorMath, exponent: Local, m: Local): Local {
  const z = f.v(f64x2.div, m, f.v(f64x2.add, m, f.double(2)));
  const p = wide(f, math, f.v(f64x2.mul, z, z), LOG2);
  return math.maddWide(p, z, exponent);
}

/** 2 to the power of a double, to 27 bits. */
function exp2Wide(f: FunctionBuilder, m: VectorMath, x: Local): Local {
  const low = f.v(f64x2.pmax, x, f.double(-MAX_EXPONENT));
  const held = f.v(f64x2.pmin, low, f.double(MAX_EXPONENT));
  const magic = f.double(MAGIC), shifted = f.v(f64x2.add, held, magic);
  const rest = f.v(f64x2.sub, held, f.v(f64x2.sub, shifted, magic));
  return f.v(f64x2.mul, wide(f, m, rest, EXP2), f.shift(i64x2.shl, shifted, 52));
}

/**
 * C's pow: 1 to any power and anything to 0 are 1, also for NaN; what is negative has powers with
 * whole exponents only. Logarithms are doubles: the exponent multiplies their errors.
 */
export function pow(f: FunctionBuilder, m: VectorMath, x: Local, y: Local): Local {
  const a = m.abs(x), zero = f.float(0), one = f.float(1), infinity = f.float(Infinity);
  const { exponent, m: mantissa } = m.splitLog(a);
  const regular = m.inDoubles(
    [exponent, mantissa, y],
    (e, rest, by) => exp2Wide(f, m, f.v(f64x2.mul, by!, log2Wide(f, m, e!, rest!))),
  );
  const isZero = f.v(f32x4.eq, a, zero);
  const isEdge = f.v(v128.or, isZero, f.v(f32x4.eq, a, infinity));
  const vanishes = f.v(v128.not, f.v(v128.xor, isZero, f.v(f32x4.gt, y, zero)));
  const edge = m.select(vanishes, zero, infinity);
  const magnitude = m.select(isEdge, edge, regular);
  const isWhole = f.v(f32x4.eq, f.v(f32x4.trunc, y), y);
  const half = f.v(f32x4.mul, y, f.float(0.5));
  const isOdd = f.v(v128.and, isWhole, f.v(f32x4.ne, f.v(f32x4.trunc, half), half));
  const signed = f.v(v128.xor, magnitude, f.v(v128.and, f.v(v128.and, x, isOdd), f.splat(SIGN)));
  const hasNone = f.v(
    v128.and,
    f.v(f32x4.lt, x, zero),
    f.v(v128.not, f.v(v128.or, isWhole, isEdge)),
  );
  const unordered = f.v(v128.or, f.v(f32x4.ne, x, x), f.v(f32x4.ne, y, y));
  const value = m.select(f.v(v128.or, hasNone, unordered), f.float(NaN), signed);
  const isUnit = f.v(v128.and, f.v(f32x4.eq, a, one), f.v(f32x4.eq, m.abs(y), infinity));
  const isOne = f.v(v128.or, f.v(f32x4.eq, x, one), f.v(f32x4.eq, y, zero));
  return m.select(f.v(v128.or, isOne, isUnit), one, value);
}

const SIGN = -0x80000000;

/** 2 to the power of x. */
export function exp2(f: FunctionBuilder, m: VectorMath, x: Local): Local {
  return m.inDoubles([x], (wideX) => exp2Wide(f, m, wideX!));
}

/** The logarithm to the base 2: exact for powers of two. */
export function log2(f: FunctionBuilder, m: VectorMath, x: Local): Local {
  return m.edgesOfLog(x, logOfBase(f, m, x, 1));
}

/** The logarithm to the base 10. */
export function log10(f: FunctionBuilder, m: VectorMath, x: Local): Local {
  return m.edgesOfLog(x, logOfBase(f, m, x, Math.LN2 / Math.LN10));
}

function logOfBase(f: FunctionBuilder, m: VectorMath, x: Local, factor: number): Local {
  const { exponent, m: mantissa } = m.splitLog(x);
  return m.inDoubles([exponent, mantissa], (e, rest) => {
    const log = log2Wide(f, m, e!, rest!);
    return factor === 1 ? log : f.v(f64x2.mul, log, f.double(factor));
  });
}
