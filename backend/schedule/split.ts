/**
 * Splits a reduction with few rows in two kernels: the first reduces parts of each row, so that the
 * whole device has work, the second joins the parts and does what followed the reduction.
 */
import { type AffineExpr, linearize, symbol, zero } from "../kernel/affine.ts";
import type { DType } from "../graph/dtype.ts";
import { isArgReduction } from "../graph/reductions.ts";
import { type Expr, followsReduction, innerLevels, type LoopKernel } from "../kernel/kernel.ts";
import { usesInner } from "../codegen/rows.ts";
import { sizeOf, stridesOf } from "../graph/shape.ts";

/** The two halves, and what lies between them. */
export interface SplitReduction {
  readonly partial: LoopKernel;
  readonly final: LoopKernel;
  /** The partial results: inputs of `final` behind the original ones. */
  readonly between: readonly { readonly dtype: DType; readonly size: number }[];
}

/** True when a kernel's rows can be reduced in parts. */
export function canSplit(kernel: LoopKernel): boolean {
  if (kernel.contraction || kernel.chunk || kernel.reductions.length === 0) return false;
  if (kernel.reductions.some((r) => isArgReduction(r.fn))) return false;
  const follows = followsReduction(kernel);
  if (kernel.reductions.some((r) => follows[r.expr])) return false;
  const levels = innerLevels(kernel);
  return kernel.outputs.every((o, k) => !levels[o.expr] && !usesInner(kernel, k));
}

/**
 * The two kernels for `parts` parts a row; call only where {@linkcode canSplit} says yes.
 *
 * @param kernel What is split.
 * @param parts Into how many.
 * @param sideBySide Whether neighbouring rows, not parts, are neighbours: where rows lie side by side.
 */
export function splitReduction(
  kernel: LoopKernel,
  parts: number,
  sideBySide = false,
): SplitReduction {
  const cut = cutOf(kernel, parts, sideBySide);
  const between = kernel.reductions.map((r) => ({ dtype: storedType(r.dtype), size: cut.size }));
  return {
    partial: partialOf(kernel, cut, between),
    final: finalOf(kernel, cut, between),
    between,
  };
}

/** How a kernel's rows are cut in parts. */
interface Cut {
  /** The loop that is cut, and how much of it is a part. */
  readonly symbol: number;
  readonly length: number;
  /** The loop over parts. */
  readonly part: number;
  readonly sizes: readonly number[];
  /** Where a part's result lies, and how many there are. */
  readonly slot: AffineExpr;
  readonly size: number;
  /** The loops over parts and rows. */
  readonly outer: readonly number[];
}

function cutOf({ sizes, outer, inner }: LoopKernel, parts: number, sideBySide: boolean): Cut {
  const longest = inner.reduce((a, b) => sizes[b]! > sizes[a]! ? b : a);
  // Parts of an outer loop walk whole lines of the loops within it.
  const symbolOf = inner.find((s) => sizes[s]! >= parts) ?? longest;
  const length = wholeLines(Math.ceil(sizes[symbolOf]! / parts));
  const count = Math.ceil(sizes[symbolOf]! / length);
  const rowSizes = outer.map((s) => sizes[s]!);
  const rows = linearize(outer.map(symbol), stridesOf(rowSizes));
  const part = sizes.length, rowCount = sizeOf(rowSizes);
  return {
    symbol: symbolOf,
    length,
    part,
    sizes: [...sizes, count],
    slot: linearize([rows, symbol(part)], sideBySide ? [1, rowCount] : [count, 1]),
    size: rowCount * count,
    outer: sideBySide ? [part, ...outer] : [...outer, part],
  };
}

function partialOf(
  kernel: LoopKernel,
  { symbol, length, part, sizes, slot, size, outer }: Cut,
  between: SplitReduction["between"],
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
    outputs: between.map(({ dtype }, k) => ({ expr: first + k, dtype, form: slot, size })),
    chunk: { symbol, part, length },
    label: `${kernel.label}_part`,
  };
}

function finalOf(
  kernel: LoopKernel,
  { part, sizes, slot }: Cut,
  between: SplitReduction["between"],
): LoopKernel {
  const input = kernel.inputs.length, load = kernel.loads.length, shift = between.length;
  const loads = between.map(({ dtype }, k) => ({
    input: input + k,
    dtype,
    form: slot,
    bounds: [],
  }));
  return {
    ...kernel,
    sizes,
    inner: [part],
    inputs: [...kernel.inputs, ...between.map((b) => b.dtype)],
    loads: [...kernel.loads, ...loads],
    exprs: [
      ...between.map(({ dtype }, k): Expr => ({ op: "load", load: load + k, dtype })),
      ...kernel.exprs.map((e): Expr =>
        e.op === "primitive" || e.op === "cast" ? { ...e, args: e.args.map((a) => a + shift) } : e
      ),
    ],
    indirect: kernel.indirect.map((d) => ({ ...d, expr: d.expr + shift })),
    reductions: kernel.reductions.map((r, k) => ({ ...r, expr: k, index: zero })),
    outputs: kernel.outputs.map((o) => ({ ...o, expr: o.expr + shift })),
    label: `${kernel.label}_join`,
  };
}

/** Long parts begin where lines of a cache begin: a vector that lies in two of them takes two loads. */
function wholeLines(length: number): number {
  return length < 1024 ? length : Math.ceil(length / 64) * 64;
}

/** Partial results of half types are kept in float32. */
function storedType(dtype: DType): DType {
  return dtype === "float16" || dtype === "bfloat16" ? "float32" : dtype;
}
