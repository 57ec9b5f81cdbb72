/** The softmax of attention, block by block. */
import { primitive } from "../../language/elements.ts";
import { div, type E, mul } from "../../language/expression.ts";
import {
  above,
  anyLane,
  exp2,
  fadd,
  float,
  fma,
  fmul,
  isSame,
  lane,
  larger,
  select,
  splat,
} from "../../language/values.ts";
import { type Blocks, eachColumn, eachOfRow, type Grid, valueAt } from "./blocks.ts";

/** Growth of weights beyond 1, as a power of 2, before sums are scaled down: halves hold it. */
const MAX_GROWTH = 8;

export const INFINITY = float(Infinity), NONE = float(-Infinity);
export const fsub = (a: E, b: E): E => primitive("sub", [a, b], "float32");
export const exp = (a: E): E => primitive("exp", [a], "float32");
export const negative = (a: E): E => primitive("neg", [a], "float32");
export const isNone = (a: E): E => isSame(a, NONE);

/** The same numbers, of which those that may be are vectors. */
function inVectors(grid: Grid): Grid {
  const { together = 1, runs, place, at } = grid;
  if (together === 1) return grid;
  return {
    ...grid,
    place,
    runs: div(runs, together),
    width: together,
    at: (row, run, k) => at(row, mul(run, together), k),
  };
}

const lanesOf = (e: E): E[] => Array.from({ length: e.width }, (_, k) => lane(e, k));

/** The softmax of a group's rows, block by block. */
export class Softmax {
  readonly #blocks: Blocks;
  readonly #sums: Grid;
  /** Scores that weights are taken against, and sums of the weights so far, a row each. */
  readonly #top: readonly E[];
  readonly #total: readonly E[];
  #factor: E | null = null;

  constructor(blocks: Blocks, sums: Grid) {
    const rows = Array.from({ length: blocks.own });
    this.#blocks = blocks;
    this.#sums = sums;
    this.#top = rows.map(() => this.#register(NONE));
    this.#total = rows.map(() => this.#register(float(0)));
  }

  #register(value: E): E {
    const { p, lanes } = this.#blocks;
    return p.register(splat(value, lanes));
  }

  /** Turns scores, which are to be multiplied by a factor, into weights. */
  add(scores: Grid, factor: E | null): void {
    const blocks = this.#blocks, { p, isFast } = blocks;
    this.#factor = factor;
    const all = inVectors(scores), { width } = all;
    const joined = (sums: readonly E[], join: (a: E, b: E) => E): E[] =>
      width === scores.width ? [...sums] : sums.map((sum) => p.register(lanesOf(sum).reduce(join)));
    const each = this.#top.map((top) => p.register(splat(top, width)));
    eachColumn(
      blocks,
      all,
      (row, at) => p.set(each[row]!, larger(each[row]!, valueAt(all, at))),
    );
    const most = joined(each, larger);
    if (!blocks.isApart) blocks.join(most, larger);
    const rows = this.#top.map((top, row) => {
      this.#rescale(row, most[row]!);
      const low = p.let(select(isNone(top), float(0), top));
      return isFast && factor !== null ? p.let(fmul(low, negative(factor))) : low;
    });
    const added = rows.map(() => p.register(splat(float(0), width)));
    eachColumn(blocks, all, (row, at) => {
      const score = valueAt(all, at), low = splat(rows[row]!, width);
      const weight = p.let(
        isFast && factor !== null ? exp2(fma(score, factor, low)) : this.#power(fsub(score, low)),
      );
      p.set(added[row]!, fadd(added[row]!, weight));
      p.store(scores.place, at, weight);
    });
    const sums = joined(added, fadd);
    this.#total.forEach((total, row) => p.set(total, fadd(total, sums[row]!)));
  }

  /** The weight of a difference of scores. */
  #power(difference: E): E {
    const scaled = this.#scaled(difference);
    return this.#blocks.isFast ? exp2(scaled) : exp(scaled);
  }

  #scaled(score: E): E {
    return this.#factor === null ? score : fmul(score, this.#factor);
  }

  /** Scales a row's sums down where its scores have grown by much. */
  #rescale(row: number, most: E): void {
    const { p, isFast } = this.#blocks, top = this.#top[row]!;
    const growth = isFast ? MAX_GROWTH : MAX_GROWTH * Math.LN2;
    p.when(
      anyLane(above(this.#scaled(fsub(most, top)), float(growth))),
      () => this.#take(row, most),
    );
  }

  /** Takes weights against another score from now on. */
  #take(row: number, most: E): void {
    const { p, lanes, isApart } = this.#blocks, top = this.#top[row]!, total = this.#total[row]!;
    // A lane that has seen nothing yet has no number to subtract.
    const low = lanes === 1 && !isApart ? most : select(isNone(most), float(0), most);
    const less = p.let(this.#power(fsub(top, low)));
    p.set(top, most);
    p.set(total, fmul(total, less));
    eachOfRow(this.#blocks, this.#sums, row, (at) => {
      p.store(this.#sums.place, at, fmul(valueAt(this.#sums, at), less));
    });
  }

  /** Joins what work-items have of the rows; of sums they keep their parts. */
  finish(): void {
    if (this.#blocks.isApart) {
      const most = this.#top.map((top) => this.#blocks.p.register(top));
      this.#blocks.join(most, larger);
      most.forEach((each, row) => this.#take(row, each));
    }
    this.#blocks.join(this.#total, fadd);
  }

  /** Factor of a row's sums: 0 where a query may look at no key. */
  inverse(row: number): E {
    const { p } = this.#blocks, one = primitive("div", [float(1), this.#total[row]!], "float32");
    return p.let(select(isNone(this.#top[row]!), float(0), one));
  }

  /** The logarithm of the sum of the exponentials of a row's scores. */
  logSum(row: number): E {
    const top = this.#scaled(this.#top[row]!), total = this.#total[row]!;
    const log = (name: "log" | "log2"): E => primitive(name, [total], "float32");
    const sum = this.#blocks.isFast
      ? fmul(float(Math.LN2), fadd(top, log("log2")))
      : fadd(top, log("log"));
    return select(isNone(this.#top[row]!), INFINITY, sum);
  }
}
