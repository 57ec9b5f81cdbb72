/** Vectors of four floats as scalar functions are written in (`codegen/functions/`), and their conversions. */
import {
  type DoubleWriter,
  type LaneWriter,
  type ReducedAngle,
  SIGN,
  withSign,
} from "../../codegen/functions/lane_writer.ts";
import { floatBits, type FunctionBuilder, type Local } from "./assembler.ts";
import { largeAngle } from "./large_angles.ts";
import { f32x4, f64x2, i32x4, i64x2, v128 } from "./opcodes.ts";

const ALL = -1, ONE = floatBits(1);

/** Writes an operation on vectors. */
type Operation = (...values: readonly Local[]) => Local;

/** Writes functions of vectors. */
export class VectorMath implements LaneWriter<Local> {
  readonly #f: FunctionBuilder;
  readonly #relaxed: boolean;
  readonly #doubles: DoubleWriter<Local>;

  /** `relaxed`: the engine has relaxed SIMD, whose multiply-add is one instruction on most machines. */
  constructor(f: FunctionBuilder, relaxed: boolean) {
    this.#f = f;
    this.#relaxed = relaxed;
    this.#doubles = {
      constant: (value) => f.double(value),
      add: this.#op(f64x2.add),
      sub: this.#op(f64x2.sub),
      mul: this.#op(f64x2.mul),
      div: this.#op(f64x2.div),
      madd: (a, b, c) => this.maddWide(a, b, c),
      clamp: (x, low, high) => {
        // `x < low ? low : x`: NaN stays.
        return f.v(f64x2.pmin, f.v(f64x2.pmax, x, f.double(low)), f.double(high));
      },
      powerOfTwo: (shifted) => f.shift(i64x2.shl, shifted, 52),
    };
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
  halvesInDoubles(operands: readonly Local[], write: (...doubles: Local[]) => Local): Local {
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

  /** The bits of `x` where the mask is set, else those of `y`. */
  select(mask: Local, x: Local, y: Local): Local {
    return this.#f.v(v128.bitselect, x, y, mask);
  }

  // ---- operations of `LaneWriter`

  readonly float = (value: number): Local => this.#f.float(value);
  readonly int = (bits: number): Local => this.#f.splat(bits);
  readonly add: Operation = this.#op(f32x4.add);
  readonly sub: Operation = this.#op(f32x4.sub);
  readonly mul: Operation = this.#op(f32x4.mul);
  readonly div: Operation = this.#op(f32x4.div);
  readonly neg: Operation = this.#op(f32x4.neg);
  readonly abs: Operation = this.#op(f32x4.abs);
  readonly sqrt: Operation = this.#op(f32x4.sqrt);
  readonly trunc: Operation = this.#op(f32x4.trunc);
  readonly lt: Operation = this.#op(f32x4.lt);
  readonly gt: Operation = this.#op(f32x4.gt);
  readonly ge: Operation = this.#op(f32x4.ge);
  readonly eq: Operation = this.#op(f32x4.eq);
  readonly and: Operation = this.#op(v128.and);
  readonly or: Operation = this.#op(v128.or);
  readonly xor: Operation = this.#op(v128.xor);
  readonly not: Operation = this.#op(v128.not);
  readonly addInt: Operation = this.#op(i32x4.add);
  readonly subInt: Operation = this.#op(i32x4.sub);
  readonly toFloat: Operation = this.#op(f32x4.convert);
  readonly shiftLeft = (a: Local, by: number): Local => this.#f.shift(i32x4.shl, a, by);
  readonly shiftRight = (a: Local, by: number): Local => this.#f.shift(i32x4.shrS, a, by);

  /** An operation that is one instruction. */
  #op(op: number): Operation {
    return (...values) => this.#f.v(op, ...values);
  }

  whereAny(mask: Local, values: readonly Local[], make: () => readonly Local[]): Local[] {
    const f = this.#f, found = values.map((value) => f.copyVector(value));
    f.branch(f.anyTrue(mask), () => {
      make().forEach((value, k) => f.assign(found[k]!, this.select(mask, value, found[k]!)));
    });
    return found;
  }
  inDoubles(
    operands: readonly Local[],
    write: (d: DoubleWriter<Local>, ...doubles: Local[]) => Local,
  ): Local {
    return this.halvesInDoubles(operands, (...doubles) => write(this.#doubles, ...doubles));
  }
  largeAngle(x: Local, fn: "sin" | "cos" | "tan"): ReducedAngle<Local> {
    return largeAngle(this.#f, x, this, fn);
  }

  // ---- other functions

  /** `magnitude` with the sign of `x`. */
  withSign(magnitude: Local, x: Local): Local {
    return withSign(this, magnitude, x);
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
    const upper = f.shift(i32x4.shrS, f.shift(i32x4.shl, bits, 16), 3);
    const scaled = f.v(f32x4.mul, f.v(v128.and, upper, f.splat(0x8fffffff | 0)), f.float(2 ** 112));
    const special = f.v(i32x4.gtS, f.v(v128.and, bits, f.splat(0x7fff)), f.splat(0x7bff));
    return f.v(v128.or, scaled, f.v(v128.and, special, f.splat(0x7f800000)));
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
