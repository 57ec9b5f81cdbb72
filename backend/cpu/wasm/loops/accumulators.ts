/**
 * The running results of reductions. Floats are summed in doubles: a sum is then as good as one in
 * any order, and costs no more than the memory that it reads.
 */
import type { DType } from "../../../graph/dtype.ts";
import type { JoinFn } from "../../../graph/reductions.ts";
import { floatBits, type FunctionBuilder, type Local } from "../assembler.ts";
import { kindOf, type LaneKind, type WideKind } from "../lanes.ts";
import type { VectorMath } from "../math.ts";
import { f32x4, f64x2, i32x4, i64x2, v128 } from "../opcodes.ts";

/** One reduction of a stage. */
export interface Sum {
  readonly fn: JoinFn;
  readonly dtype: DType;
}

/** Join of values in a reduction. */
interface Join {
  readonly op: number;
  /** The bits of a lane that changes nothing. */
  readonly identity: number;
  /** Values are kept in 64 bits, two vectors for one. */
  readonly isWide: boolean;
  /** They have 64 bits already. */
  readonly takesPairs?: true;
  /** The operation loses NaN: a mask of where it was is kept in another vector. */
  readonly losesNaN?: true;
}

const joins: Readonly<Record<LaneKind | WideKind, Readonly<Record<JoinFn, Join | "scalar">>>> = {
  float: {
    sum: { op: f64x2.add, identity: 0, isWide: true },
    prod: { op: f64x2.mul, identity: 1, isWide: true },
    // These ignore NaN, which is noted apart: quicker than the operations that keep it.
    max: { op: f32x4.pmax, identity: floatBits(-Infinity), isWide: false, losesNaN: true },
    min: { op: f32x4.pmin, identity: floatBits(Infinity), isWide: false, losesNaN: true },
  },
  int: {
    sum: { op: i32x4.add, identity: 0, isWide: false },
    prod: { op: i32x4.mul, identity: 1, isWide: false },
    max: { op: i32x4.maxS, identity: -0x80000000, isWide: false },
    min: { op: i32x4.minS, identity: 0x7fffffff, isWide: false },
  },
  double: {
    sum: { op: f64x2.add, identity: 0, isWide: true, takesPairs: true },
    prod: { op: f64x2.mul, identity: 1, isWide: true, takesPairs: true },
    max: "scalar",
    min: "scalar",
  },
  long: {
    sum: { op: i64x2.add, identity: 0, isWide: true, takesPairs: true },
    prod: "scalar",
    max: "scalar",
    min: "scalar",
  },
  // Sums and products of truth values are those of integers.
  mask: {
    sum: "scalar",
    prod: "scalar",
    max: { op: v128.or, identity: 0, isWide: false },
    min: { op: v128.and, identity: -1, isWide: false },
  },
};

/** True when values of a type that has lanes can be joined in them. */
export function joinsInLanes(fn: JoinFn, dtype: DType): boolean {
  return joins[kindOf(dtype)][fn] !== "scalar";
}

const HIGH_HALF = [8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15];

/** The accumulators of the reductions that share a loop. */
export class Accumulators {
  readonly #f: FunctionBuilder;
  readonly #math: VectorMath;
  /** Lanes are parts of one result. */
  readonly #joinsLanes: boolean;
  readonly #sums: { join: Join; dtype: DType; vectors: (readonly Local[])[] }[];

  /** Begins with the identities; `count` vectors side by side. */
  constructor(
    f: FunctionBuilder,
    math: VectorMath,
    sums: readonly Sum[],
    joinsLanes: boolean,
    count: number,
  ) {
    this.#f = f;
    this.#math = math;
    this.#joinsLanes = joinsLanes;
    this.#sums = sums.map(({ fn, dtype }) => {
      const join = joins[kindOf(dtype)][fn];
      if (join === "scalar") throw new Error(`There are no lanes for ${fn} of ${dtype}`);
      const start = this.#identity(join);
      const vectors = Array.from(
        { length: count },
        () =>
          Array.from({ length: join.isWide || join.losesNaN ? 2 : 1 }, (_, k) => {
            const local = f.vector();
            f.assign(local, join.losesNaN && k === 1 ? f.splat(0) : start);
            return local;
          }),
      );
      return { join, dtype, vectors };
    });
  }

  #identity({ isWide, identity }: Join): Local {
    if (!isWide) return this.#f.splat(identity);
    return identity === 0 ? this.#f.splat(0) : this.#f.lanes([0, 0x3ff00000, 0, 0x3ff00000]);
  }

  /** Joins values, one for each vector, into the accumulators; `lanes` of them count. */
  add(sum: number, values: readonly Local[], lanes: number): void {
    const { op, takesPairs } = this.#sums[sum]!.join;
    if (op !== f64x2.add || takesPairs || !this.#joinsLanes || values.length < 4) {
      return values.forEach((value, vector) => this.#add(sum, vector, value, lanes));
    }
    // A few floats are summed as such: that costs less than making them doubles, and no accuracy.
    const pairs = [0, 1].map((k) => this.#f.v(f32x4.add, values[2 * k]!, values[2 * k + 1]!));
    this.#add(sum, 0, this.#f.v(f32x4.add, pairs[0]!, pairs[1]!), lanes);
  }

  /** True when values of several steps may be added up before they are joined. */
  get mayJoinSteps(): boolean {
    return !this.#joinsLanes &&
      this.#sums.every(({ join }) => join.op === f64x2.add && !join.takesPairs);
  }

  /** Joins the values of four steps: added up as floats first, which costs less, and no accuracy. */
  addSteps(sum: number, steps: readonly (readonly Local[])[]): void {
    const add = (a: Local, b: Local): Local => this.#f.v(f32x4.add, a, b);
    const [a, b, c, d] = steps as [Local[], Local[], Local[], Local[]];
    a.forEach((_, k) => this.#add(sum, k, add(add(a[k]!, b[k]!), add(c[k]!, d[k]!)), 4));
  }

  #add(sum: number, vector: number, value: Local, lanes: number): void {
    const f = this.#f;
    const { join, vectors } = this.#sums[sum]!;
    const { op, isWide } = join;
    const targets = vectors[vector]!;
    const isPartial = this.#joinsLanes && lanes === 1;
    if (!isWide) {
      const mask = f.lanes([-1, 0, 0, 0]);
      const part = isPartial ? this.#math.select(mask, value, this.#identity(join)) : value;
      if (join.losesNaN) {
        f.assign(targets[1]!, f.v(v128.or, targets[1]!, f.v(f32x4.ne, part, part)));
      }
      return f.assign(targets[0]!, f.v(op, targets[0]!, part));
    }
    let low = join.takesPairs ? f.halves(value)[0] : f.v(f64x2.promote, value);
    if (isPartial) {
      low = this.#math.select(f.lanes([-1, -1, 0, 0]), low, this.#identity(join));
      return f.assign(targets[0]!, f.v(op, targets[0]!, low));
    }
    f.assign(targets[0]!, f.v(op, targets[0]!, low));
    const high = join.takesPairs
      ? f.halves(value)[1]
      : f.v(f64x2.promote, f.shuffle(value, value, HIGH_HALF));
    f.assign(targets[1]!, f.v(op, targets[1]!, high));
  }

  /** The result of a vector's lanes, or of all lanes of all vectors. */
  result(sum: number, vector: number): Local {
    const f = this.#f;
    const { join: { op, isWide, losesNaN, takesPairs }, dtype, vectors } = this.#sums[sum]!;
    if (takesPairs) {
      const [low, high] = this.#joinsLanes ? this.#allPairs(vectors.flat(), op) : vectors[vector]!;
      return f.pair(low!, high!);
    }
    if (isWide) {
      return this.#joinsLanes
        ? this.#joined(vectors.flat(), op)
        : this.#math.demoted(f.pair(...vectors[vector] as [Local, Local]));
    }
    const parts = this.#joinsLanes ? vectors : [vectors[vector]!];
    const values = parts.map(([value]) => value!);
    let value = this.#joinsLanes ? this.#across(values, op) : values[0]!;
    if (losesNaN) {
      const masks = parts.map(([, mask]) => mask!);
      const found = this.#joinsLanes ? this.#across(masks, v128.or) : masks[0]!;
      value = this.#math.select(found, f.float(NaN), value);
    }
    return dtype === "uint8" ? f.v(v128.and, value, f.splat(255)) : value;
  }

  /** All lanes of 64 bits joined, in all lanes. */
  #allPairs(vectors: readonly Local[], op: number): Local[] {
    const f = this.#f, all = vectors.reduce((a, b) => f.v(op, a, b));
    const turned = f.shuffle32(all, all, [2, 3, 0, 1]), joined = f.v(op, all, turned);
    return [joined, joined];
  }

  /** All doubles joined, in all lanes as a float. */
  #joined(vectors: readonly Local[], op: number): Local {
    const f = this.#f;
    const all = vectors.reduce((a, b) => f.v(op, a, b));
    const single = f.v(f32x4.demote, f.v(op, all, f.shuffle(all, all, HIGH_HALF)));
    return f.shuffle32(single, single, [0, 0, 0, 0]);
  }

  /** All lanes joined, in all lanes. */
  #across(vectors: readonly Local[], op: number): Local {
    const f = this.#f;
    const all = vectors.reduce((a, b) => f.v(op, a, b));
    const halves = f.v(op, all, f.shuffle(all, all, HIGH_HALF));
    const joined = f.v(op, halves, f.shuffle32(halves, halves, [1, 1, 1, 1]));
    return f.shuffle32(joined, joined, [0, 0, 0, 0]);
  }
}
