/**
 * Attention and its gradients: `softmax(query keyᵀ * scale + mask) value`, in one walk over blocks, so that scores
 * are never in memory as a whole.
 *
 * - Forward: rows are queries; weights are taken against a score of the row that the largest so far exceeds by
 *   little, and sums are scaled down where it exceeds that by more.
 * - Gradient of queries: rows are queries; scores are computed again from the saved logarithms.
 * - Gradients of keys and values: rows are keys, so no group adds to what another one writes.
 */
import { type AttentionKernel, type HeadMatrix, headsOf } from "../../../kernel/attention.ts";
import { held, primitive } from "../../language/elements.ts";
import {
  add,
  divideBy,
  type E,
  firstLane,
  int,
  min,
  mod,
  mul,
  type Place,
  sub,
} from "../../language/expression.ts";
import type { TileKernel } from "../../language/statements.ts";
import { all, exp2, fadd, float, fma, fmul, lt, or, select, truth } from "../../language/values.ts";
import { partPlace } from "./attention_parts.ts";
import { type Blocks, change, eachColumn, type Grid, type Turn, valueAt } from "./blocks.ts";
import type { HeadValues, Operand } from "./head_values.ts";
import { KeyRange, type Keys } from "./key_range.ts";
import { exp, fsub, INFINITY, NONE, Softmax } from "./softmax.ts";

/** The kernels of attention, by what they compute. */
export type AttentionPart = "forward" | "queryGradient" | "keyGradient" | "headGradients";

/**
 * The program of one kernel, by blocks.
 *
 * @param parts Number of parts that keys of a forward pass are cut in. A group takes one of them, and stores what
 *   `attention_parts.ts` joins: outputs of each part, and logarithms of sums, behind the kernel's outputs.
 */
export function writeAttention(
  part: AttentionPart,
  values: HeadValues,
  blocks: Blocks,
  parts = 1,
): TileKernel {
  const { kernel } = values, { p } = values, heads = headsOf(kernel);
  const rowsAreKeys = part === "keyGradient" || part === "headGradients";
  const count = Math.ceil((rowsAreKeys ? kernel.keys : kernel.queries) / blocks.rows);
  if (part === "headGradients") {
    const writer = new AttentionWriter(values, blocks, rowsAreKeys, p.group);
    p.loop(values.size(count), (block) => writer.write(part, block), 1);
    return p.finish("attention", heads);
  }
  const n = values.size(count);
  const [rest, own] = parts === 1 ? [p.group, int(0)] : divideBy(p.group, values.size(parts));
  const [head, block] = divideBy(rest, n);
  const split = { count: parts, own: p.let(own) };
  const writer = new AttentionWriter(values, blocks, rowsAreKeys, p.let(head), split);
  // Under a causal mask the last queries take longest: they come first.
  const isReversed = kernel.isCausal && !rowsAreKeys && blocks.lanes === 1;
  writer.write(part, isReversed ? sub(sub(n, 1), block) : block);
  return p.finish("attention", heads * count * parts);
}

/** The parts that keys are cut in, and the number of the group's own. */
interface Parts {
  readonly count: number;
  readonly own: E;
}

class AttentionWriter {
  readonly #values: HeadValues;
  readonly #kernel: AttentionKernel;
  readonly #blocks: Blocks;
  readonly #rowsAreKeys: boolean;
  #row0: E = int(0);
  readonly #operands: Record<"query" | "key" | "value" | "gradient", Operand>;
  /** Matrices of one column: those of a backward pass, and the mask. */
  readonly #logSums: Operand | null;
  readonly #products: Operand | null;
  readonly #mask: Operand | null;
  /** The scales of rows of bytes. */
  readonly #scales: { readonly key: Operand; readonly value: Operand } | null;
  readonly #parts: Parts;
  readonly #range: KeyRange;
  #keys: Keys = { from: int(0), to: int(0) };

  constructor(
    values: HeadValues,
    blocks: Blocks,
    rowsAreKeys: boolean,
    head: E,
    parts: Parts = { count: 1, own: int(0) },
  ) {
    const { kernel } = values, { backward, mask } = kernel;
    this.#values = values;
    this.#kernel = kernel;
    this.#blocks = blocks;
    this.#rowsAreKeys = rowsAreKeys;
    values.placeHead(head);
    const one = (at: HeadMatrix): Operand => values.operand(at, 1, values.queries);
    this.#operands = values.operands();
    this.#logSums = backward && one(backward.logSums);
    this.#products = backward && one(backward.products);
    this.#mask = mask && one(mask.at);
    const scales = kernel.filled?.scales;
    this.#scales = scales ? { key: one(scales.key), value: one(scales.value) } : null;
    this.#parts = parts;
    this.#range = new KeyRange(values, { ...blocks, parts: parts.count });
  }

  /** Computes the rows of a block. */
  write(part: AttentionPart, block: E): void {
    this.#row0 = this.#blocks.p.let(mul(block, this.#blocks.rows));
    switch (part) {
      case "forward":
        return this.#forward();
      case "queryGradient":
        return this.#queryGradient();
      case "keyGradient":
      case "headGradients":
        return this.#keyGradient(part === "headGradients");
    }
  }

  #row(row: number): E {
    return add(this.#row0, this.#blocks.row(row));
  }

  get #scale(): E {
    return this.#values.number(this.#kernel.scale);
  }

  get #length(): E {
    return this.#rowsAreKeys ? this.#values.keys : this.#values.queries;
  }

  #forward(): void {
    const { query, key, value } = this.#operands, blocks = this.#blocks;
    blocks.keep([query], this.#row0, this.#scale);
    const sums = blocks.sums(value.features), softmax = new Softmax(blocks, sums);
    const keys = this.#keys = this.#range.part(this.#range.ofRows(this.#row0), this.#parts.own);
    blocks.walk({ walked: [key, value], numbers: [], ...keys }, (turn) => {
      const [scores] = turn.scores([{ kept: 0, walked: 0 }]) as [Grid];
      if (this.#scales) this.#scaleBy(this.#scales.key, scores, turn);
      softmax.add(scores, this.#open(scores, turn));
      if (this.#kernel.dropout) {
        change(
          blocks,
          scores,
          (w, row, run, k) => fmul(w, this.#kept(row, this.#column(turn, scores, run, k))),
        );
      }
      if (this.#scales) this.#scaleBy(this.#scales.value, scores, turn);
      turn.add([{ sums, weights: scores, walked: 1 }]);
    });
    softmax.finish();
    const outputs = this.#parts.count === 1 ? [0, 2] : [0];
    for (const output of outputs) {
      this.#store(output, sums, value.features, (row) => softmax.inverse(row));
    }
    this.#storeLogSums(softmax);
  }

  /** Multiplies numbers of a block by those of their columns. */
  #scaleBy(scales: Operand, scores: Grid, turn: Turn): void {
    // Behind the last column there may be any number.
    const last = sub(this.#keys.to, 1), { isExact } = this.#blocks;
    change(this.#blocks, scores, (score, _, run, k) => {
      const column = this.#column(turn, scores, run, k);
      return fmul(score, scales.element(isExact ? column : min(column, last), int(0)));
    });
  }

  /** The rows that the group stores. */
  #isThere(row: E): E {
    const { from, to } = this.#keys, isThere = lt(add(this.#row0, row), this.#length);
    return this.#parts.count === 1 ? isThere : all([isThere, lt(from, to)]);
  }

  #storeLogSums(softmax: Softmax): void {
    const place = this.#output(1);
    if (place === null) return;
    this.#blocks.storeNumbers(place, {
      index: (row) => this.#partRow(add(mul(this.#values.head, this.#length), this.#row0, row)),
      isThere: (row) => this.#isThere(row),
    }, (row) => softmax.logSum(row));
  }

  /** The number of a row among those of all parts. */
  #partRow(row: E): E {
    const { count, own } = this.#parts;
    return count === 1 ? row : add(mul(row, this.#values.size(count)), own);
  }

  /** A buffer that is stored: of parts, behind the kernel's outputs. */
  #output(output: number): Place | null {
    return this.#parts.count === 1 ? this.#values.output(output) : partPlace(this.#kernel, output);
  }

  #queryGradient(): void {
    const { query, key, value, gradient } = this.#operands, blocks = this.#blocks;
    blocks.keep([query, gradient], this.#row0, this.#scale);
    const sums = blocks.sums(query.features);
    const logs = blocks.numbers(this.#logSums!, this.#row0, INFINITY);
    const apart = blocks.numbers(this.#products!, this.#row0, float(0));
    const keys = this.#range.ofRows(this.#row0);
    blocks.walk({ walked: [key, value], numbers: [], ...keys }, (turn) => {
      const [scores, ofWeights] = this.#scores(turn), factor = this.#open(scores, turn);
      change(blocks, scores, (score, row, run, k) => {
        const weight = this.#weight(score, factor, logs[row]!);
        const own = valueAt(ofWeights, ofWeights.at(row, run, k));
        const gradient = this.#kernel.dropout
          ? fmul(own, this.#kept(row, this.#column(turn, scores, run, k)))
          : own;
        return fmul(weight, fsub(gradient, apart[row]!));
      });
      turn.add([{ sums, weights: scores, walked: 0 }]);
    });
    this.#store(0, sums, query.features, () => this.#scale);
  }

  /** The scores, and the gradients of their weights. */
  #scores(turn: Turn): [scores: Grid, ofWeights: Grid] {
    return turn.scores([{ kept: 0, walked: 0 }, { kept: 1, walked: 1 }]) as [Grid, Grid];
  }

  /** @param ofQueries Whether the gradients of queries are added up as well. */
  #keyGradient(ofQueries: boolean): void {
    const { query, key, value, gradient } = this.#operands, blocks = this.#blocks, { p } = blocks;
    blocks.keep([key, value], this.#row0, this.#scale);
    const keySums = this.#values.output(1) && blocks.sums(key.features);
    const valueSums = this.#values.output(2) && blocks.sums(value.features);
    const queries = ofQueries ? this.#queryRows() : null, { columns } = blocks;
    // Queries before the first key of the group see none of its keys.
    const from = this.#kernel.isCausal ? sub(this.#row0, mod(this.#row0, columns)) : int(0);
    const numbers = [this.#logSums!, this.#products!];
    const walk = { walked: [query, gradient], numbers, from: p.let(from), to: query.length };
    blocks.walk(walk, (turn) => {
      const [scores, ofWeights] = this.#scores(turn), factor = this.#open(scores, turn);
      eachColumn(blocks, scores, (row, at, run, k) => {
        const [logSum, apart] = [0, 1].map((which) => turn.number(which, run, k)) as [E, E];
        const weight = p.let(this.#weight(valueAt(scores, at), factor, logSum));
        const kept = this.#kernel.dropout
          ? p.let(this.#kept(row, this.#column(turn, scores, run, k)))
          : null;
        const times = (a: E): E => kept === null ? a : fmul(a, kept);
        const own = ofWeights.at(row, run, k), gradient = times(valueAt(ofWeights, own));
        p.store(scores.place, at, times(weight));
        p.store(ofWeights.place, own, fmul(weight, fsub(gradient, apart)));
      });
      turn.add([
        ...valueSums ? [{ sums: valueSums, weights: scores, walked: 1 }] : [],
        ...keySums ? [{ sums: keySums, weights: ofWeights, walked: 0 }] : [],
      ]);
      queries?.(turn, ofWeights);
    });
    if (keySums) this.#store(1, keySums, key.features, () => this.#scale);
    if (valueSums) this.#store(2, valueSums, value.features, () => null);
  }

  /** Adds the gradients of queries of a block of keys where they are stored. */
  #queryRows(): (turn: Turn, ofScores: Grid) => void {
    const { key, query } = this.#operands, place = this.#values.output(0)!;
    const index = (row: E): E =>
      this.#values.resultIndex(row, query.features, query.length, int(0));
    return this.#blocks.rowSums!({
      place,
      index,
      operand: key,
      row0: this.#row0,
      scale: this.#scale,
    });
  }

  #column(turn: Turn, grid: Grid, run: E, k: number): E {
    return add(turn.first, grid.column(run, k));
  }

  /** The factor of a weight of a row and a column. */
  #kept(row: number, column: E): E {
    const { lanes: width } = this.#blocks, own = firstLane(this.#row(row));
    const step = this.#rowsAreKeys ? int(1) : this.#values.keys;
    const lanes = width > 1 ? { width, step } : undefined;
    const [query, key] = this.#rowsAreKeys ? [column, own] : [own, column];
    return this.#values.kept(query, key, lanes);
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
    const { mask, scale, filled } = this.#kernel, blocks = this.#blocks;
    const { isFast, isScaled } = blocks, unit = isFast ? Math.LOG2E : 1, cap = filled?.cap ?? null;
    const factor = isScaled ? null : this.#values.number(scale * unit);
    const scaled = (score: E): E => factor === null ? score : fmul(score, factor);
    if (cap !== null) {
      const [inner, outer] = [(isScaled ? 1 : scale) / cap, cap * unit].map((n) =>
        this.#values.number(n)
      ) as [E, E];
      const capped = (score: E): E =>
        fmul(outer, primitive("tanh", [fmul(score, inner)], "float32"));
      this.#closeUnless(scores, turn, true, capped);
      return null;
    }
    if (mask !== null) {
      this.#closeMasked(scores, turn, scaled);
      return null;
    }
    if (!(scale > 0) && factor !== null) {
      this.#closeUnless(scores, turn, true, scaled);
      return null;
    }
    // Most blocks have neither the last key nor the diagonal in them. Keys that are rows are not stored behind
    // the last; what queries that are not there make is 0.
    const { first } = turn, { firstRow, lastRow, isExact } = blocks;
    const [top, bottom] = [firstRow, lastRow].map((row) => add(this.#row0, row)) as [E, E];
    const edges = !this.#rowsAreKeys
      ? this.#range.edges(first, top, bottom, isExact)
      : this.#kernel.isCausal
      ? [lt(first, bottom)]
      : [];
    if (edges.length === 0) return factor;
    blocks.p.when(edges.reduce(or), () => this.#closeUnless(scores, turn, false, (score) => score));
    return factor;
  }

  /** Closes scores by a mask in memory, and adds what that has. */
  #closeMasked(scores: Grid, turn: Turn, scaled: (score: E) => E): void {
    const { p, isFast } = this.#blocks, masks = this.#mask!, { kind } = this.#kernel.mask!;
    this.#blocks.each(scores, (at, row, run, k) => {
      const [query, key] = this.#pair(add(this.#row0, row), this.#column(turn, scores, run, k));
      const score = scaled(held(scores.place, at, "float"));
      const masked = kind === "bool"
        ? select(masks.raw(query, key), score, NONE)
        : isFast
        ? fma(masks.element(query, key), float(Math.LOG2E), score)
        : fadd(score, masks.element(query, key));
      p.store(scores.place, at, select(this.#isOpen(query, key, true), masked, NONE));
    });
  }

  #pair(row: E, column: E): readonly [query: E, key: E] {
    return this.#rowsAreKeys ? [column, row] : [row, column];
  }

  /** True where a query sees a key. */
  #isOpen(query: E, key: E, isMasked: boolean): E {
    const isThere = !isMasked && (this.#rowsAreKeys || this.#blocks.isExact);
    return all([
      isMasked ? lt(query, this.#values.queries) : truth(true),
      this.#range.sees(query, key, isThere),
    ]);
  }

  /** Gives each score that a query sees what `to` makes of it. */
  #closeUnless(scores: Grid, turn: Turn, isMasked: boolean, to: (score: E) => E): void {
    change(this.#blocks, scores, (score, row, run, k) => {
      const [query, key] = this.#pair(this.#row(row), this.#column(turn, scores, run, k));
      return select(this.#isOpen(query, key, isMasked), to(score), NONE);
    });
  }

  #store(output: number, sums: Grid, columns: number, factor: (row: number) => E | null): void {
    const place = this.#output(output), values = this.#values;
    if (place === null) return;
    this.#blocks.store(place, sums, columns, {
      index: (row) => {
        const own = add(this.#row0, row);
        return this.#parts.count === 1
          ? values.resultIndex(own, columns, this.#length, int(0))
          : mul(this.#partRow(add(mul(values.head, this.#length), own)), columns);
      },
      isThere: (row) => this.#isThere(row),
      factor,
    });
  }
}
