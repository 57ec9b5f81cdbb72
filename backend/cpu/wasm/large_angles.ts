/**
 * Remainder of large angles without multiples of pi, by M. Payne and R. Hanek: the product with
 * 96 bits of `2 / pi`, of which those before the point matter only as far as they tell quadrants
 * apart.
 */
import type { LaneWriter, ReducedAngle } from "../../codegen/functions/lane_writer.ts";
import type { FunctionBuilder, Local } from "./assembler.ts";
import { f32x4, f64x2, i32x4, i64x2, narrow, v128 } from "./opcodes.ts";

/** The bytes of `2 / pi` behind the point, with three of zeros before. */
const DIGITS = "000000a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe00000000";

/** The 16 bytes from one on, as four lanes. */
function bytesFrom(f: FunctionBuilder, first: number): Local {
  const bytes = Uint8Array.from(
    { length: 16 },
    (_, k) => Number.parseInt(DIGITS.slice(2 * (first + k), 2 * (first + k) + 2), 16),
  );
  return f.lanes([...new Int32Array(bytes.buffer)]);
}

/** The 32 bits of `2 / pi` from a byte on, for each lane. */
function digitsAt(f: FunctionBuilder, byte: Local): Local {
  // Byte numbers of a lane, the most significant byte's last.
  const four = f.v(i32x4.mul, byte, f.splat(0x01010101));
  const places = f.v(i32x4.add, four, f.splat(0x00010203));
  const later = f.v(narrow.subBytes, places, f.splat(0x10101010));
  return f.v(
    v128.or,
    f.v(v128.swizzle, bytesFrom(f, 0), places),
    f.v(v128.swizzle, bytesFrom(f, 16), later),
  );
}

/** The product of an angle and `2 / pi`, modulo 4, in units of 2^-62: two lanes of 64 bits each. */
function quarterTurns(f: FunctionBuilder, bits: Local): Local[] {
  const exponent = f.v(v128.and, f.shift(i32x4.shrU, bits, 23), f.splat(0xff));
  const byte = f.v(v128.and, f.shift(i32x4.shrU, exponent, 3), f.splat(15));
  const mantissa = f.v(v128.or, f.v(v128.and, bits, f.splat(0x7fffff)), f.splat(0x800000));
  const shift = f.v(v128.and, exponent, f.splat(7));
  const power = f.shift(i32x4.shl, f.v(i32x4.add, shift, f.splat(127)), 23);
  const scaled = f.v(i32x4.mul, mantissa, f.v(i32x4.truncate, power));
  const digits = [0, 4, 8].map((k) => digitsAt(f, f.v(i32x4.add, byte, f.splat(k))));
  return [i64x2.mulLow, i64x2.mulHigh].map((multiply) => {
    const [first, second, third] = digits.map((d) => f.v(multiply, scaled, d));
    const high = f.shift(i64x2.shl, first!, 32), low = f.shift(i64x2.shrU, third!, 32);
    return f.v(i64x2.add, f.v(i64x2.add, high, second!), low);
  });
}

/** The upper or the lower halves of four lanes of 64 bits. */
function halvesOf(f: FunctionBuilder, pairs: readonly Local[], which: 0 | 1): Local {
  return f.shuffle32(pairs[0]!, pairs[1]!, [0, 2, 4, 6].map((k) => k + which));
}

/** A whole number of 64 bits with a sign, times a factor, as a float. */
function scaledFloat(f: FunctionBuilder, pairs: readonly Local[], factor: number): Local {
  const [low, high] = [halvesOf(f, pairs, 0), halvesOf(f, pairs, 1)];
  const parts = [[0, 1, 0, 1], [2, 3, 2, 3]].map((lanes) => {
    const upper = f.v(f64x2.convertS, f.shuffle32(high, high, lanes));
    const lower = f.v(f64x2.convertU, f.shuffle32(low, low, lanes));
    const sum = f.v(f64x2.add, f.v(f64x2.mul, upper, f.double(2 ** 32)), lower);
    return f.v(f32x4.demote, f.v(f64x2.mul, sum, f.double(factor)));
  });
  return f.shuffle32(parts[0]!, parts[1]!, [0, 1, 4, 5]);
}

/** A constant of 64 bits: a power of two from 2^32 on. */
function power64(f: FunctionBuilder, exponent: number): Local {
  return f.lanes([0, 1 << (exponent - 32), 0, 1 << (exponent - 32)]);
}

/**
 * Remainder of `x` from 2^7 on: for a sine without multiples of pi, for a cosine, which is the
 * sine of a quarter turn more, too, and for a tangent without those of half pi. NaN of infinity and
 * NaN.
 */
export function largeAngle(
  f: FunctionBuilder,
  x: Local,
  m: LaneWriter<Local>,
  fn: "sin" | "cos" | "tan",
): ReducedAngle<Local> {
  const sign = f.v(v128.and, x, f.splat(-0x80000000)), a = f.v(v128.xor, x, sign);
  const turns = quarterTurns(f, a);
  const moved = fn === "cos" ? turns.map((t) => f.v(i64x2.add, t, power64(f, 62))) : turns;
  const periodBits = fn === "tan" ? 62 : 63, shift = 64 - periodBits;
  const rest = moved.map((t) => f.shift(i64x2.shl, t, shift));
  const rounded = moved.map((t) => f.v(i64x2.add, t, power64(f, periodBits - 1)));
  const angle = scaledFloat(f, rest, Math.PI * 2 ** (-63 - shift));
  const finite = f.v(f32x4.lt, a, f.float(Infinity));
  return {
    rest: m.select(finite, f.v(v128.xor, angle, sign), f.float(NaN)),
    odd: f.shift(i32x4.shl, halvesOf(f, rounded, 1), shift - 1),
  };
}
