/** Functions of two doubles at a time, to a few units in the last place. */
import type { FunctionBuilder, Local } from "../assembler.ts";
import type { VectorMath } from "../math.ts";
import { f64x2, i64x2, v128 } from "../opcodes.ts";

/** Adding it rounds to a whole number; 1022 more makes its lowest bits the exponent of a half. */
const MAGIC = 1.5 * 2 ** 52 + 1022;

/** ln 2 in two parts: the products of the first with whole numbers of 11 bits are exact. */
const LN2 = [6.93147180369123816490e-1, 1.90821492927058770002e-10] as const;

/** The series of `e^r`, the highest power first, down to the first. */
const EXP = Array.from({ length: 13 }, (_, k) => 13 - k).map((n) => {
  let c = 1;
  for (let i = 2; i <= n; i++) c /= i;
  return c;
});

/** Those of `artanh(z) / z`, without the first. */
const ARTANH = [19, 17, 15, 13, 11, 9, 7, 5, 3].map((k) => 1 / k);

function polynomial(
  f: FunctionBuilder,
  m: VectorMath,
  x: Local,
  coefficients: readonly number[],
): Local {
  const [first, ...rest] = coefficients.map((c) => f.double(c));
  return rest.reduce((sum, c) => m.maddWide(sum, x, c), first!);
}

/** Results below 2^-1021 are 0. */
export function expWide(f: FunctionBuilder, m: VectorMath, x: Local): Local {
  const held = f.v(f64x2.pmin, f.v(f64x2.pmax, x, f.double(-708.5)), f.double(710));
  const magic = f.double(MAGIC), shifted = m.maddWide(held, f.double(Math.LOG2E), magic);
  const whole = f.v(f64x2.sub, shifted, magic);
  const rest = LN2.reduce((left, part) => m.maddWide(whole, f.double(-part), left), held);
  const p = f.v(f64x2.mul, polynomial(f, m, rest, EXP), rest);
  const half = f.shift(i64x2.shl, shifted, 52);
  const doubled = f.v(f64x2.add, p, p);
  const found = f.v(f64x2.mul, f.v(f64x2.add, doubled, f.double(2)), half);
  return select(f, f.v(f64x2.lt, x, f.double(-708.4)), f.double(0), found);
}

function select(f: FunctionBuilder, mask: Local, x: Local, y: Local): Local {
  return f.v(v128.bitselect, x, y, mask);
}

/** The bits of 2: an exponent of 1024, which makes those of differences positive. */
const RAISED = 2;

/** The natural logarithm. */
export function logWide(f: FunctionBuilder, math: VectorMath, x: Local): Local {
  const small = f.v(f64x2.lt, x, f.double(2 ** -1022));
  const normal = select(f, small, f.v(f64x2.mul, x, f.double(2 ** 54)), x);
  const bits = f.v(i64x2.sub, normal, f.double(Math.SQRT1_2));
  const raised = f.shift(i64x2.shrU, f.v(i64x2.add, bits, f.double(RAISED)), 52);
  // What is put into the lowest bits of 2^52 is added to it.
  const whole = f.v(v128.or, raised, f.double(2 ** 52));
  const place = f.v(i64x2.sub, f.shift(i64x2.shl, raised, 52), f.double(RAISED));
  const m = f.v(f64x2.sub, f.v(i64x2.sub, normal, place), f.double(1));
  const scaled = f.v(f64x2.sub, whole, f.double(2 ** 52 + 1024));
  const found = logOf(f, math, m, f.v(f64x2.sub, scaled, f.v(v128.and, small, f.double(54))));
  const infinite = f.v(f64x2.eq, x, f.double(Infinity));
  const positive = f.v(f64x2.gt, x, f.double(0)), zero = f.v(f64x2.eq, x, f.double(0));
  const edge = select(f, zero, f.double(-Infinity), f.double(NaN));
  return select(f, positive, select(f, infinite, x, found), edge);
}

/**
 * `exponent ln 2 + log(1 + m)`, for `1 + m` between the root of one half and that of two: as in
 * fdlibm, `m - m²/2 + s (m²/2 + R)` with `s = m / (2 + m)`.
 */
function logOf(f: FunctionBuilder, math: VectorMath, m: Local, exponent: Local): Local {
  const s = f.v(f64x2.div, m, f.v(f64x2.add, m, f.double(2)));
  const z = f.v(f64x2.mul, s, s), half = f.v(f64x2.mul, f.v(f64x2.mul, m, m), f.double(0.5));
  const p = polynomial(f, math, z, ARTANH.map((c) => 2 * c));
  const tail = f.v(f64x2.mul, s, math.maddWide(p, z, half));
  const low = math.maddWide(exponent, f.double(LN2[1]), tail);
  const rest = f.v(f64x2.sub, m, f.v(f64x2.sub, half, low));
  return math.maddWide(exponent, f.double(LN2[0]), rest);
}
