/** Which kernel computes a contraction, by how its operands lie in memory, and the shape that it sees. */
import { type AffineExpr, coefficient } from "../../kernel/affine.ts";
import { dtypes } from "../../graph/dtype.ts";
import { NARROW_END } from "../../kernel/index_range.ts";
import { type Contraction, extent, type Load, type LoopKernel } from "../../kernel/kernel.ts";
import type { Target } from "./codegen.ts";
import { type LaneTiling, laneTiling } from "./contraction_lanes.ts";
import { unitOf } from "./mma/mma_plan.ts";
import { type WindowTiling, windowTiling } from "./contraction_rows.ts";
import { LANES, last } from "./contraction_text.ts";
import { MAX_STEP } from "./contraction_window.ts";
import { type Kind, type Shape, tileOf } from "./tile_choices.ts";

/** The loops of a tile of rows: they read `scalar` element by element, its columns `vector` in vectors. */
export interface RowLoops {
  readonly row: number;
  readonly column: number;
  readonly scalar: Load;
  readonly vector: Load;
}

/** The kernel of a contraction. */
export type Layout =
  | { readonly kind: "tiles"; readonly shape: Shape<"tiles"> }
  | { readonly kind: "mma"; readonly shape: Shape<"mma"> }
  | { readonly kind: "dots"; readonly shape: Shape<"dots"> }
  | { readonly kind: "rows"; readonly shape: Shape<"rows">; readonly loops: RowLoops }
  | { readonly kind: "window"; readonly shape: Shape<"window">; readonly tiling: WindowTiling }
  | { readonly kind: "lanes"; readonly tiling: LaneTiling };

/** The fewest elements along which vectors are worth their trouble. */
const MIN_ROW = 4, MIN_DOT = 4;

/** How a contraction is computed on a device; null where the general kernel must do. */
export function layoutOf(kernel: LoopKernel, target: Target): Layout | null {
  const c = kernel.contraction!;
  // Tiles count their windows and what is left of an axis in 32 bits.
  const isFar = (symbols: readonly number[]): boolean => extent(kernel, symbols) >= NARROW_END;
  if (!isTiled(c, target) || [c.batch, c.m, c.n, c.k].some(isFar)) return null;
  const isMasked = c.a.bounds.length + c.b.bounds.length > 0;
  if (target.isGpu) {
    const shape = shapeOf({ ...kernel, contraction: withoutFreeBatch(c) }, "tiles");
    return isForMatrixUnits(c, shape, target)
      ? { kind: "mma", shape: { ...shape, kind: "mma" } }
      : { kind: "tiles", shape };
  }
  const lanes = laneTiling(kernel, target);
  if (lanes) return { kind: "lanes", tiling: lanes };
  const k = last(c.k), m = last(c.m), n = last(c.n);
  const { sizes } = kernel;
  const spans = (form: AffineExpr, symbol: number, least: number): boolean =>
    coefficient(form, symbol) === 1 && sizes[symbol]! >= least;
  const isDot = spans(c.a.form, k, MIN_DOT) && spans(c.b.form, k, MIN_DOT);
  const least = isDot ? LANES : MIN_ROW;
  const alongN = spans(c.b.form, n, least), alongM = spans(c.a.form, m, least);
  // Where both will do, the axis along which results lie, so that they are written as vectors.
  const isTransposed = kernel.outputs.every((o) => coefficient(o.form, m) === 1);
  const along = isMasked ? windowLayout : rowsLayout;
  const isApart = (form: AffineExpr, symbol: number): boolean => {
    const step = coefficient(form, symbol);
    return step > 1 && step <= MAX_STEP && sizes[symbol]! >= MIN_ROW;
  };
  const isLong = isDot && sizes[k]! >= LANES;
  if (!isLong && !alongN && !alongM && isApart(c.b.form, n)) {
    const found = windowLayout(kernel, target, { row: m, column: n, scalar: c.a, vector: c.b });
    if (found) return found;
  }
  if (alongN && !(alongM && isTransposed)) {
    return along(kernel, target, { row: m, column: n, scalar: c.a, vector: c.b });
  }
  if (alongM) return along(kernel, target, { row: n, column: m, scalar: c.b, vector: c.a });
  return isDot && !isMasked ? { kind: "dots", shape: shapeOf(kernel, "dots") } : null;
}

/**
 * The contraction with those loops of its batch among its rows or columns that only one operand walks:
 * the images of a convolution are more columns of one product, not products of their own.
 */
export function withoutFreeBatch(c: Contraction): Contraction {
  const walks = ({ form, bounds }: Load, symbol: number): boolean =>
    [form, ...bounds.map((g) => g.form)].some((f) => coefficient(f, symbol) !== 0);
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

/** True for contractions that may have kernels of their own; the general one takes any types and views. */
export function isTiled(c: Contraction, { isGpu }: Target): boolean {
  const isUniform = c.a.dtype === c.dtype && c.b.dtype === c.dtype;
  const isMade = c.dtype === "float32" || isGpu && c.dtype !== "uint8" && c.dtype !== "bool";
  return isUniform && isMade && c.m.length > 0 && c.n.length > 0 && c.k.length > 0;
}

/** Fewer rows or columns leave most of a matrix unit's tile empty; so small products are over anyway. */
const MIN_SIDE = 32, MIN_PRODUCTS = 1 << 22;

/** Whether matrix units are worth it: halves nearly always, float32 where three products win. */
function isForMatrixUnits(c: Contraction, { m, n, k, batch }: Shape, target: Target): boolean {
  if (!target.matrixUnits || unitOf(c) === null) return false;
  const terms = k.reduce((a, b) => a * b, 1);
  if (c.dtype !== "float32") return terms >= 16;
  return Math.min(m, n) >= MIN_SIDE && terms >= 16 && batch * m * n * terms >= MIN_PRODUCTS;
}

function rowsLayout(kernel: LoopKernel, _: Target, loops: RowLoops): Layout {
  return { kind: "rows", shape: rowShape(kernel, "rows", loops), loops };
}

function windowLayout(kernel: LoopKernel, target: Target, loops: RowLoops): Layout | null {
  const shape = rowShape(kernel, "window", loops);
  const tiling = windowTiling(kernel, target, tileOf(shape, target), loops);
  return tiling && { kind: "window", shape, tiling };
}

/** A contraction whose tiles go over one loop of its rows and one of its columns. */
function rowShape<K extends Kind>(
  kernel: LoopKernel,
  kind: K,
  { row, column, scalar, vector }: RowLoops,
): Shape<K> {
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
function shapeOf<K extends Kind>(kernel: LoopKernel, kind: K): Shape<K> {
  const c = kernel.contraction!;
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

function stepsOf(a: Load, b: Load, m: number, k: number, n: number): Shape["steps"] {
  return [
    coefficient(a.form, m),
    coefficient(a.form, k),
    coefficient(b.form, k),
    coefficient(b.form, n),
  ];
}
