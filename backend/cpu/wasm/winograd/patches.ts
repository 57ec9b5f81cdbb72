/** Squares of four images, or of four channels, in the lanes of vectors. */
import type { FunctionBuilder, Local } from "../assembler.ts";
import { f32x4, i32, v128 } from "../opcodes.ts";
import type { VectorMath } from "../math.ts";
import { PATCH, TILE } from "./transforms.ts";

/**
 * Reads the rows of four squares one after the other: each vector holds an element of all four.
 *
 * @param bases Where the squares begin.
 * @param rowStep Bytes from one row to the next.
 * @param side Elements of a row.
 */
export function patchRows(
  f: FunctionBuilder,
  bases: readonly Local[],
  rowStep: Local,
  side: typeof PATCH | typeof TILE,
): () => Local[] {
  let at = bases;
  return () => {
    const row = at;
    at = row.map((address) => f.i(i32.add, address, rowStep));
    const first = f.transpose(row.map((address) => f.load(v128.load, address)));
    return side === TILE ? first : [...first, ...readLastTwo(f, row)];
  };
}

/** The fifth and the sixth element of four rows. */
function readLastTwo(f: FunctionBuilder, at: readonly Local[]): [Local, Local] {
  const offset = 4 * TILE;
  const [low, high] = [at.slice(0, 2), at.slice(2)].map(([a, b]) =>
    f.loadLane(v128.load64Lane, b!, f.load(v128.load64Zero, a!, offset), 1, offset)
  );
  return [f.shuffle32(low!, high!, [0, 2, 4, 6]), f.shuffle32(low!, high!, [1, 3, 5, 7])];
}

/** Stores the vectors of all points, `plane` bytes apart. */
export function storePoints(
  f: FunctionBuilder,
  values: readonly (readonly Local[])[],
  to: Local,
  plane: Local,
): void {
  const at = f.copy(to);
  for (const value of values.flat()) {
    f.store(v128.store, at, value);
    f.assign(at, f.i(i32.add, at, plane));
  }
}

/** Reads the vectors of all points, `plane` bytes apart, in rows. */
export function pointRows(f: FunctionBuilder, from: Local, plane: Local): () => Local[] {
  const at = f.copy(from);
  return () =>
    Array.from({ length: PATCH }, () => {
      const point = f.load(v128.load, at);
      f.assign(at, f.i(i32.add, at, plane));
      return point;
    });
}

/** Notes whether some of many numbers are not finite: times 0 those are NaN, and so is the sum. */
export class FiniteCheck {
  readonly #f: FunctionBuilder;
  readonly #math: VectorMath;
  readonly #sum: Local;

  constructor(f: FunctionBuilder, math: VectorMath) {
    this.#f = f;
    this.#math = math;
    this.#sum = f.copyVector(f.float(0));
  }

  /** Looks at the lanes of some vectors. */
  add(values: readonly Local[]): void {
    const f = this.#f;
    for (const value of values) {
      f.assign(this.#sum, this.#math.madd(value, f.float(0), this.#sum));
    }
  }

  /** 1 where one was not finite. */
  found(): Local {
    return this.#f.anyTrue(this.#f.v(f32x4.ne, this.#sum, this.#sum));
  }
}

/** Elements of a patch in the sample: among them are two rows and two columns that follow each other. */
export const SAMPLE = 4;

/**
 * The largest absolute number of patches, and the sum of a sample. A number that is much larger than most
 * would leave its rounding errors in all outputs of a tile, also in those that do not see it.
 */
export class PeakCheck {
  readonly peak: Local;
  readonly sample: Local;
  readonly #f: FunctionBuilder;

  constructor(f: FunctionBuilder) {
    this.#f = f;
    this.peak = f.copyVector(f.float(0));
    this.sample = f.copyVector(f.float(0));
  }

  /** Looks at a patch's row `y`, and gives it back. */
  row(y: number, values: Local[]): Local[] {
    const f = this.#f;
    values.forEach((value, x) => {
      const size = f.v(f32x4.abs, value);
      f.assign(this.peak, f.v(f32x4.pmax, this.peak, size));
      const isSampled = (y === 1 || y === 2) && (x === 1 || x === 2);
      if (isSampled) f.assign(this.sample, f.v(f32x4.add, this.sample, size));
    });
    return values;
  }
}
