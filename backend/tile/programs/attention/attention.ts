/**
 * Attention and its gradients: `softmax(query keyᵀ * scale + mask) value`, in one walk over blocks, so that scores
 * are never in memory as a whole.
 *
 * - Forward: rows are queries; weights are taken against a score of the row that the largest so far exceeds by
 *   little, and sums are scaled down where it exceeds that by more.
 * - Gradient of queries: rows are queries; scores are computed again from the saved logarithms.
 * - Gradients of keys and values: rows are keys, so no group adds to what another one writes.
 */
import { type AttentionKernel, headsOf } from "../../../kernel/attention.ts";
import { primitive } from "../../language/elements.ts";
import { add, divideBy, type E, int, min, mod, mul, sub } from "../../language/expression.ts";
import type { TileKernel } from "../../language/statements.ts";
import {
  all,
  exp2,
  fadd,
  float,
  fma,
  fmul,
  larger,
  lt,
  or,
  select,
} from "../../language/values.ts";
import {
  type Blocks,
  change,
  eachColumn,
  type Grid,
  type StoredRow,
  type Turn,
  valueAt,
} from "./blocks.ts";
import type { HeadValues, Operand } from "./head_values.ts";

/** Growth of weights beyond 1, as a power of 2, before sums are scaled down: halves hold it. */
const MAX_GROWTH = 8;

/** The kernels of attention, by what they compute. */
export type AttentionPart = "forward" | "queryGradient" | "keyGradient";

const INFINITY = float(Infinity), NONE = float(-Infinity);
const fsub = (a: E, b: E): E => primitive("sub", [a, b], "float32");
const above = (a: E, b: E): E => primitive("gt", [a, b], "float32", "bool");
const exp = (a: E): E => primitive("exp", [a], "float32");
const negative = (a: E): E => primitive("neg", [a], "float32");
const isNone = (a: E): E => primitive("eq", [a, NONE], "float32", "bool");

/** True where rows are keys. */
const isKeyed = (part: AttentionPart): boolean => part === "keyGradient";

/** The program of one kernel, by blocks. */
export function writeAttention(
  part: AttentionPart,
  values: HeadValues,
  blocks: Blocks,
): TileKernel {
  const { kernel } = values, { p } = values;
  const length = isKeyed(part) ? kernel.keys : kernel.queries;
  const groups = Math.ceil(length / blocks.rows);
  new AttentionWriter(values, blocks, isKeyed(part), groups).write(part);
  return p.finish("attention", headsOf(kernel) * groups);
}

class AttentionWriter {
  readonly #values: HeadValues;
  readonly #kernel: AttentionKernel;
  readonly #blocks: Blocks;
  readonly #rowsAreKeys: boolean;
  readonly #row0: E;
  readonly #operands: Record<"query" | "key" | "value" | "gradient", Operand>;
  readonly #mask: Operand | null;

  constructor(values: HeadValues, blocks: Blocks, rowsAreKeys: boolean, groups: number) {
    const { p, kernel } = values, n = values.size(groups), [head, part] = divideBy(p.group, n);
    this.#values = values;
    this.#kernel = kernel;
    this.#blocks = blocks;
    this.#rowsAreKeys = rowsAreKeys;
    // Under a causal mask the last queries take longest: they come first.
    const isReversed = kernel.isCausal && !rowsAreKeys;
    const block = isReversed ? sub(sub(n, 1), part) : part;
    this.#row0 = p.let(mul(block, blocks.rows));
    values.placeHead(p.let(head));
    this.#operands = values.operands();
    this.#mask = kernel.mask && values.operand(kernel.mask.at, 1, values.queries);
  }

  write(part: AttentionPart): void {
    switch (part) {
      case "forward":
        return this.#forward();
      case "queryGradient":
        return this.#queryGradient();
      case "keyGradient":
        return this.#keyGradient();
    }
  }

  #row(row: number): E {
    return add(this.#row0, this.#blocks.row(row));
  }

  get #length(): E {
    return this.#rowsAreKeys ? this.#values.keys : this.#values.queries;
  }

  /** The end of the keys that the queries of the group see. */
  get #end(): E {
    const { keys } = this.#values;
    return this.#kernel.isCausal ? min(keys, add(this.#row0, this.#blocks.rows)) : keys;
  }

  #forward(): void {
    const { query, key, value } = this.#operands, blocks = this.#blocks;
    blocks.keep([query], this.#row0);
    const sums = blocks.sums(value.features), softmax = new Softmax(blocks, sums);
    const walk = { walked: [key, value], numbers: [], from: int(0), to: this.#end };
    blocks.walk(walk, (turn) => {
      const [scores] = turn.scores([{ kept: 0, walked: 0 }]) as [Grid];
      softmax.add(scores, this.#open(scores, turn));
      if (this.#kernel.dropout) {
        change(
          blocks.p,
          scores,
          (w, row, run, k) => fmul(w, this.#kept(row, this.#column(turn, scores, run, k))),
        );
      }
      turn.add([{ sums, weights: scores, walked: 1 }]);
    });
    softmax.finish();
    this.#store(0, sums, value.features, (row) => softmax.inverse(row));
    this.#storeLogSums(softmax);
  }

  #storeLogSums(softmax: Softmax): void {
    const place = this.#values.output(1), { p } = this.#blocks;
    if (place === null) return;
    this.#blocks.once(() => {
      for (let row = 0; row < this.#blocks.own; row++) {
        const own = p.let(this.#row(row));
        p.when(lt(own, this.#length), () => {
          const index = add(mul(this.#values.head, this.#length), own);
          p.store(place, index, softmax.logSum(row));
        });
      }
    });
  }

  #queryGradient(): void {
    const { query, key, value, gradient } = this.#operands, blocks = this.#blocks, { p } = blocks;
    const { logSums, products } = this.#kernel.backward!;
    blocks.keep([query, gradient], this.#row0);
    const sums = blocks.sums(query.features);
    const numbers = (operand: Operand, otherwise: E): E[] =>
      Array.from({ length: blocks.own }, (_, k) => {
        const number = p.register(otherwise), row = p.let(this.#row(k));
        p.when(lt(row, this.#length), () => p.set(number, operand.element(row, int(0))));
        return number;
      });
    const one = (at: typeof logSums): Operand => this.#values.operand(at, 1, this.#values.queries);
    const logs = numbers(one(logSums), INFINITY), apart = numbers(one(products), float(0));
    const walk = { walked: [key, value], numbers: [], from: int(0), to: this.#end };
    blocks.walk(walk, (turn) => {
      const [scores, ofWeights] = this.#scores(turn), factor = this.#open(scores, turn);
      change(p, scores, (score, row, run, k) => {
        const weight = this.#weight(score, factor, logs[row]!);
        const own = valueAt(ofWeights, ofWeights.at(row, run, k));
        const gradient = this.#kernel.dropout
          ? fmul(own, this.#kept(row, this.#column(turn, scores, run, k)))
          : own;
        return fmul(weight, fsub(gradient, apart[row]!));
      });
      turn.add([{ sums, weights: scores, walked: 0 }]);
    });
    const scale = this.#values.number(this.#kernel.scale);
    this.#store(0, sums, query.features, () => scale);
  }

  /** The scores, and the gradients of their weights. */
  #scores(turn: Turn): [scores: Grid, ofWeights: Grid] {
    return turn.scores([{ kept: 0, walked: 0 }, { kept: 1, walked: 1 }]) as [Grid, Grid];
  }

  #keyGradient(): void {
    const { query, key, value, gradient } = this.#operands, blocks = this.#blocks, { p } = blocks;
    const { logSums, products } = this.#kernel.backward!;
    blocks.keep([key, value], this.#row0);
    const sums = { key: blocks.sums(key.features), value: blocks.sums(value.features) };
    const one = (at: typeof logSums): Operand => this.#values.operand(at, 1, this.#values.queries);
    const { columns } = blocks;
    // Queries before the first key of the group see none of its keys.
    const from = this.#kernel.isCausal ? sub(this.#row0, mod(this.#row0, columns)) : int(0);
    const walk = {
      walked: [query, gradient],
      numbers: [one(logSums), one(products)],
      from: p.let(from),
      to: this.#values.queries,
    };
    blocks.walk(walk, (turn) => {
      const [scores, ofWeights] = this.#scores(turn), factor = this.#open(scores, turn);
      for (let row = 0; row < scores.rows; row++) {
        eachColumn(p, scores, row, (at, run, k) => {
          const weight = p.let(this.#weight(valueAt(scores, at), factor, turn.number(0, run, k)));
          const kept = this.#kernel.dropout
            ? p.let(this.#kept(row, this.#column(turn, scores, run, k)))
            : null;
          const times = (a: E): E => kept === null ? a : fmul(a, kept);
          const own = ofWeights.at(row, run, k);
          p.store(scores.place, at, times(weight));
          const apart = fsub(times(valueAt(ofWeights, own)), turn.number(1, run, k));
          p.store(ofWeights.place, own, fmul(weight, apart));
        });
      }
      turn.add([
        { sums: sums.value, weights: scores, walked: 1 },
        { sums: sums.key, weights: ofWeights, walked: 0 },
      ]);
    });
    const scale = this.#values.number(this.#kernel.scale);
    this.#store(1, sums.key, key.features, () => scale);
    this.#store(2, sums.value, value.features, () => null);
  }

  #column(turn: Turn, grid: Grid, run: E, k: number): E {
    return add(turn.first, grid.column(run, k));
  }

  /** The factor of a weight of a row and a column. */
  #kept(row: number, column: E): E {
    const own = this.#row(row);
    return this.#rowsAreKeys ? this.#values.kept(column, own) : this.#values.kept(own, column);
  }

  /** The weight of a score, whose row has so large a logarithm. */
  #weight(score: E, factor: E | null, logSum: E): E {
    if (!this.#blocks.isFast) {
      return exp(fsub(factor === null ? score : fmul(score, factor), logSum));
    }
    const low = fmul(logSum, float(-Math.LOG2E));
    return exp2(factor === null ? fadd(score, low) : fma(score, factor, low));
  }

  /**
   * Closes the scores that a query may not see: -Infinity.
   *
   * @returns The factor of the scores; null where they are multiplied by it already.
   */
  #open(scores: Grid, turn: Turn): E | null {
    const { mask, scale } = this.#kernel, values = this.#values, { p, isFast } = this.#blocks;
    const factor = values.number(isFast ? scale * Math.LOG2E : scale);
    if (mask !== null || !(scale > 0)) {
      const masks = this.#mask;
      this.#closeUnless(scores, turn, true, (score, query, key) => {
        const scaled = fmul(score, factor);
        if (masks === null) return scaled;
        if (mask!.kind === "bool") return select(masks.raw(query, key), scaled, NONE);
        const added = masks.element(query, key);
        return isFast ? fma(added, float(Math.LOG2E), scaled) : fadd(scaled, added);
      });
      return null;
    }
    // Most blocks have neither the last key nor the diagonal in them. Keys that are rows are not stored behind
    // the last; what queries that are not there make is 0.
    const { first } = turn, { columns, firstRow, lastRow } = this.#blocks;
    const [top, bottom] = [firstRow, lastRow].map((row) => add(this.#row0, row)) as [E, E];
    const edges = [
      ...this.#rowsAreKeys ? [] : [lt(values.keys, add(first, columns))],
      ...this.#kernel.isCausal
        ? [this.#rowsAreKeys ? lt(first, bottom) : lt(top, add(first, columns - 1))]
        : [],
    ];
    if (edges.length === 0) return factor;
    p.when(edges.reduce(or), () => this.#closeUnless(scores, turn, false, (score) => score));
    return factor;
  }

  /** Gives each score that a query sees what `to` makes of it. */
  #closeUnless(
    scores: Grid,
    turn: Turn,
    readsQueries: boolean,
    to: (score: E, query: E, key: E) => E,
  ): void {
    const { queries, keys } = this.#values;
    change(this.#blocks.p, scores, (score, row, run, k) => {
      const own = this.#row(row), column = this.#column(turn, scores, run, k);
      const [query, key] = this.#rowsAreKeys ? [column, own] : [own, column];
      const isOpen = all([
        ...readsQueries ? [lt(query, queries)] : [],
        ...readsQueries || !this.#rowsAreKeys ? [lt(key, keys)] : [],
        ...this.#kernel.isCausal ? [lt(key, add(query, 1))] : [],
      ]);
      return select(isOpen, to(score, query, key), NONE);
    });
  }

  #store(output: number, sums: Grid, columns: number, factor: (row: number) => E | null): void {
    const place = this.#values.output(output), { p } = this.#blocks;
    if (place === null) return;
    this.#blocks.store(place, sums, columns, (row): StoredRow => {
      const own = p.let(this.#row(row));
      const index = p.let(this.#values.resultIndex(own, columns, this.#length, int(0)));
      return { index, isThere: lt(own, this.#length), factor: factor(row) };
    });
  }
}

/** The softmax of a group's rows, block by block. */
class Softmax {
  readonly #blocks: Blocks;
  readonly #sums: Grid;
  /** Scores that weights are taken against, and sums of the weights so far, a row each. */
  readonly #top: readonly E[];
  readonly #total: readonly E[];
  #factor: E | null = null;

  constructor(blocks: Blocks, sums: Grid) {
    const { p } = blocks, rows = Array.from({ length: blocks.own });
    this.#blocks = blocks;
    this.#sums = sums;
    this.#top = rows.map(() => p.register(NONE));
    this.#total = rows.map(() => p.register(float(0)));
  }

  /** Turns scores, which are to be multiplied by a factor, into weights. */
  add(scores: Grid, factor: E | null): void {
    const { p, isFast } = this.#blocks;
    this.#factor = factor;
    const most = this.#top.map((top, row) => {
      const own = p.register(top);
      eachColumn(p, scores, row, (at) => p.set(own, larger(own, valueAt(scores, at))));
      return own;
    });
    this.#blocks.join(most, larger);
    this.#top.forEach((top, row) => {
      this.#rescale(row, most[row]!);
      const low = p.let(select(isNone(top), float(0), top));
      const base = isFast && factor !== null ? p.let(fmul(low, negative(factor))) : null;
      const added = p.register(float(0));
      eachColumn(p, scores, row, (at) => {
        const score = valueAt(scores, at);
        const weight = p.let(
          base !== null ? exp2(fma(score, factor!, base)) : this.#power(fsub(score, low)),
        );
        p.set(added, fadd(added, weight));
        p.store(scores.place, at, weight);
      });
      p.set(this.#total[row]!, fadd(this.#total[row]!, added));
    });
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
    const { p, isFast } = this.#blocks, top = this.#top[row]!, total = this.#total[row]!;
    const growth = isFast ? MAX_GROWTH : MAX_GROWTH * Math.LN2;
    p.when(above(this.#scaled(fsub(most, top)), float(growth)), () => {
      const less = p.let(this.#power(fsub(top, most)));
      p.set(top, most);
      p.set(total, fmul(total, less));
      eachColumn(
        p,
        this.#sums,
        row,
        (at) => p.store(this.#sums.place, at, fmul(valueAt(this.#sums, at), less)),
      );
    });
  }

  finish(): void {
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
