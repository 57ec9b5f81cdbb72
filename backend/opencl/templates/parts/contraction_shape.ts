/** The forms of contractions: what templates ask about operands, and the shape that a tile is chosen for. */
import { coefficient } from "../../../kernel/affine.ts";
import { dtypes } from "../../../graph/dtype.ts";
import { NARROW_END } from "../../../kernel/index_range.ts";
import { type Contraction, extent, type Load, type LoopKernel } from "../../../kernel/kernel.ts";
import type { Target } from "../../../kernel/target.ts";
import type { Planned, Template } from "./template.ts";
import type { ContractionSize } from "./tiling.ts";

/** Common part of every plan of a contraction. */
export interface ContractionPlan extends Planned<LoopKernel> {
  /** Size for which its tile was chosen, and may be tuned; null: no tile to choose. */
  readonly shape: ContractionSize | null;
}

/** A contraction that a template computes in tiles of its choice. */
export interface TiledPlan<T> extends ContractionPlan {
  readonly shape: ContractionSize;
  readonly tile: T;
}

/** A template of contractions. */
export interface ContractionTemplate<P extends ContractionPlan = ContractionPlan>
  extends Template<LoopKernel, P> {
  /** In how many parts a sum is computed; where it is missing, that follows from the work-items. */
  sumParts?(plan: P): number;
}

/** The loops of a tile of rows: they read `scalar` element by element, its columns `vector` in vectors. */
export interface RowLoops {
  readonly row: number;
  readonly column: number;
  readonly scalar: Load;
  readonly vector: Load;
}

/** The innermost of some loops. */
export const last = (symbols: readonly number[]): number => symbols[symbols.length - 1]!;

/** True where an operand has padding that is not in memory. */
export const isMasked = ({ a, b }: Contraction): boolean => a.bounds.length + b.bounds.length > 0;

/** True for contractions of operands and sums of one type, of which a device multiplies tiles. */
export function isUniform(c: Contraction, { isGpu }: Target): boolean {
  const isOneType = c.a.dtype === c.dtype && c.b.dtype === c.dtype &&
    !c.a.packed && !c.b.packed;
  const isMade = c.dtype === "float32" || isGpu && c.dtype !== "uint8" && c.dtype !== "bool";
  return isOneType && isMade && c.m.length > 0 && c.n.length > 0 && c.k.length > 0;
}

/** True for contractions that may be computed in tiles; the general template takes any types and views. */
export function isTileable(kernel: LoopKernel, target: Target): boolean {
  const c = kernel.contraction;
  if (c === null || !isUniform(c, target)) return false;
  // Tiles count their windows and what is left of an axis in 32 bits.
  return [c.batch, c.m, c.n, c.k].every((symbols) => extent(kernel, symbols) < NARROW_END);
}

/**
 * The contraction with those loops of its batch among its rows or columns that only one operand walks:
 * the images of a convolution are more columns of one product, not products of their own.
 */
export function withoutFreeBatch(c: Contraction): Contraction {
  const walks = ({ index, bounds }: Load, symbol: number): boolean =>
    [index, ...bounds.map((b) => b.index)].some((f) => coefficient(f, symbol) !== 0);
  const columns = c.batch.filter((s) => !walks(c.a, s));
  const rows = c.batch.filter((s) => walks(c.a, s) && !walks(c.b, s));
  if (columns.length + rows.length === 0) return c;
  return {
    ...c,
    batch: c.batch.filter((s) => !columns.includes(s) && !rows.includes(s)),
    m: [...rows, ...c.m],
    n: [...columns, ...c.n],
  };
}

/**
 * The kernel with a loop of one iteration where its contraction has no rows, or no columns, that a loop walks:
 * one output channel, a product with a vector. Tiles go over one of each.
 */
export function withUnitLoops(kernel: LoopKernel): LoopKernel {
  const c = kernel.contraction!;
  if (c.m.length > 0 && c.n.length > 0) return kernel;
  const unit = [kernel.sizes.length];
  return {
    ...kernel,
    sizes: [...kernel.sizes, 1],
    outer: [...unit, ...kernel.outer],
    contraction: { ...c, m: c.m.length > 0 ? c.m : unit, n: c.n.length > 0 ? c.n : unit },
  };
}

/** A contraction whose tiles go over one loop of its rows and one of its columns. */
export function rowShape(
  kernel: LoopKernel,
  kind: string,
  { row, column, scalar, vector }: RowLoops,
): ContractionSize {
  const { sizes, inner, outer } = kernel;
  return {
    kind,
    batch: extent(kernel, outer.filter((s) => s !== row && s !== column)),
    m: sizes[row]!,
    n: sizes[column]!,
    k: inner.map((s) => sizes[s]!),
    steps: stepsOf(scalar, vector, row, last(inner), column),
  };
}

/** A contraction whose tiles go over all loops of its rows and columns. */
export function groupShape(kernel: LoopKernel, kind: string, c: Contraction): ContractionSize {
  return {
    kind,
    batch: extent(kernel, c.batch),
    m: extent(kernel, c.m),
    n: extent(kernel, c.n),
    k: c.k.map((s) => kernel.sizes[s]!),
    steps: stepsOf(c.a, c.b, last(c.m), last(c.k), last(c.n)),
    elementBytes: dtypes[c.dtype].bytes,
  };
}

function stepsOf(a: Load, b: Load, m: number, k: number, n: number): ContractionSize["steps"] {
  return [
    coefficient(a.index, m),
    coefficient(a.index, k),
    coefficient(b.index, k),
    coefficient(b.index, n),
  ];
}
