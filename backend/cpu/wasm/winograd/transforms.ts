/**
 * The arithmetic of Winograd's minimal filtering on vectors: F(4, 3) for convolutions, F(3, 4) for
 * the gradients of their kernels (A. Lavin and S. Gray, Fast Algorithms for Convolutional Neural
 * Networks, 2015). Six products give four outputs of three taps, 36 give 4x4 of 3x3: a quarter of
 * the multiplications.
 *
 * The polynomials are evaluated at 0, ±3/4, ±3/2 and infinity. With the usual ±1 and ±2 results
 * are off by 1.6e-5 to 4e-5 of their root mean square, with these by 5e-6 to 1e-5; a direct float32
 * sum is off by 2e-6 to 6e-6 (16 and 128 channels of normal numbers).
 */
import type { FunctionBuilder, Local } from "../assembler.ts";
import type { VectorMath } from "../math.ts";
import { f32x4 } from "../opcodes.ts";

/** Outputs of a tile along an axis, taps of a kernel, elements that a tile reads. */
export const TILE = 4, TAPS = 3, PATCH = 6;
/** Products for each tile. */
export const POINTS: number = PATCH * PATCH;

/** The finite points other than 0: each with either sign. */
const A = 0.75, B = 1.5;
const A2 = A * A, B2 = B * B;

/** Divisors of the products at 0, ±A and ±B: the derivatives of the polynomial there. */
const AT_0 = A2 * B2, AT_A = 2 * A2 * (A2 - B2), AT_B = 2 * B2 * (B2 - A2);

/** Transforms vectors: each of a line's elements is one vector, whose lanes are different lines. */
export class Transforms {
  readonly #f: FunctionBuilder;
  readonly #math: VectorMath;

  constructor(f: FunctionBuilder, math: VectorMath) {
    this.#f = f;
    this.#math = math;
  }

  /** `x + factor * y`. */
  #plus(x: Local, factor: number, y: Local): Local {
    return this.#math.madd(this.#f.float(factor), y, x);
  }

  /** `x + factor * y` and `x - factor * y`. */
  #both(x: Local, factor: number, y: Local): [Local, Local] {
    return [this.#plus(x, factor, y), this.#plus(x, -factor, y)];
  }

  /** Six elements of an image at the six points. */
  image(d: readonly Local[]): Local[] {
    const [d0, d1, d2, d3, d4, d5] = d as [Local, Local, Local, Local, Local, Local];
    const pair = (point: number, other: number): [Local, Local] =>
      this.#both(this.#plus(d4, -other, d2), point, this.#plus(d3, -other, d1));
    const end = (low: Local, middle: Local, high: Local): Local =>
      this.#plus(this.#plus(high, -(A2 + B2), middle), A2 * B2, low);
    return [end(d0, d2, d4), ...pair(A, B2), ...pair(B, A2), end(d1, d3, d5)];
  }

  /** Three taps at the six points, not divided yet. */
  taps(g: readonly Local[]): Local[] {
    const [g0, g1, g2] = g as [Local, Local, Local];
    const pair = (point: number): [Local, Local] =>
      this.#both(this.#plus(g0, point * point, g2), point, g1);
    return [g0, ...pair(A), ...pair(B), g2];
  }

  /** Four elements of a gradient, as taps, at the six points, not divided yet. */
  gradient(g: readonly Local[]): Local[] {
    const [g0, g1, g2, g3] = g as [Local, Local, Local, Local];
    const pair = (point: number): [Local, Local] =>
      this.#both(
        this.#plus(g0, point * point, g2),
        point,
        this.#plus(g1, point * point, g3),
      );
    return [g0, ...pair(A), ...pair(B), g3];
  }

  /** The first `count` outputs, three or four, of six products, which are divided here. */
  outputs(m: readonly Local[], count: 3 | 4): Local[] {
    const f = this.#f;
    const [m0, m1, m2, m3, m4, m5] = m as [Local, Local, Local, Local, Local, Local];
    const sums = [f.v(f32x4.add, m1, m2), f.v(f32x4.add, m3, m4)] as const;
    const differences = [f.v(f32x4.sub, m1, m2), f.v(f32x4.sub, m3, m4)] as const;
    return Array.from({ length: count }, (_, k) => {
      const [low, high] = k % 2 === 0 ? sums : differences;
      const first = f.v(f32x4.mul, f.float(B ** k / AT_B), high);
      const both = this.#plus(first, A ** k / AT_A, low);
      if (k === 0) return this.#plus(both, 1 / AT_0, m0);
      return k === count - 1 ? f.v(f32x4.add, both, m5) : both;
    });
  }
}

/**
 * Transforms a square of vectors along its rows, then along its columns. A row is transformed as soon as
 * it is read: few vectors wait in memory for the others.
 */
export function alongBoth(
  size: number,
  readRow: (y: number) => readonly Local[],
  transform: (line: readonly Local[]) => Local[],
): Local[][] {
  const rows = Array.from({ length: size }, (_, y) => transform(readRow(y)));
  const columns = rows[0]!.map((_, x) => transform(rows.map((row) => row[x]!)));
  return columns[0]!.map((_, y) => columns.map((column) => column[y]!));
}
