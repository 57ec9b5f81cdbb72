/** The plain evaluator of attention: a row of scores at a time, as the formula says. */
import type { DType, TypedArray } from "../../graph/dtype.ts";
import {
  type AttentionKernel,
  type HeadMatrix,
  headsOf,
  startOfHead,
} from "../../kernel/attention.ts";
import { philox } from "../../graph/scalar.ts";
import { ZERO_BYTE } from "../../graph/attention.ts";
import { readElement, writeElement } from "./elements.ts";

type Reader = (head: number, row: number, column: number) => number;

/** Computes the outputs from the inputs. */
export function runAttention(
  kernel: AttentionKernel,
  inputs: readonly TypedArray[],
  outputs: readonly TypedArray[],
): void {
  const read = (at: HeadMatrix): Reader => readerOf(kernel.lead, at, inputs[at.input]!);
  const rows = new Rows(kernel, read);
  const results = new Map(kernel.stored.map((output, k) => [output, {
    values: new Float64Array(kernel.outputs[k]!.size),
    into: outputs[k]!,
    dtype: kernel.outputs[k]!.dtype,
  }]));
  const add = (output: number, at: number, value: number): void => {
    const result = results.get(output);
    if (result) result.values[at]! += value;
  };
  const runRow = kernel.backward ? backwardRow : forwardRow;
  for (let head = 0; head < headsOf(kernel); head++) {
    for (let i = 0; i < kernel.queries; i++) runRow({ kernel, rows, read, add }, head, i);
  }
  for (const { values, into, dtype } of results.values()) store(values, into, dtype);
}

function store(values: Float64Array, into: TypedArray, dtype: DType): void {
  values.forEach((value, k) => writeElement(into, dtype, k, value));
}

function readerOf(lead: readonly number[], at: HeadMatrix, array: TypedArray): Reader {
  return (head, row, column) => {
    const place = startOfHead(lead, at, head) + row * at.row + column * at.column;
    return Number(readElement(array, at.dtype, place));
  };
}

/** A reader of rows of bytes with a scale each. */
const scaled = (bytes: Reader, scale: Reader): Reader => (head, row, column) =>
  (bytes(head, row, column) - ZERO_BYTE) * scale(head, row, 0);

/** The scores of a query, and which of its weights are kept. */
class Rows {
  readonly #kernel: AttentionKernel;
  readonly #query: Reader;
  readonly #key: Reader;
  readonly #mask: Reader | null;
  readonly #filled: Reader | null;

  constructor(kernel: AttentionKernel, read: (at: HeadMatrix) => Reader) {
    this.#kernel = kernel;
    this.#query = read(kernel.query);
    const scales = kernel.filled?.scales;
    this.#key = scales ? scaled(read(kernel.key), read(scales.key)) : read(kernel.key);
    this.#mask = kernel.mask && read(kernel.mask.at);
    this.#filled = kernel.filled && read(kernel.filled.at);
  }

  scores(head: number, i: number): number[] {
    const { keys, features, scale, mask, filled } = this.#kernel;
    const [first, end] = this.#seen(head, i);
    return Array.from({ length: keys }, (_, j) => {
      if (j < first || j >= end) return -Infinity;
      const masked = this.#mask?.(head, i, j) ?? 0;
      if (mask?.kind === "bool" && masked === 0) return -Infinity;
      let sum = 0;
      for (let e = 0; e < features; e++) sum += this.#query(head, i, e) * this.#key(head, j, e);
      if (filled && filled.cap !== null) return filled.cap * Math.tanh(sum * scale / filled.cap);
      return sum * scale + (mask?.kind === "added" ? masked : 0);
    });
  }

  /** The keys that a query may look at, from the first to before the end. */
  #seen(head: number, i: number): [first: number, end: number] {
    const { keys, queries, isCausal, filled } = this.#kernel;
    if (filled === null) return [0, isCausal ? i + 1 : keys];
    const last = this.#filled!(head, 0, 0);
    const end = isCausal ? last - queries + 1 + i : last;
    return [filled.window === null ? 0 : end - filled.window, end];
  }

  /** Factor of a weight: 0 where it is dropped. */
  kept(head: number, i: number, j: number): number {
    const { dropout, queries, keys } = this.#kernel;
    if (dropout === null) return 1;
    const { probability, seed, stream } = dropout;
    const drawn = philox((head * queries + i) * keys + j, seed, stream.value);
    return drawn >= Math.fround(probability) ? 1 / (1 - probability) : 0;
  }
}

interface Evaluator {
  readonly kernel: AttentionKernel;
  readonly rows: Rows;
  readonly read: (at: HeadMatrix) => Reader;
  /** Adds to an element of an output. */
  readonly add: (output: number, at: number, value: number) => void;
}

function forwardRow({ kernel, rows, read, add }: Evaluator, head: number, i: number): void {
  const { queries, valueFeatures } = kernel;
  const scales = kernel.filled?.scales, row = head * queries + i;
  const value = scales ? scaled(read(kernel.value), read(scales.value)) : read(kernel.value);
  const scores = rows.scores(head, i);
  const largest = scores.reduce((a, b) => Math.max(a, b), -Infinity);
  if (largest === -Infinity) return add(1, row, Infinity);
  const exponentials = scores.map((score) => Math.exp(score - largest));
  const sum = exponentials.reduce((a, b) => a + b, 0);
  add(1, row, largest + Math.log(sum));
  exponentials.forEach((exponential, j) => {
    const weight = exponential / sum * rows.kept(head, i, j);
    for (let v = 0; v < valueFeatures; v++) {
      const at = row * valueFeatures + v, part = weight * value(head, j, v);
      add(0, at, part);
      add(2, at, part);
    }
  });
}

function backwardRow({ kernel, rows, read, add }: Evaluator, head: number, i: number): void {
  const { queries, keys, features, valueFeatures, scale, backward } = kernel;
  const [query, key, value] = [read(kernel.query), read(kernel.key), read(kernel.value)];
  const gradient = read(backward!.gradient);
  const logSum = read(backward!.logSums)(head, i, 0);
  const product = read(backward!.products)(head, i, 0);
  const row = head * queries + i;
  if (logSum === Infinity) return;
  rows.scores(head, i).forEach((score, j) => {
    if (score === -Infinity) return;
    const weight = Math.exp(score - logSum), kept = rows.kept(head, i, j);
    let ofWeight = 0;
    for (let v = 0; v < valueFeatures; v++) {
      ofWeight += gradient(head, i, v) * value(head, j, v);
      add(2, (head * keys + j) * valueFeatures + v, weight * kept * gradient(head, i, v));
    }
    const ofScore = weight * (ofWeight * kept - product) * scale;
    for (let e = 0; e < features; e++) {
      add(0, row * features + e, ofScore * key(head, j, e));
      add(1, (head * keys + j) * features + e, ofScore * query(head, i, e));
    }
  });
}
