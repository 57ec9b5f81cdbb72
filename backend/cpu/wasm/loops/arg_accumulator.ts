/** The running place of the largest or smallest element; the first of equal ones, and NaN first. */
import { type ArgReduceFn, prefersLarger } from "../../../graph/reductions.ts";
import type { FunctionBuilder, Local } from "../assembler.ts";
import type { LaneKind } from "../lanes.ts";
import type { VectorMath } from "../math.ts";
import { f32x4, i32x4, v128 } from "../opcodes.ts";

/** A value in each lane, and where it was found; before the first one the place is negative. */
interface Found {
  readonly value: Local;
  readonly place: Local;
}

/**
 * Instructions for the larger and the smaller of two values; true has all bits set: it is -1.
 */
const comparisons: Readonly<Record<LaneKind, readonly [larger: number, smaller: number]>> = {
  float: [f32x4.gt, f32x4.lt],
  int: [i32x4.gtS, i32x4.ltS],
  mask: [i32x4.ltS, i32x4.gtS],
};

/** The accumulators of one argmax or argmin. */
export class ArgAccumulator {
  readonly #f: FunctionBuilder;
  readonly #math: VectorMath;
  readonly #isFloat: boolean;
  /** Compares values. */
  readonly #better: number;
  /** Lanes are parts of one result. */
  readonly #joinsLanes: boolean;
  readonly #vectors: readonly Found[];

  /** Begins with nothing found; `count` vectors side by side. */
  constructor(
    f: FunctionBuilder,
    math: VectorMath,
    fn: ArgReduceFn,
    kind: LaneKind,
    joinsLanes: boolean,
    count: number,
  ) {
    this.#f = f;
    this.#math = math;
    this.#isFloat = kind === "float";
    const [larger, smaller] = comparisons[kind];
    this.#better = prefersLarger(fn) ? larger : smaller;
    this.#joinsLanes = joinsLanes;
    const [zero, none] = [f.splat(0), f.splat(-1)];
    this.#vectors = Array.from({ length: count }, () => {
      const found = { value: f.vector(), place: f.vector() };
      f.assign(found.value, zero);
      f.assign(found.place, none);
      return found;
    });
  }

  /** True where `x` comes before `y`, whatever their places. */
  #isBetter(x: Local, y: Local): Local {
    const f = this.#f;
    const better = f.v(this.#better, x, y);
    if (!this.#isFloat) return better;
    const news = f.v(v128.and, f.v(f32x4.ne, x, x), f.v(f32x4.eq, y, y));
    return f.v(v128.or, better, news);
  }

  #isEqual(x: Local, y: Local): Local {
    const f = this.#f;
    if (!this.#isFloat) return f.v(i32x4.eq, x, y);
    const bothNaN = f.v(v128.and, f.v(f32x4.ne, x, x), f.v(f32x4.ne, y, y));
    return f.v(v128.or, f.v(f32x4.eq, x, y), bothNaN);
  }

  /** Considers a vector of values at later places than before; `lanes` of them count. */
  add(vector: number, value: Local, place: Local, lanes: number): void {
    const f = this.#f;
    const known = this.#vectors[vector]!;
    const isFirst = f.v(i32x4.ltS, known.place, f.splat(0));
    let takes = f.v(v128.or, this.#isBetter(value, known.value), isFirst);
    if (this.#joinsLanes && lanes === 1) takes = f.v(v128.and, takes, f.lanes([-1, 0, 0, 0]));
    f.assign(known.value, this.#math.select(takes, value, known.value));
    f.assign(known.place, this.#math.select(takes, place, known.place));
  }

  #join(a: Found, b: Found): Found {
    const f = this.#f;
    const zero = f.splat(0);
    const isFirst = f.v(i32x4.ltS, a.place, zero);
    const isEarlier = f.v(
      v128.and,
      this.#isEqual(b.value, a.value),
      f.v(i32x4.ltS, b.place, a.place),
    );
    const better = f.v(v128.or, this.#isBetter(b.value, a.value), isEarlier);
    const exists = f.v(i32x4.geS, b.place, zero);
    const takes = f.v(v128.and, f.v(v128.or, better, isFirst), exists);
    return {
      value: this.#math.select(takes, b.value, a.value),
      place: this.#math.select(takes, b.place, a.place),
    };
  }

  /** The place in a vector's lanes, or that among all lanes of all vectors. */
  result(vector: number): Local {
    if (!this.#joinsLanes) return this.#vectors[vector]!.place;
    const f = this.#f;
    let found = this.#vectors.reduce((a, b) => this.#join(a, b));
    for (const lanes of [[2, 3, 0, 1], [1, 0, 3, 2]]) {
      const turn = (v: Local): Local => f.shuffle32(v, v, lanes);
      found = this.#join(found, { value: turn(found.value), place: turn(found.place) });
    }
    return found.place;
  }
}
