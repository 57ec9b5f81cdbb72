/** Sine, cosine and tangent of four floats at a time. */
import type { FunctionBuilder, Local } from "../assembler.ts";
import type { VectorMath } from "../math.ts";
import { f32x4, i32x4, v128 } from "../opcodes.ts";
import { largeAngle, type ReducedAngle } from "./large_angles.ts";

const SIGN = -0x80000000;

/** Adding it rounds to a whole number, whose lowest bit is the sum's. */
const MAGIC = 12582912;

/** Pi in parts of a few bits: their products with numbers of 14 bits are exact. From SLEEF. */
const PI = [3.140625, 0.0009670257568359375, 6.2771141529083251953e-7, 1.2154201256553420762e-10];

/** From here on, angles are reduced by {@linkcode largeAngle}. */
const LARGE = 39_000;

/** `x` without so many times pi in four parts, each divided by `divisor`. */
function without(f: FunctionBuilder, m: VectorMath, x: Local, times: Local, divisor = 1): Local {
  return PI.reduce((rest, part) => m.madd(times, f.float(-part / divisor), rest), x);
}

/** The quick way, with the lanes of large angles replaced where there are any. */
function reduce(
  f: FunctionBuilder,
  m: VectorMath,
  x: Local,
  quick: ReducedAngle,
  exact: (x: Local) => ReducedAngle,
): ReducedAngle {
  const isLarge = f.v(v128.not, f.v(f32x4.lt, m.abs(x), f.float(LARGE)));
  const rest = f.copyVector(quick.rest), odd = f.copyVector(quick.odd);
  f.branch(f.anyTrue(isLarge), () => {
    const found = exact(x);
    f.assign(rest, m.select(isLarge, found.rest, rest));
    f.assign(odd, m.select(isLarge, found.odd, odd));
  });
  return { rest, odd };
}

/**
 * The sine of an angle between -pi / 2 and pi / 2, negative where `odd`; the polynomial is SLEEF's.
 */
function sineOf(f: FunctionBuilder, m: VectorMath, { rest, odd }: ReducedAngle): Local {
  const square = f.v(f32x4.mul, rest, rest);
  const p = m.polynomial(square, [
    2.6083159809786593541503e-6,
    -0.0001981069071916863322258,
    0.00833307858556509017944336,
    -0.166666597127914428710938,
  ]);
  const sine = m.madd(p, f.v(f32x4.mul, square, rest), rest);
  // Keeps the sign of zero.
  const signed = m.select(f.v(f32x4.eq, rest, f.float(0)), rest, sine);
  return f.v(v128.xor, signed, f.v(v128.and, odd, f.splat(SIGN)));
}

/** Writes the sine. */
export function sin(f: FunctionBuilder, m: VectorMath, x: Local): Local {
  const magic = f.float(MAGIC), shifted = m.madd(x, f.float(1 / Math.PI), magic);
  const rest = without(f, m, x, f.v(f32x4.sub, shifted, magic));
  const quick = { rest, odd: f.shift(i32x4.shl, shifted, 31) };
  return sineOf(f, m, reduce(f, m, x, quick, (angle) => largeAngle(f, m, angle, "sin")));
}

/** The cosine: a sine, from an odd multiple of pi / 2 on. */
export function cos(f: FunctionBuilder, m: VectorMath, x: Local): Local {
  const a = m.abs(x), magic = f.float(MAGIC);
  const turns = m.madd(a, f.float(1 / Math.PI), f.float(-0.5));
  const shifted = f.v(f32x4.add, turns, magic), whole = f.v(f32x4.sub, shifted, magic);
  const rest = without(f, m, a, m.madd(whole, f.float(2), f.float(1)), 2);
  const even = f.v(v128.not, f.shift(i32x4.shl, shifted, 31));
  const quick = { rest, odd: even };
  return sineOf(f, m, reduce(f, m, a, quick, (angle) => largeAngle(f, m, angle, "cos")));
}

/** The tangent; the polynomial is that of Cephes, between -pi / 4 and pi / 4. */
export function tan(f: FunctionBuilder, m: VectorMath, x: Local): Local {
  const magic = f.float(MAGIC), shifted = m.madd(x, f.float(2 / Math.PI), magic);
  const times = f.v(f32x4.sub, shifted, magic);
  const quick = { rest: without(f, m, x, times, 2), odd: f.shift(i32x4.shl, shifted, 31) };
  const exact = (angle: Local): ReducedAngle => largeAngle(f, m, angle, "tan");
  const { rest, odd } = reduce(f, m, x, quick, exact);
  const square = f.v(f32x4.mul, rest, rest);
  const p = m.polynomial(square, [
    9.38540185543e-3,
    3.11992232697e-3,
    2.44301354525e-2,
    5.34112807005e-2,
    1.33387994085e-1,
    3.33331568548e-1,
  ]);
  const tangent = m.madd(p, f.v(f32x4.mul, square, rest), rest);
  const found = m.select(f.v(f32x4.eq, rest, f.float(0)), rest, tangent);
  const isOdd = f.shift(i32x4.shrS, odd, 31);
  const above = m.select(isOdd, f.float(-1), found), below = m.select(isOdd, found, f.float(1));
  return f.v(f32x4.div, above, below);
}
