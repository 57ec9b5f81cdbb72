/**
 * Analysis of kernels before scheduling or writing: which expressions read which, what varies
 * with which loop, in which order reductions can run. Every mapping and every writer asks here.
 */
import { blockBytes } from "../formats/block_format.ts";
import { formatTable } from "../formats/block_formats.ts";
import { type DType, dtypes, isFloat } from "../graph/dtype.ts";
import type { AffineExpr } from "./affine.ts";
import { type Expr, extent, type Load, type LoopKernel } from "./kernel.ts";

/** A kernel, or the pieces that it is made of. */
type Body = Pick<LoopKernel, "loads" | "indirect">;

/** The affine expressions by which an expression reads memory or loop indices. */
export function affineExprsOf({ loads }: Pick<LoopKernel, "loads">, e: Expr): AffineExpr[] {
  switch (e.op) {
    case "load": {
      const { index, bounds } = loads[e.load]!;
      return [index, ...bounds.map((bound) => bound.index)];
    }
    case "index":
    case "random":
      return [e.index];
    case "inside":
      return e.bounds.map((bound) => bound.index);
    default:
      return [];
  }
}

/** Reads of an expression: its operands, or those behind its indirect indices. */
export function operandsOf(kernel: Body, e: Expr): readonly number[] {
  if (e.op === "primitive" || e.op === "cast") return e.args;
  const { indirect } = kernel;
  if (indirect.length === 0) return [];
  return affineExprsOf(kernel, e).flatMap(({ terms }) =>
    terms.flatMap(([s]) => indirect.find(({ symbol }) => symbol === s)?.expr ?? [])
  );
}

/**
 * For each expression, whether it changes with one of the loops over `symbols`, which are all outer or all
 * inner ones. The result of a reduction, or of a contraction, does not change with the loops it joined.
 */
export function variesWith(kernel: LoopKernel, symbols: readonly number[]): boolean[] {
  const moving = new Set(symbols);
  const isOuter = kernel.outer.some((s) => moving.has(s));
  const varies: boolean[] = [];
  for (const e of kernel.exprs) {
    if (e.op === "reduced") varies.push(isOuter && varies[kernel.reductions[e.reduction]!.expr]!);
    else if (e.op === "contracted") varies.push(isOuter);
    else {
      const moves = affineExprsOf(kernel, e).some(({ terms }) =>
        terms.some(([s]) => moving.has(s))
      );
      varies.push(moves || operandsOf(kernel, e).some((id) => varies[id]!));
    }
  }
  return varies;
}

/** For each expression, whether it is made of constants alone. */
export function fixedExprs({ exprs }: LoopKernel): boolean[] {
  const fixed: boolean[] = [];
  for (const e of exprs) {
    if ("args" in e) fixed.push(e.args.every((a) => fixed[a]!));
    else if (e.op === "index") fixed.push(e.index.terms.length === 0);
    else fixed.push(e.op === "constant");
  }
  return fixed;
}

/** For each expression, whether the result of a reduction is in it. */
export function followsReduction(kernel: LoopKernel): boolean[] {
  const follows: boolean[] = [];
  for (const e of kernel.exprs) {
    follows.push(e.op === "reduced" || "args" in e && e.args.some((a) => follows[a]!));
  }
  return follows;
}

/**
 * Differences of a product and a number that several elements share, such as the largest of a row. A
 * compiler that joins the product and the difference in one instruction takes the product unrounded, where
 * the number was made of rounded ones: 0 becomes the rounding error of the product, and its exponential
 * may be infinite.
 */
export function shiftedProducts(kernel: LoopKernel): ReadonlySet<number> {
  const { exprs, outer, inner } = kernel, isProduct: boolean[] = [];
  const candidates: [id: number, product: number, shift: number][] = [];
  exprs.forEach((e, id) => {
    if (e.op !== "primitive" || !isFloat(e.dtype)) return;
    const [a, b] = e.args as [number, number];
    isProduct[id] = e.fn === "mul" ||
      (e.fn === "neg" || e.fn === "where") && e.args.some((x) => isProduct[x]);
    if (e.fn === "sub" && isProduct[a] && exprs[b]!.op !== "constant") candidates.push([id, a, b]);
  });
  if (candidates.length === 0) return new Set();
  const loops = [...outer, ...inner].map((symbol) => variesWith(kernel, [symbol]));
  const isShared = ([, product, shift]: readonly number[]): boolean =>
    loops.some((varies) => varies[product!] && !varies[shift!]);
  return new Set(candidates.filter(isShared).map(([id]) => id));
}

/**
 * The expressions that the given ones are made of, themselves included, in the order of the kernel.
 *
 * @param known Expressions whose values are there: what they are made of is not needed for them.
 */
export function neededBy(
  kernel: LoopKernel,
  ids: readonly number[],
  known: ReadonlySet<number> = new Set(),
): number[] {
  const seen = new Set<number>(), stack = [...ids];
  for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
    if (seen.has(id)) continue;
    seen.add(id);
    if (!known.has(id)) stack.push(...operandsOf(kernel, kernel.exprs[id]!));
  }
  return [...seen].sort((a, b) => a - b);
}

/** Reductions by stage: those of a stage share a loop, later ones may use the results of earlier ones. */
export function reductionStages(kernel: LoopKernel): number[][] {
  const depths: number[] = [];
  const depthOf = (id: number): number => {
    if (depths[id] !== undefined) return depths[id]!;
    const e = kernel.exprs[id]!;
    let depth = e.op === "reduced" ? depthOf(kernel.reductions[e.reduction]!.expr) + 1 : 0;
    for (const operand of operandsOf(kernel, e)) depth = Math.max(depth, depthOf(operand));
    return depths[id] = depth;
  };
  const stages: number[][] = [];
  kernel.reductions.forEach(({ expr }, r) => (stages[depthOf(expr)] ??= []).push(r));
  return stages;
}

/** True when an output is stored per element of the inner loops, whatever its value depends on. */
export function usesInner(kernel: LoopKernel, output: number): boolean {
  return kernel.outputs[output]!.index.terms.some(([s]) => kernel.inner.includes(s));
}

/** Bytes of an element as it lies in memory. */
function bytesOfElement({ dtype, packed }: Load): number {
  if (packed === undefined) return dtypes[dtype].bytes;
  const format = formatTable[packed.format];
  return blockBytes(format) / format.elements;
}

/** Bytes of results. */
export function bytesWritten(
  outputs: readonly { readonly size: number; readonly dtype: DType }[],
): number {
  return outputs.reduce((sum, { size, dtype }) => sum + size * dtypes[dtype].bytes, 0);
}

/**
 * Bytes that a kernel must move: each element that it reads once, and its results. Of rows that an index picks
 * it reads no more than it has places for.
 */
export function bytesMoved(kernel: LoopKernel): number {
  const { contraction, outer, inner, sizes } = kernel;
  const loads = contraction ? [...kernel.loads, contraction.a, contraction.b] : kernel.loads;
  const reads = extent(kernel, [...outer, ...inner]);
  const read = loads.map((load) => {
    const reach = load.index.terms.reduce((product, [s]) => product * sizes[s]!, 1);
    return Math.min(reach, reads) * bytesOfElement(load);
  });
  return read.reduce((sum, bytes) => sum + bytes, bytesWritten(kernel.outputs));
}
