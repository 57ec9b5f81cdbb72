/**
 * Functions of four floats at a time, to a few units in the last place. Polynomials and reductions
 * are those of the Cephes library (single precision), unless noted.
 */
import { floatBits, type FunctionBuilder, type Local } from "./assembler.ts";
import { f32x4, f64x2, i32x4, v128 } from "./opcodes.ts";

const ALL = -1, SIGN = -0x80000000, ONE = floatBits(1);

/** Writes functions of vectors. */
export class VectorMath {
  readonly #f: FunctionBuilder;
  readonly #relaxed: boolean;

  /** `relaxed`: the engine has relaxed SIMD, whose multiply-add is one instruction on most machines. */
  constructor(f: FunctionBuilder, relaxed: boolean) {
    this.#f = f;
    this.#relaxed = relaxed;
  }

  /** `x * y + z`, rounded once or twice. */
  madd(x: Local, y: Local, z: Local): Local {
    const f = this.#f;
    if (this.#relaxed) return f.v(f32x4.relaxedMadd, x, y, z);
    return f.v(f32x4.add, f.v(f32x4.mul, x, y), z);
  }

  /** The same for doubles. */
  maddWide(x: Local, y: Local, z: Local): Local {
    const f = this.#f;
    if (this.#relaxed) return f.v(f64x2.relaxedMadd, x, y, z);
    return f.v(f64x2.add, f.v(f64x2.mul, x, y), z);
  }

  /** Applies `write` to the halves of vectors as doubles; gives floats. */
  inDoubles(operands: readonly Local[], write: (...doubles: Local[]) => Local): Local {
    const f = this.#f;
    const halves = [operands, operands.map((v) => f.shuffle32(v, v, [2, 3, 2, 3]))]
      .map((half) => f.v(f32x4.demote, write(...half.map((v) => f.v(f64x2.promote, v)))));
    return f.shuffle32(halves[0]!, halves[1]!, [0, 1, 4, 5]);
  }

  /** An operation on four lanes of 64 bits. */
  wide(op: number, ...operands: readonly Local[]): Local {
    const f = this.#f, halves = operands.map((operand) => f.halves(operand));
    const [low, high] = [0, 1].map((k) => f.v(op, ...halves.map((half) => half[k]!)));
    return f.pair(low!, high!);
  }

  /** Floats as doubles. */
  promoted(x: Local): Local {
    const f = this.#f, upper = f.shuffle32(x, x, [2, 3, 2, 3]);
    return f.pair(f.v(f64x2.promote, x), f.v(f64x2.promote, upper));
  }

  /** Doubles as floats. */
  demoted(x: Local): Local {
    const f = this.#f, [low, high] = f.halves(x);
    return f.shuffle32(f.v(f32x4.demote, low), f.v(f32x4.demote, high), [0, 1, 4, 5]);
  }

  /** A mask of four lanes for lanes of 64 bits. */
  widenMask(mask: Local): Local {
    const f = this.#f;
    return f.pair(f.shuffle32(mask, mask, [0, 0, 1, 1]), f.shuffle32(mask, mask, [2, 2, 3, 3]));
  }

  /** The lower halves of lanes of 64 bits: of a mask, all that there is to know. */
  lowHalves(wide: Local): Local {
    return this.#f.shuffle32(...this.#f.halves(wide), [0, 2, 4, 6]);
  }

  /** The upper halves of lanes of 64 bits. */
  highHalves(wide: Local): Local {
    return this.#f.shuffle32(...this.#f.halves(wide), [1, 3, 5, 7]);
  }

  /** Elements of `x` where the mask of 32-bit lanes is set, else of `y`; lanes of any width. */
  choose(mask: Local, x: Local, y: Local): Local {
    if (!this.#f.isPair(x)) return this.select(mask, x, y);
    return this.wide(v128.bitselect, x, y, this.widenMask(mask));
  }

  /** A polynomial, highest coefficient first. */
  polynomial(x: Local, coefficients: readonly number[]): Local {
    const [first, ...rest] = coefficients.map((c) => this.#f.float(c));
    return rest.reduce((sum, c) => this.madd(sum, x, c), first!);
  }

  /** The bits of `x` where the mask is set, else those of `y`. */
  select(mask: Local, x: Local, y: Local): Local {
    return this.#f.v(v128.bitselect, x, y, mask);
  }

  /** Without its sign. */
  abs(x: Local): Local {
    return this.#f.v(f32x4.abs, x);
  }

  /** `magnitude` with the sign of `x`. */
  withSign(magnitude: Local, x: Local): Local {
    const f = this.#f;
    return f.v(v128.or, magnitude, f.v(v128.and, x, f.splat(SIGN)));
  }

  /** `x = n ln 2 + r` with a whole n: r, and 2 to the power of `n - 127 + bias`: of `n - 1`. */
  #reduceExp(x: Local, bias = 126): { r: Local; half: Local } {
    const f = this.#f;
    // Adding 1.5 * 2^23 rounds to a whole number; 126 more makes its lowest bits an exponent.
    const magic = f.float(12582912 + bias);
    const shifted = this.madd(x, f.float(Math.LOG2E), magic);
    const whole = f.v(f32x4.sub, shifted, magic);
    const high = this.madd(whole, f.float(-0.693359375), x);
    const r = this.madd(whole, f.float(2.12194440e-4), high);
    return { r, half: f.shift(i32x4.shl, shifted, 23) };
  }

  #clamp(x: Local, low: number, high: number): Local {
    const f = this.#f;
    return f.v(f32x4.pmin, f.v(f32x4.pmax, x, f.float(low)), f.float(high));
  }

  /** Results below 1.7e-38 are 0. The polynomial is XNNPACK's of degree 5. */
  exp(x: Local): Local {
    return this.#exp(this.#reduceExp(this.#clamp(x, -87.5, 89)));
  }

  /** Half of `e^x`, for x from 0 on: finite wherever the hyperbolic functions are. */
  halfExp(x: Local): Local {
    return this.#exp(this.#reduceExp(this.#clamp(x, 0, 90), 125));
  }

  #exp({ r, half }: { readonly r: Local; readonly half: Local }): Local {
    const f = this.#f;
    const p = this.polynomial(r, [
      8.28929059207439423e-3,
      4.18978221714496613e-2,
      1.66676521301269531e-1,
      4.99991506338119507e-1,
      9.99999701976776123e-1,
    ]);
    const doubled = f.v(f32x4.add, r, r);
    return f.v(f32x4.mul, this.madd(p, doubled, f.float(2)), half);
  }

  /** `e^x - 1`, also where that is almost nothing. */
  expm1(x: Local): Local {
    const f = this.#f;
    const { r, half } = this.#reduceExp(this.#clamp(x, -30, 88.8));
    const p = this.polynomial(r, [
      1.9875691500e-4,
      1.3981999507e-3,
      8.3334519073e-3,
      4.1665795894e-2,
      1.6666665459e-1,
      5.0000001201e-1,
    ]);
    const tail = this.madd(p, f.v(f32x4.mul, r, r), r);
    const part = this.madd(tail, half, f.v(f32x4.sub, half, f.float(0.5)));
    const result = f.v(f32x4.add, part, part);
    // Keeps the sign of zero.
    return this.select(f.v(f32x4.eq, x, f.float(0)), x, result);
  }

  sigmoid(x: Local): Local {
    const f = this.#f;
    const e = this.exp(f.v(f32x4.neg, x));
    return f.v(f32x4.div, f.float(1), f.v(f32x4.add, e, f.float(1)));
  }

  /** `t / (t + 2)` with `t = e^(2|x|) - 1`. */
  tanh(x: Local): Local {
    const f = this.#f;
    const a = f.v(f32x4.pmin, this.abs(x), f.float(10));
    const t = this.expm1(f.v(f32x4.add, a, a));
    return this.withSign(f.v(f32x4.div, t, f.v(f32x4.add, t, f.float(2))), x);
  }

  log(x: Local): Local {
    const f = this.#f;
    const { exponent, m } = this.splitLog(x);
    const { z, cubic } = this.logTail(m);
    const low = this.madd(exponent, f.float(-2.12194440e-4), cubic);
    const sum = f.v(f32x4.add, m, this.madd(z, f.float(-0.5), low));
    return this.edgesOfLog(x, this.madd(exponent, f.float(0.693359375), sum));
  }

  /** `log(1 + m)` is `m - z / 2 + cubic`. */
  logTail(m: Local): { z: Local; cubic: Local } {
    const f = this.#f;
    const z = f.v(f32x4.mul, m, m);
    const p = this.polynomial(m, [
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
    return { z, cubic: f.v(f32x4.mul, f.v(f32x4.mul, p, m), z) };
  }

  /** `x = 2^exponent (1 + m)`, with `1 + m` between the root of one half and that of two. */
  splitLog(x: Local): { exponent: Local; m: Local } {
    const f = this.#f;
    const small = f.v(f32x4.lt, x, f.float(2 ** -126));
    const normal = this.select(small, f.v(f32x4.mul, x, f.float(2 ** 23)), x);
    const bits = f.v(i32x4.sub, normal, f.float(Math.SQRT1_2));
    const e = f.shift(i32x4.shrS, bits, 23);
    const mantissa = f.v(i32x4.sub, normal, f.shift(i32x4.shl, e, 23));
    const shifted = f.v(i32x4.add, e, f.v(v128.and, small, f.splat(-23)));
    return {
      exponent: f.v(f32x4.convert, shifted),
      m: f.v(f32x4.sub, mantissa, f.float(1)),
    };
  }

  /** The logarithms of what has none, and of infinity. */
  edgesOfLog(x: Local, result: Local): Local {
    const f = this.#f;
    const infinite = f.v(f32x4.eq, x, f.float(Infinity));
    const positive = f.v(f32x4.gt, x, f.float(0));
    const zero = f.v(f32x4.eq, x, f.float(0));
    const edge = this.select(zero, f.float(-Infinity), f.float(NaN));
    return this.select(positive, this.select(infinite, x, result), edge);
  }

  /** Kahan's `log(u) x / (u - 1)` with `u = 1 + x`. */
  log1p(x: Local): Local {
    const f = this.#f;
    const u = f.v(f32x4.add, x, f.float(1));
    const log = this.log(u);
    const ratio = f.v(f32x4.div, x, f.v(f32x4.sub, u, f.float(1)));
    const infinite = f.v(f32x4.eq, u, f.float(Infinity));
    const edge = f.v(v128.or, infinite, f.v(f32x4.le, u, f.float(0)));
    const result = this.select(edge, log, f.v(f32x4.mul, log, ratio));
    return this.select(f.v(f32x4.eq, u, f.float(1)), x, result);
  }

  /** A polynomial below 475 / 512, from there on `1 - e^p(|x|)`: the two of N. Juffa's `erff`. */
  erf(x: Local): Local {
    const f = this.#f;
    const a = this.abs(x), z = f.v(f32x4.mul, x, x);
    const factor = this.polynomial(z, [
      -5.96761703e-4,
      4.99119423e-3,
      -2.67681349e-2,
      1.12819925e-1,
      -3.76125336e-1,
      1.28379166e-1,
    ]);
    const small = this.madd(factor, x, x);
    const large = this.withSign(f.v(f32x4.sub, f.float(1), this.exp(this.#erfExponent(a, z))), x);
    return this.select(f.v(f32x4.lt, a, f.float(0.927734375)), small, large);
  }

  /** The logarithm of `1 - erf(a)`; `square` is that of a. */
  #erfExponent(a: Local, square: Local): Local {
    const f = this.#f;
    const high = this.polynomial(a, [-1.72853470e-5, 3.83197126e-4]);
    const low = this.polynomial(a, [-3.88396438e-3, 2.42546219e-2]);
    const first = this.madd(high, square, low);
    const rest = [-1.06777877e-1, -6.34846687e-1, -1.28717512e-1]
      .reduce((sum, c) => this.madd(sum, a, f.float(c)), first);
    return this.madd(rest, a, f.v(f32x4.neg, a));
  }

  /** -1, 0 or 1; 0 for NaN. */
  sign(x: Local): Local {
    const f = this.#f;
    const zero = f.float(0);
    const differs = f.v(v128.or, f.v(f32x4.lt, x, zero), f.v(f32x4.gt, x, zero));
    return f.v(v128.and, this.withSign(f.float(1), x), differs);
  }

  /** The floats whose upper halves lie in the lower halves of the lanes. */
  fromBfloat16(bits: Local): Local {
    return this.#f.shift(i32x4.shl, bits, 16);
  }

  /** To nearest, ties to even, in the lower halves of the lanes. */
  toBfloat16(x: Local): Local {
    const f = this.#f;
    const odd = f.v(v128.and, f.shift(i32x4.shrU, x, 16), f.splat(1));
    const rounded = f.v(i32x4.add, x, f.v(i32x4.add, odd, f.splat(0x7fff)));
    const nan = f.v(v128.or, x, f.splat(0x400000));
    const bits = this.select(f.v(f32x4.ne, x, x), nan, rounded);
    return f.shift(i32x4.shrU, bits, 16);
  }

  /** Half floats, in the lower halves of the lanes. */
  fromFloat16(bits: Local): Local {
    const f = this.#f;
    const magnitude = f.shift(i32x4.shl, f.v(v128.and, bits, f.splat(0x7fff)), 13);
    const scaled = f.v(f32x4.mul, magnitude, f.float(2 ** 112));
    const special = f.v(i32x4.geS, magnitude, f.splat(0x7c00 << 13));
    const value = f.v(v128.or, scaled, f.v(v128.and, special, f.splat(0x7f800000)));
    const sign = f.shift(i32x4.shl, f.v(v128.and, bits, f.splat(0x8000)), 16);
    return f.v(v128.or, value, sign);
  }

  /** To nearest, ties to even, in the lower halves of the lanes. */
  toFloat16(x: Local): Local {
    const f = this.#f;
    const sign = f.v(v128.and, x, f.splat(SIGN));
    const a = f.v(v128.xor, x, sign);
    const odd = f.v(v128.and, f.shift(i32x4.shrU, a, 13), f.splat(1));
    const rebased = f.v(i32x4.add, a, f.splat((0xc8000fff) | 0));
    const normal = f.shift(i32x4.shrU, f.v(i32x4.add, rebased, odd), 13);
    const capped = f.v(i32x4.minS, normal, f.splat(0x7c00));
    // Adding one half leaves the rounded subnormal in the lowest bits.
    const half = f.float(0.5);
    const subnormal = f.v(i32x4.sub, f.v(f32x4.add, a, half), half);
    const isSmall = f.v(i32x4.ltS, a, f.float(2 ** -14));
    const finite = this.select(isSmall, subnormal, capped);
    const bits = this.select(f.v(f32x4.ne, x, x), f.splat(0x7e00), finite);
    return f.v(v128.or, bits, f.shift(i32x4.shrU, sign, 16));
  }

  /** The truth value of each lane as a float. */
  fromMask(mask: Local): Local {
    const f = this.#f;
    return f.v(v128.and, mask, f.splat(ONE));
  }

  /** A mask of all lanes. */
  all(): Local {
    return this.#f.splat(ALL);
  }
}
