/** Quotients that are rounded down and their remainders, of four numbers at a time, in doubles. */
import type { FunctionBuilder, Local } from "../assembler.ts";
import type { VectorMath } from "../math.ts";
import { f32x4, f64x2, i32x4, v128 } from "../opcodes.ts";

/**
 * In doubles: a float quotient may be rounded up to the next whole number. A quotient by an
 * infinity is -1 where the signs differ, that of an infinity is NaN, but by zero.
 */
export function floorOfQuotient(f: FunctionBuilder, m: VectorMath, a: Local, b: Local): Local {
  const quotient = m.halvesInDoubles([a, b], (x, y) => f.v(f64x2.floor, f.v(f64x2.div, x!, y!)));
  const zero = f.float(0);
  const vanished = f.v(
    v128.and,
    f.v(f32x4.eq, quotient, zero),
    f.v(f32x4.lt, f.v(f32x4.mul, a, b), zero),
  );
  const infinite = f.v(
    v128.and,
    f.v(f32x4.eq, f.v(f32x4.abs, a), f.float(Infinity)),
    f.v(f32x4.ne, b, zero),
  );
  return m.select(infinite, f.float(NaN), m.select(vanished, f.float(-1), quotient));
}

/** Up to this quotient of floats, and times the divisor, doubles are exact. */
const STEP_BITS = 28;

/** The remainder of division towards zero of doubles whose quotient is below 2^28. */
function rest(f: FunctionBuilder, a: Local, b: Local): Local {
  const whole = f.v(f64x2.trunc, f.v(f64x2.div, a, b));
  return f.v(f64x2.sub, a, f.v(f64x2.mul, whole, b));
}

/** That of any floats: by multiples of the divisor first, as in a long division. */
function longRest(f: FunctionBuilder, a: Local, b: Local): Local {
  let left = a;
  // Floats are at most 2^277 times as large as others.
  for (let bits = 9 * STEP_BITS; bits >= 0; bits -= STEP_BITS) {
    left = rest(f, left, f.v(f64x2.mul, b, f.double(2 ** bits)));
  }
  return left;
}

/** Python's remainder: exact, with the sign of the divisor. */
export function remainder(f: FunctionBuilder, m: VectorMath, a: Local, b: Local): Local {
  const quotient = m.abs(f.v(f32x4.div, a, b));
  const isLong = f.v(f32x4.ge, quotient, f.float(2 ** (STEP_BITS - 1)));
  const found = f.copyVector(m.halvesInDoubles([a, b], (x, y) => adjusted(f, rest(f, x!, y!), y!)));
  f.branch(f.anyTrue(isLong), () => {
    f.assign(found, m.halvesInDoubles([a, b], (x, y) => adjusted(f, longRest(f, x!, y!), y!)));
  });
  const isFinite = f.v(f32x4.lt, m.abs(a), f.float(Infinity));
  const byInfinity = f.v(f32x4.eq, m.abs(b), f.float(Infinity));
  const differs = f.v(f32x4.lt, f.v(f32x4.mul, a, b), f.float(0));
  const kept = m.select(f.v(v128.and, byInfinity, isFinite), m.select(differs, b, a), found);
  return m.select(f.v(f32x4.eq, kept, f.float(0)), m.withSign(f.float(0), a), kept);
}

/** A remainder with the sign of the divisor. */
function adjusted(f: FunctionBuilder, found: Local, b: Local): Local {
  const zero = f.double(0);
  const isNegative = (x: Local): Local => f.v(f64x2.lt, x, zero);
  const differs = f.v(v128.xor, isNegative(found), isNegative(b));
  const isAdded = f.v(v128.and, differs, f.v(f64x2.ne, found, zero));
  return f.v(f64x2.add, found, f.v(v128.and, isAdded, b));
}

/** Applies `write` to the halves of whole numbers as doubles; whole numbers of 32 bits. */
function wholeInDoubles(
  f: FunctionBuilder,
  operands: readonly Local[],
  write: (...doubles: Local[]) => Local,
): Local {
  const magic = f.double(1.5 * 2 ** 52);
  const halves = [operands, operands.map((v) => f.shuffle32(v, v, [2, 3, 2, 3]))].map((half) =>
    f.v(f64x2.add, write(...half.map((v) => f.v(f64x2.convertS, v))), magic)
  );
  return f.shuffle32(halves[0]!, halves[1]!, [0, 2, 4, 6]);
}

function floorQuotient(f: FunctionBuilder, a: Local, b: Local): Local {
  return f.v(f64x2.floor, f.v(f64x2.div, a, b));
}

/** Whole numbers divided, rounded down; 0 by 0. */
export function wholeQuotient(f: FunctionBuilder, _: VectorMath, a: Local, b: Local): Local {
  const found = wholeInDoubles(f, [a, b], (x, y) => floorQuotient(f, x!, y!));
  return f.v(v128.and, found, f.v(i32x4.ne, b, f.splat(0)));
}

/** The remainder of that; 0 by 0. */
export function wholeRemainder(f: FunctionBuilder, _: VectorMath, a: Local, b: Local): Local {
  const found = wholeInDoubles(
    f,
    [a, b],
    (x, y) => f.v(f64x2.sub, x!, f.v(f64x2.mul, floorQuotient(f, x!, y!), y!)),
  );
  return f.v(v128.and, found, f.v(i32x4.ne, b, f.splat(0)));
}
