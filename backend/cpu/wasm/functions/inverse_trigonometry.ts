/** Arcus functions of four floats at a time. */
import type { FunctionBuilder, Local } from "../assembler.ts";
import type { VectorMath } from "../math.ts";
import { f32x4, i32x4, v128 } from "../opcodes.ts";

/** The arctangent of a number between 0 and 1; the polynomial is SLEEF's. */
function atanOfQuotient(f: FunctionBuilder, m: VectorMath, t: Local): Local {
  const square = f.v(f32x4.mul, t, t);
  const p = m.polynomial(square, [
    0.00282363896258175373077393,
    -0.0159569028764963150024414,
    0.0425049886107444763183594,
    -0.0748900920152664184570312,
    0.106347933411598205566406,
    -0.142027363181114196777344,
    0.199926957488059997558594,
    -0.333331018686294555664062,
  ]);
  return m.madd(p, f.v(f32x4.mul, square, t), t);
}

/** Writes the arctangent. */
export function atan(f: FunctionBuilder, m: VectorMath, x: Local): Local {
  const a = m.abs(x), isLarge = f.v(f32x4.gt, a, f.float(1));
  const above = m.select(isLarge, f.float(1), a), below = m.select(isLarge, a, f.float(1));
  const angle = atanOfQuotient(f, m, f.v(f32x4.div, above, below));
  const other = f.v(f32x4.sub, f.float(Math.PI / 2), angle);
  return m.withSign(m.select(isLarge, other, angle), x);
}

/** The angle of the point (x, y); of two infinities that of their diagonal, of zeros 0 or pi. */
export function atan2(f: FunctionBuilder, m: VectorMath, y: Local, x: Local): Local {
  const [a, b] = [m.abs(x), m.abs(y)];
  const steep = f.v(f32x4.gt, b, a);
  const below = m.select(steep, b, a), above = m.select(steep, a, b);
  const quotient = f.v(f32x4.div, above, below);
  const same = m.select(f.v(f32x4.eq, below, f.float(0)), below, f.float(1));
  const isSame = f.v(
    v128.and,
    f.v(f32x4.eq, a, b),
    f.v(
      v128.or,
      f.v(f32x4.eq, a, f.float(0)),
      f.v(f32x4.eq, a, f.float(Infinity)),
    ),
  );
  const angle = atanOfQuotient(f, m, m.select(isSame, same, quotient));
  const first = m.select(steep, f.v(f32x4.sub, f.float(Math.PI / 2), angle), angle);
  const isLeft = f.shift(i32x4.shrS, x, 31);
  const half = m.select(isLeft, f.v(f32x4.sub, f.float(Math.PI), first), first);
  return m.withSign(half, y);
}

/**
 * The arcsine of a number up to one half, and of the square of that; the polynomial is that of
 * Cephes.
 */
function asinOfSmall(f: FunctionBuilder, m: VectorMath, x: Local, square: Local): Local {
  const p = m.polynomial(square, [
    4.2163199048e-2,
    2.4181311049e-2,
    4.5470025998e-2,
    7.4953002686e-2,
    1.6666752422e-1,
  ]);
  return m.madd(p, f.v(f32x4.mul, square, x), x);
}

/** The arcsine of `|x|` or, from one half on, half of its arccosine. */
function asinParts(
  f: FunctionBuilder,
  m: VectorMath,
  x: Local,
): { isLarge: Local; angle: Local } {
  const a = m.abs(x), isLarge = f.v(f32x4.gt, a, f.float(0.5));
  const half = f.v(f32x4.mul, f.v(f32x4.sub, f.float(1), a), f.float(0.5));
  const square = m.select(isLarge, half, f.v(f32x4.mul, a, a));
  const root = m.select(isLarge, f.v(f32x4.sqrt, half), a);
  return { isLarge, angle: asinOfSmall(f, m, root, square) };
}

/** Writes the arcsine. */
export function asin(f: FunctionBuilder, m: VectorMath, x: Local): Local {
  const { isLarge, angle } = asinParts(f, m, x);
  const large = f.v(f32x4.sub, f.float(Math.PI / 2), f.v(f32x4.add, angle, angle));
  return m.withSign(m.select(isLarge, large, angle), x);
}

/** Writes the arccosine. */
export function acos(f: FunctionBuilder, m: VectorMath, x: Local): Local {
  const { isLarge, angle } = asinParts(f, m, x);
  const twice = f.v(f32x4.add, angle, angle);
  const isLeft = f.shift(i32x4.shrS, x, 31);
  const large = m.select(isLeft, f.v(f32x4.sub, f.float(Math.PI), twice), twice);
  const small = f.v(f32x4.sub, f.float(Math.PI / 2), m.withSign(angle, x));
  return m.select(isLarge, large, small);
}
