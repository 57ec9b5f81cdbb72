/**
 * The running results of reductions. Floats are summed in doubles: a sum is then as good as one in
 * any order, and costs no more than the memory that it reads.
 */
import type { DType } from "../../graph/dtype.ts";
import type { ReduceFn } from "../../graph/node.ts";
import {
  f32x4,
  f64x2,
  floatBits,
  type FunctionBuilder,
  i32x4,
  type Local,
  v128,
} from "./assembler.ts";
import { kindOf, type LaneKind, Unsupported } from "./lanes.ts";
import type { VectorMath } from "./math.ts";

/** One reduction of a stage. */
export interface Sum {
  readonly fn: ReduceFn;
  readonly dtype: DType;
}

/** How a reduction joins values. */
interface Join {
  readonly op: number;
  /** The bits of a lane that changes nothing. */
  readonly identity: number;
  /** Values are kept as doubles, two vectors for one. */
  readonly isWide: boolean;
}

const joins: Readonly<Record<LaneKind, Partial<Record<ReduceFn, Join>>>> = {
  float: {
    sum: { op: f64x2.add, identity: 0, isWide: true },
    prod: { op: f64x2.mul, identity: 1, isWide: true },
    max: { op: f32x4.max, identity: floatBits(-Infinity), isWide: false },
    min: { op: f32x4.min, identity: floatBits(Infinity), isWide: false },
  },
  int: {
    sum: { op: i32x4.add, identity: 0, isWide: false },
    prod: { op: i32x4.mul, identity: 1, isWide: false },
    max: { op: i32x4.maxS, identity: -0x80000000, isWide: false },
    min: { op: i32x4.minS, identity: 0x7fffffff, isWide: false },
  },
  mask: {
    max: { op: v128.or, identity: 0, isWide: false },
    min: { op: v128.and, identity: -1, isWide: false },
  },
};

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
      if (!join) throw new Unsupported(`${fn} of ${dtype}`);
      const start = this.#identity(join);
      const vectors = Array.from(
        { length: count },
        () =>
          Array.from({ length: join.isWide ? 2 : 1 }, () => {
            const local = f.vector();
            f.assign(local, start);
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

  /** Joins a value into the accumulators of a vector; `lanes` of it count. */
  add(sum: number, vector: number, value: Local, lanes: number): void {
    const f = this.#f;
    const { join, vectors } = this.#sums[sum]!;
    const { op, isWide } = join;
    const targets = vectors[vector]!;
    const isPartial = this.#joinsLanes && lanes === 1;
    if (!isWide) {
      const mask = f.lanes([-1, 0, 0, 0]);
      const part = isPartial ? this.#math.select(mask, value, this.#identity(join)) : value;
      return f.assign(targets[0]!, f.v(op, targets[0]!, part));
    }
    let low = f.v(f64x2.promote, value);
    if (isPartial) {
      low = this.#math.select(f.lanes([-1, -1, 0, 0]), low, this.#identity(join));
      return f.assign(targets[0]!, f.v(op, targets[0]!, low));
    }
    f.assign(targets[0]!, f.v(op, targets[0]!, low));
    const high = f.v(f64x2.promote, f.shuffle(value, value, HIGH_HALF));
    f.assign(targets[1]!, f.v(op, targets[1]!, high));
  }

  /** The result of a vector's lanes, or of all lanes of all vectors. */
  result(sum: number, vector: number): Local {
    const f = this.#f;
    const { join: { op, isWide }, dtype, vectors } = this.#sums[sum]!;
    let value: Local;
    if (!this.#joinsLanes) {
      const [low, high] = vectors[vector]!;
      value = isWide
        ? f.shuffle32(f.v(f32x4.demote, low!), f.v(f32x4.demote, high!), [0, 1, 4, 5])
        : low!;
    } else {
      const all = vectors.flat().reduce((a, b) => f.v(op, a, b));
      const halves = f.v(op, all, f.shuffle(all, all, HIGH_HALF));
      if (isWide) {
        const single = f.v(f32x4.demote, halves);
        value = f.shuffle32(single, single, [0, 0, 0, 0]);
      } else {
        const joined = f.v(op, halves, f.shuffle32(halves, halves, [1, 1, 1, 1]));
        value = f.shuffle32(joined, joined, [0, 0, 0, 0]);
      }
    }
    return dtype === "uint8" ? f.v(v128.and, value, f.splat(255)) : value;
  }
}
