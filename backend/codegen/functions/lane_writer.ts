/**
 * The language that scalar functions of floats are written in, once for all writers: WebAssembly's vectors
 * of four lanes (`cpu/wasm/math.ts`), OpenCL C's of 16 and its scalars (`opencl/codegen/math/lane_text.ts`).
 * Each operation is rounded where it stands, `madd` alone once or twice as the machine does it, so that a
 * function has the same bits wherever it is computed: the tier that serves while kernels are built, and the
 * kernels (tests/laws/same_bits_in_tiers_test.ts).
 *
 * This folder (`functions/`) imports nothing; a function is given the writer and its operands.
 */

/** Operations on values of one width, `V` being the name of a value: floats, or 32 bits as they are. */
export interface LaneWriter<V> {
  /** A float constant. */
  float(value: number): V;
  /** A constant of 32 bits. */
  int(bits: number): V;

  add(a: V, b: V): V;
  sub(a: V, b: V): V;
  mul(a: V, b: V): V;
  div(a: V, b: V): V;
  /** `a * b + c`, rounded once where the machine has that as one instruction. */
  madd(a: V, b: V, c: V): V;
  neg(a: V): V;
  abs(a: V): V;
  sqrt(a: V): V;
  trunc(a: V): V;

  /** Masks: all bits where the comparison holds, false where an operand is NaN. */
  lt(a: V, b: V): V;
  gt(a: V, b: V): V;
  ge(a: V, b: V): V;
  eq(a: V, b: V): V;
  /** `a` where the mask is set, else `b`. */
  select(mask: V, a: V, b: V): V;

  and(a: V, b: V): V;
  or(a: V, b: V): V;
  xor(a: V, b: V): V;
  not(a: V): V;

  addInt(a: V, b: V): V;
  subInt(a: V, b: V): V;
  shiftLeft(a: V, by: number): V;
  /** The sign moves in. */
  shiftRight(a: V, by: number): V;
  /** A whole number of 32 bits as a float. */
  toFloat(a: V): V;

  /** `values`, but where the mask is set what `make` writes: it runs where any lane has it set. */
  whereAny(mask: V, values: readonly V[], make: () => readonly V[]): V[];

  /** Applies `write` to the operands as doubles, and rounds its result. */
  inDoubles(operands: readonly V[], write: (d: DoubleWriter<V>, ...doubles: V[]) => V): V;

  /**
   * An angle of any size without its multiples of pi (of pi / 2 for the tangent), and in the highest bit
   * whether the number of those was odd; for the cosine that of a quarter turn more. NaN of infinity.
   */
  largeAngle(x: V, fn: "sin" | "cos" | "tan"): ReducedAngle<V>;
}

/** Operations on doubles. */
export interface DoubleWriter<V> {
  constant(value: number): V;
  add(a: V, b: V): V;
  sub(a: V, b: V): V;
  mul(a: V, b: V): V;
  div(a: V, b: V): V;
  madd(a: V, b: V, c: V): V;
  /** `x`, or the bound that it passes; NaN stays. */
  clamp(x: V, low: number, high: number): V;
  /** 2 to the whole number that 1.5 * 2^52 + 1023 was added to. */
  powerOfTwo(shifted: V): V;
}

/** An angle without its multiples of a period. */
export interface ReducedAngle<V> {
  readonly rest: V;
  /** The highest bit of each lane: the number of periods is odd. */
  readonly odd: V;
}

/** The highest bit. */
export const SIGN = -0x80000000;

/** A polynomial, highest coefficient first. */
export function polynomial<V>(m: LaneWriter<V>, x: V, coefficients: readonly number[]): V {
  const [first, ...rest] = coefficients.map((c) => m.float(c));
  return rest.reduce((sum, c) => m.madd(sum, x, c), first!);
}

/** The size of a number with the sign of another. Compilers take the liberty to lose that of 0 in copysign(). */
export function withSign<V>(m: LaneWriter<V>, size: V, sign: V): V {
  return m.or(m.and(size, m.int(0x7fffffff)), m.and(sign, m.int(SIGN)));
}
