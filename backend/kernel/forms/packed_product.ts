/** Products with packed weights, and copies of these, as programs for them see a kernel. */
import type { BlockFormatName } from "../../formats/block_formats.ts";
import { type DType, isFloat } from "../../graph/dtype.ts";
import { type AffineExpr, coefficient } from "../affine.ts";
import { extent, type LoopKernel } from "../kernel.ts";

/** `x wᵀ`, whose rows of w lie along the sum. */
export interface PackedProduct {
  readonly format: BlockFormatName;
  /** Rows of x, columns of the result, terms of the sum. */
  readonly rows: number;
  readonly columns: number;
  readonly terms: number;
  /** The loops of rows and of columns. */
  readonly rowLoops: readonly number[];
  readonly columnLoops: readonly number[];
  readonly x: { name: string; element: DType; offset: number; step: number };
  readonly w: { name: string; blocks: number; offset: number };
}

/** Longer sums would lose digits in one number for each lane. */
const MAX_TERMS = 1 << 18;

/** The product that a contraction is; null where it is another one. */
export function packedProduct(kernel: LoopKernel): PackedProduct | null {
  const c = kernel.contraction!, isLeft = c.a.packed !== undefined;
  const [w, x] = isLeft ? [c.a, c.b] : [c.b, c.a];
  const [rowLoops, columnLoops] = isLeft ? [c.n, c.m] : [c.m, c.n];
  if (!w.packed || x.packed || c.batch.length > 0 || c.k.length !== 1) return null;
  if (x.bounds.length + w.bounds.length > 0 || !isNarrowFloat(x.dtype)) return null;
  const k = c.k[0]!, terms = kernel.sizes[k]!;
  const along = ({ index }: { index: AffineExpr }): boolean => coefficient(index, k) === 1;
  const [step, apart] = [x, w].map(({ index }, which) =>
    stepOf(kernel, index, which === 0 ? rowLoops : columnLoops)
  );
  if (!along(x) || !along(w) || step === null || apart !== terms || terms > MAX_TERMS) return null;
  return {
    format: w.packed.format,
    rows: extent(kernel, rowLoops),
    columns: extent(kernel, columnLoops),
    terms,
    rowLoops,
    columnLoops,
    x: { name: `a${x.input}`, element: x.dtype, offset: x.index.offset, step: step! },
    w: { name: `a${w.input}`, blocks: w.packed.blocks, offset: w.index.offset },
  };
}

/** Floats that programs compute with: those of up to 32 bits. */
const isNarrowFloat = (dtype: DType): boolean => isFloat(dtype) && dtype !== "float64";

/** Distance of neighbours along some loops; 0 along none, null where that changes. */
function stepOf(
  { sizes }: LoopKernel,
  index: AffineExpr,
  symbols: readonly number[],
): number | null {
  const inner = symbols.at(-1);
  if (inner === undefined) return 0;
  const first = coefficient(index, inner);
  let step = first;
  for (const s of symbols.toReversed()) {
    if (coefficient(index, s) !== step) return null;
    step *= sizes[s]!;
  }
  return first;
}

/** A copy of packed elements, one after the other. */
export interface PackedCopy {
  readonly format: BlockFormatName;
  readonly count: number;
  /** The type that they are stored in. */
  readonly dtype: DType;
  readonly w: PackedProduct["w"];
}

/** The copy that a loop is; null where it does anything else. */
export function packedCopy(kernel: LoopKernel): PackedCopy | null {
  const { loads: [load], outer: [i], outputs: [output], exprs, sizes } = kernel;
  if (kernel.contraction || !load?.packed || i === undefined || output === undefined) return null;
  const { length } = [...kernel.loads, ...kernel.outer, ...kernel.outputs];
  if (length !== 3 || kernel.inner.length + kernel.indirect.length > 0) return null;
  if (load.bounds.length > 0 || exprs.some(({ op }) => op !== "load" && op !== "cast")) return null;
  const isStraight = ({ index }: { readonly index: AffineExpr }): boolean =>
    coefficient(index, i) === 1;
  if (
    !exprs.every(({ dtype }) => isNarrowFloat(dtype)) || !isStraight(load) || !isStraight(output) ||
    output.index.offset !== 0
  ) {
    return null;
  }
  return {
    format: load.packed.format,
    count: sizes[i]!,
    dtype: output.dtype,
    w: { name: `a${load.input}`, blocks: load.packed.blocks, offset: load.index.offset },
  };
}
