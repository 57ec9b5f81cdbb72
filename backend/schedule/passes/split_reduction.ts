/**
 * Splits a reduction with few rows in two kernels: the first reduces parts of each row, so that the
 * whole device has work, and stores outputs of elements; the second joins the parts and does what
 * followed the reduction. Of an arg-reduction a part keeps its best value and where that is; the join
 * takes the first position among the parts that have the best value of all.
 */
import { type AffineExpr, linearize, symbol, zero } from "../../kernel/affine.ts";
import { type DType, dtypes, isFloat } from "../../graph/dtype.ts";
import { followsReduction, usesInner, variesWith } from "../../kernel/analysis.ts";
import {
  accumulatorType,
  type Expr,
  extent,
  type LoopKernel,
  type Reduction,
} from "../../kernel/kernel.ts";
import { type ArgReduceFn, isArgReduction, prefersLarger } from "../../graph/reductions.ts";
import { reducesInGroups } from "../../kernel/row_order.ts";
import type { RowSplit, RowSplits, Target } from "../../kernel/target.ts";
import { sizeOf, stridesOf } from "../../graph/shape.ts";
import { type KernelPair, type Pass, splitKernels } from "./kernel_graph.ts";
import { withLeading } from "../../kernel/forms/summed_products.ts";

/** The pass: rows that are too few for the device are reduced in parts. */
export const splitReductions: Pass = (graph, { target }) =>
  target.rowSplits === null
    ? graph
    : splitKernels(graph, (kernel) => splitReduction(kernel, target));

/** The two kernels of a reduction; null where its rows are enough, or cannot be reduced in parts. */
function splitReduction(kernel: LoopKernel, { rowSplits }: Target): KernelPair | null {
  if (rowSplits === null || kernel.inner.length === 0 || !canSplit(kernel)) return null;
  const parts = partsOf(kernel, rowSplits);
  return parts > 1 ? inParts(kernel, parts, ruleOf(kernel, rowSplits).isSideBySide) : null;
}

/** True where rows leave so much of a device idle that what keeps them from being cut should be elsewhere. */
export function leavesIdle(kernel: LoopKernel, { rowSplits }: Target): boolean {
  if (rowSplits === null || kernel.reductions.length === 0 || canSplit(kernel)) return false;
  return partsOf(kernel, rowSplits) >= rowSplits.minParts;
}

function ruleOf(kernel: LoopKernel, { byGroup, byItem }: RowSplits): RowSplit {
  return byGroup !== null && reducesInGroups(kernel) ? byGroup : byItem;
}

/** In how many parts a row is reduced, so that the device has enough rows. */
function partsOf(kernel: LoopKernel, rowSplits: RowSplits): number {
  const { enoughRows, parts, shortest } = ruleOf(kernel, rowSplits);
  const rows = extent(kernel, kernel.outer), length = extent(kernel, kernel.inner);
  if (rows >= enoughRows || rows * length < rowSplits.minElements) return 1;
  return Math.min(Math.ceil(parts / rows), Math.floor(length / shortest));
}

/** True when a kernel's rows can be reduced in parts. */
export function canSplit(kernel: LoopKernel): boolean {
  const { reductions, contraction, chunk, inner, outputs } = kernel;
  if (contraction || chunk || reductions.length === 0) return false;
  const follows = followsReduction(kernel);
  if (reductions.some((r) => follows[r.expr])) return false;
  const varies = variesWith(kernel, inner);
  return outputs.some((_, o) => !usesInner(kernel, o)) &&
    outputs.every(({ expr }, o) => usesInner(kernel, o) ? !follows[expr] : !varies[expr]);
}

/** Parts of a kernel's rows. */
interface RowParts {
  /** The loop that is cut, and how much of it is a part. */
  readonly symbol: number;
  readonly length: number;
  /** The loop over parts. */
  readonly part: number;
  readonly sizes: readonly number[];
  /** Position of a part's result, and number of parts. */
  readonly place: AffineExpr;
  readonly count: number;
  /** The loops over parts and rows. */
  readonly outer: readonly number[];
}

type ArgReduction = Reduction & { readonly fn: ArgReduceFn };

function argReductions({ reductions }: LoopKernel): ArgReduction[] {
  return reductions.filter((r): r is ArgReduction => isArgReduction(r.fn));
}

/** The reductions that give the values whose positions arg-reductions give, in their order. */
function bestValues(kernel: LoopKernel): Reduction[] {
  return argReductions(kernel).map((r) => ({
    ...r,
    fn: prefersLarger(r.fn) ? "max" : "min",
    dtype: accumulatorType(kernel, r),
    index: zero,
  }));
}

/** @param isSideBySide Whether neighbouring rows, not parts, are neighbours: where rows lie side by side. */
function inParts(kernel: LoopKernel, parts: number, isSideBySide: boolean): KernelPair {
  const cut = rowParts(kernel, parts, isSideBySide);
  const reductions = [...kernel.reductions, ...bestValues(kernel)];
  const types = reductions.map(({ dtype }) => storedType(dtype));
  const all = kernel.outputs.map((_, o) => o), each = all.filter((o) => usesInner(kernel, o));
  const joined = all.filter((o) => !each.includes(o));
  return {
    partial: partialOf({ ...kernel, reductions }, cut, types, each),
    stored: each,
    final: finalOf(kernel, cut, types, joined),
  };
}

function rowParts({ sizes, outer, inner }: LoopKernel, parts: number, isSideBySide: boolean) {
  const longest = inner.reduce((a, b) => sizes[b]! > sizes[a]! ? b : a);
  // Parts of an outer loop walk whole lines of the loops within it.
  const cut = inner.find((s) => sizes[s]! >= parts) ?? longest;
  const length = wholeLines(Math.ceil(sizes[cut]! / parts));
  const count = Math.ceil(sizes[cut]! / length);
  const rowSizes = outer.map((s) => sizes[s]!);
  const rows = linearize(outer.map(symbol), stridesOf(rowSizes));
  const part = sizes.length, rowCount = sizeOf(rowSizes);
  return {
    symbol: cut,
    length,
    part,
    sizes: [...sizes, count],
    place: linearize([rows, symbol(part)], isSideBySide ? [1, rowCount] : [count, 1]),
    count: rowCount * count,
    outer: isSideBySide ? [part, ...outer] : [...outer, part],
  } satisfies RowParts;
}

function partialOf(
  kernel: LoopKernel,
  { symbol, length, part, sizes, place, count, outer }: RowParts,
  types: readonly DType[],
  stored: readonly number[],
): LoopKernel {
  const reduced = kernel.reductions.map((r, reduction): Expr => ({
    op: "reduced",
    reduction,
    dtype: r.dtype,
  }));
  const first = kernel.exprs.length;
  return {
    ...kernel,
    sizes,
    outer,
    exprs: [...kernel.exprs, ...reduced],
    outputs: [
      ...types.map((dtype, k) => ({ expr: first + k, dtype, index: place, size: count })),
      ...stored.map((o) => kernel.outputs[o]!),
    ],
    chunk: { symbol, part, length },
    label: `${kernel.label}_part`,
  };
}

function finalOf(
  kernel: LoopKernel,
  { part, sizes, place }: RowParts,
  types: readonly DType[],
  joined: readonly number[],
): LoopKernel {
  const input = kernel.inputs.length, load = kernel.loads.length;
  const loads = types.map((dtype, k) => ({ input: input + k, dtype, index: place, bounds: [] }));
  const exprs = types.map((dtype, k): Expr => ({ op: "load", load: load + k, dtype }));
  const reductions = joinedReductions(kernel, types, exprs);
  const later = withLeading(kernel, exprs);
  return {
    ...later,
    sizes,
    inner: [part],
    inputs: [...kernel.inputs, ...types],
    loads: [...kernel.loads, ...loads],
    reductions,
    outputs: joined.map((o) => later.outputs[o]!),
    label: `${kernel.label}_join`,
  };
}

/**
 * The reductions that join the results of parts, and, behind them, the best values of arg-reductions.
 *
 * @param exprs The loads of the parts' results, to which is added what arg-reductions compare.
 */
function joinedReductions(
  { reductions }: LoopKernel,
  types: readonly DType[],
  exprs: Expr[],
): Reduction[] {
  const best: Reduction[] = [];
  const joined = reductions.map((r, k): Reduction => {
    if (!isArgReduction(r.fn)) return { ...r, expr: k, index: zero };
    const value = reductions.length + best.length;
    best.push({
      fn: prefersLarger(r.fn) ? "max" : "min",
      dtype: types[value]!,
      expr: value,
      index: zero,
    });
    const expr = firstPosition(exprs, { value, position: k, dtype: r.dtype });
    return { fn: "min", dtype: r.dtype, expr, index: zero };
  });
  return [...joined, ...best];
}

/**
 * Adds the position that a part offers: its own where it has the best value of all, else one behind all
 * others. The best value is that of the reduction of the same number; it is NaN where a part's is NaN.
 */
function firstPosition(
  exprs: Expr[],
  { value, position, dtype }: { value: number; position: number; dtype: DType },
): number {
  const add = (e: Expr): number => exprs.push(e) - 1;
  const of = exprs[value]!.dtype;
  const test = (fn: "eq" | "ne" | "or", a: number, b: number): number =>
    add({ op: "primitive", fn, args: [a, b], dtype: "bool" });
  const best = add({ op: "reduced", reduction: value, dtype: of });
  const isEqual = test("eq", value, best);
  const isBest = isFloat(of) ? test("or", isEqual, test("ne", value, value)) : isEqual;
  const behind = add({
    op: "constant",
    value: Math.min(Number(dtypes[dtype].highest), Number.MAX_SAFE_INTEGER),
    dtype,
  });
  return add({ op: "primitive", fn: "where", args: [isBest, position, behind], dtype });
}

/** Long parts begin where lines of a cache begin: a vector that lies in two of them takes two loads. */
const wholeLines = (length: number): number => length < 1024 ? length : Math.ceil(length / 64) * 64;

/** Partial results of half types are kept in float32. */
function storedType(dtype: DType): DType {
  return dtype === "float16" || dtype === "bfloat16" ? "float32" : dtype;
}
