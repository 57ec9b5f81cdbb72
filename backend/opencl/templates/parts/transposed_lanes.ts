/**
 * An operand whose rows become the lanes of vectors: the weights of a convolution, whose channels
 * lie apart. They are transposed, square by square, into local memory, where each term of the sum finds
 * a vector.
 */
import { type AffineExpr, coefficient } from "../../../kernel/affine.ts";
import type { Dialect, Emitter } from "../../../codegen/emit.ts";
import { openLoop } from "../../../codegen/loops.ts";
import { extent, type Load, type LoopKernel } from "../../../kernel/kernel.ts";
import { LANES } from "../../codegen/vectors/vector_types.ts";
import { step, without } from "./tile_text.ts";

/** Layout of a sum's terms among those transposed. */
export interface TransposedLanes {
  readonly load: Load;
  /** The loop whose elements are lanes. */
  readonly lane: number;
  /** The loops of the sum along which runs of elements repeat. */
  readonly outer: readonly number[];
  /**
   * The elements of a run, from the first that is read to the last; those between may be unused.
   */
  readonly run: number;
  /** Place of a term in a run. */
  readonly within: AffineExpr;
  /** Vectors for all terms. */
  readonly terms: number;
}

/** Transposition of an operand; null: its index does not grow along the lanes. */
export function transposedLanes(
  kernel: LoopKernel,
  load: Load,
  lane: number,
): TransposedLanes | null {
  const { sizes, inner } = kernel;
  const apart = coefficient(load.index, lane);
  if (load.bounds.length > 0 || apart <= 0) return null;
  const near = apart === 1 ? [] : runOf(kernel, load.index);
  const terms = load.index.terms.filter(([s]) => near.includes(s));
  const back = terms.reduce((sum, [s, c]) => sum + Math.min(0, c) * (sizes[s]! - 1), 0);
  const run = terms.reduce((sum, [s, c]) => sum + Math.abs(c) * (sizes[s]! - 1), 1);
  const outer = inner.filter((s) => !near.includes(s));
  const within = { offset: -back, terms };
  return { load, lane, outer, run, within, terms: extent(kernel, outer) * run };
}

/** The loops of a sum that walk a run of elements of which at least half are read. */
function runOf({ sizes, inner }: LoopKernel, index: AffineExpr): number[] {
  const near: number[] = [];
  let run = 1, read = 1;
  const steps = inner.map((s) => [s, Math.abs(coefficient(index, s))] as const);
  for (const [s, c] of steps.toSorted((a, b) => a[1] - b[1])) {
    run += c * (sizes[s]! - 1);
    read *= sizes[s]!;
    if (run > 2 * read && run > LANES) break;
    near.push(s);
  }
  return near;
}

/** Transposed vector that belongs to a term, as text. */
export function transposedTerm(emitter: Emitter, { outer, run, within }: TransposedLanes): string {
  const [first, ...further] = outer, { sizes } = emitter.kernel;
  const inside = [
    ...within.terms.map(([s, c]) => `i${s} * ${c}`),
    ...within.offset === 0 ? [] : [`${within.offset}`],
  ];
  if (first === undefined) return inside.join(" + ") || "0";
  const at = further.reduce((text, s) => `(${text}) * ${sizes[s]} + i${s}`, `i${first}`);
  return [`(${at}) * ${run}`, ...inside].join(" + ");
}

/**
 * Turns the lanes from `first` on into `to`, an expression of the vector that a term's first one
 * has: its further ones follow `apart` vectors on.
 */
export function transposeLanes(
  emitter: Emitter,
  dialect: Dialect,
  transposed: TransposedLanes,
  first: string,
  to: (term: string) => string,
): void {
  const { load, lane, outer, run, within } = transposed;
  emitter.line(`const int top = min(${LANES}, ${emitter.size(lane)} - (${first}));`);
  for (const s of outer) openLoop(emitter, dialect, s);
  const start: AffineExpr = { ...load.index, offset: load.index.offset - within.offset };
  const inside = [lane, ...within.terms.map(([s]) => s)];
  const apart = step(emitter, load.index, lane);
  const from = `a${load.input} + ${without(emitter, start, inside)} + (${first}) * ${apart}`;
  const term = transposedTerm(emitter, { ...transposed, within: { offset: 0, terms: [] } });
  if (apart === "1") emitter.line(`${to(term)} = load_part_float(${from}, top);`);
  else emitSquares(emitter, run, from, apart, (r) => to(`${term} + at + ${r}`));
  for (const _ of outer) emitter.close();
}

/** Turns a run square by square; the last one ends with the run. */
function emitSquares(
  emitter: Emitter,
  run: number,
  from: string,
  apart: string,
  to: (row: number) => string,
): void {
  emitter.open(`for (int k = 0; k < ${run}; k += ${LANES}) {`);
  emitter.line(`const int at = ${run < LANES ? "k" : `min(k, ${run - LANES})`};`);
  emitter.line(`float16 t[${LANES}];`);
  for (let r = 0; r < LANES; r++) {
    const pointer = `${from} + at + min(${r}, top - 1) * ${apart}`;
    const text = run < LANES ? `load_part_float(${pointer}, ${run})` : `vload16(0, ${pointer})`;
    emitter.line(`t[${r}] = ${text};`);
  }
  emitter.line("transpose_16(t);");
  for (let r = 0; r < Math.min(run, LANES); r++) emitter.line(`${to(r)} = t[${r}];`);
  emitter.close();
}
