/** Hyperbolic functions of four floats at a time, and their inverses. */
import type { FunctionBuilder, Local } from "../assembler.ts";
import type { VectorMath } from "../math.ts";
import { f32x4 } from "../opcodes.ts";

/** From here on, `log(2x)` is the area function to the last place. */
const LARGE = 1e8;

/** Writes the hyperbolic sine; the polynomial, below 1, is that of Cephes. */
export function sinh(f: FunctionBuilder, m: VectorMath, x: Local): Local {
  const a = m.abs(x), square = f.v(f32x4.mul, a, a);
  const p = m.polynomial(square, [2.03721912945e-4, 8.33028376239e-3, 1.66667160211e-1]);
  const small = m.madd(p, f.v(f32x4.mul, square, a), a);
  const half = m.halfExp(a);
  const large = f.v(f32x4.sub, half, f.v(f32x4.div, f.float(0.25), half));
  return m.withSign(m.select(f.v(f32x4.gt, a, f.float(1)), large, small), x);
}

/** Writes the hyperbolic cosine. */
export function cosh(f: FunctionBuilder, m: VectorMath, x: Local): Local {
  const half = m.halfExp(m.abs(x));
  return f.v(f32x4.add, half, f.v(f32x4.div, f.float(0.25), half));
}

/** `log(1 + small)`, or `log(2x)` where x is large. */
function logarithm(f: FunctionBuilder, m: VectorMath, x: Local, small: Local): Local {
  const isLarge = f.v(f32x4.gt, x, f.float(LARGE));
  const log = m.log1p(m.select(isLarge, x, small));
  return m.select(isLarge, f.v(f32x4.add, log, f.float(Math.LN2)), log);
}

/** `log(1 + a + a² / (1 + sqrt(1 + a²)))`. */
export function asinh(f: FunctionBuilder, m: VectorMath, x: Local): Local {
  const a = m.abs(x), one = f.float(1), square = f.v(f32x4.mul, a, a);
  const root = f.v(f32x4.sqrt, f.v(f32x4.add, square, one));
  const rest = f.v(f32x4.div, square, f.v(f32x4.add, root, one));
  return m.withSign(logarithm(f, m, a, f.v(f32x4.add, a, rest)), x);
}

/** `log(1 + t + sqrt(2t + t²))` with `t = x - 1`; NaN below 1. */
export function acosh(f: FunctionBuilder, m: VectorMath, x: Local): Local {
  const t = f.v(f32x4.sub, x, f.float(1));
  const root = f.v(f32x4.sqrt, f.v(f32x4.mul, t, f.v(f32x4.add, t, f.float(2))));
  const found = logarithm(f, m, x, f.v(f32x4.add, t, root));
  return m.select(f.v(f32x4.lt, x, f.float(1)), f.float(NaN), found);
}

/** `log(1 + 2a / (1 - a)) / 2`. */
export function atanh(f: FunctionBuilder, m: VectorMath, x: Local): Local {
  const a = m.abs(x);
  const ratio = f.v(f32x4.div, f.v(f32x4.add, a, a), f.v(f32x4.sub, f.float(1), a));
  return m.withSign(f.v(f32x4.mul, m.log1p(ratio), f.float(0.5)), x);
}
