/** Products with packed weights, and copies of these, as programs for them see a kernel. */
import { type BlockFormatName, formatTable } from "../../formats/block_formats.ts";
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
  readonly x: PackedFactor;
  readonly w: { name: string; blocks: number; offset: number };
}

/** Elements so far apart; several axes are in order, the last one is the innermost. */
export interface Axis {
  readonly size: number;
  readonly step: number;
}

/** The floats that a packed matrix is multiplied with: an element lies at the sum of its steps along all axes. */
export interface PackedFactor {
  readonly name: string;
  readonly element: DType;
  readonly offset: number;
  readonly rows: readonly Axis[];
  readonly terms: readonly Axis[];
}

/** Longer sums would lose digits in one number for each lane. */
const MAX_TERMS = 1 << 18;

/** The product that a contraction is; null where it is another one. */
export function packedProduct(kernel: LoopKernel): PackedProduct | null {
  const c = kernel.contraction!, isLeft = c.a.packed !== undefined;
  const [w, x] = isLeft ? [c.a, c.b] : [c.b, c.a];
  const [rowLoops, columnLoops] = isLeft ? [c.n, c.m] : [c.m, c.n];
  if (!w.packed || x.packed || c.batch.length > 0) return null;
  if (x.bounds.length + w.bounds.length > 0 || !isNarrowFloat(x.dtype)) return null;
  const axes = ({ index }: { index: AffineExpr }, loops: readonly number[]): Axis[] =>
    axesOf(loops.map((s) => ({ size: kernel.sizes[s]!, step: coefficient(index, s) })));
  const terms = extent(kernel, c.k), columns = extent(kernel, columnLoops);
  const isBeside = (all: readonly Axis[], step: number): boolean =>
    all.length === 1 && all[0]!.step === step;
  if (!isBeside(axes(w, c.k), 1) || !isBeside(axes(w, columnLoops), terms)) return null;
  const factor: PackedFactor = {
    ...{ name: `a${x.input}`, element: x.dtype, offset: x.index.offset },
    ...{ rows: axes(x, rowLoops), terms: axes(x, c.k) },
  };
  if (factor.terms.at(-1)?.step !== 1 || terms > MAX_TERMS) return null;
  return {
    ...{ format: w.packed.format, rows: extent(kernel, rowLoops), columns, terms },
    ...{ rowLoops, columnLoops, x: factor },
    w: { name: `a${w.input}`, blocks: w.packed.blocks, offset: w.index.offset },
  };
}

/** Axes of more than one element; those that go on where the next one ends are one with it. */
function axesOf(all: readonly Axis[]): Axis[] {
  const axes: Axis[] = [];
  for (const { size, step } of all) {
    const last = axes.at(-1);
    if (size === 1) continue;
    if (last?.step === size * step) axes[axes.length - 1] = { size: last.size * size, step };
    else axes.push({ size, step });
  }
  return axes;
}

/** Distance of the rows of x whose terms are neighbours; null where other axes are in it. */
export function straightStep({ rows, terms }: PackedFactor): number | null {
  return rows.length > 1 || terms.length !== 1 ? null : rows[0]?.step ?? 0;
}

/** Floats that programs compute with: those of up to 32 bits. */
const isNarrowFloat = (dtype: DType): boolean => isFloat(dtype) && dtype !== "float64";

/** Elements of x that are rounded together. */
export const BLOCK = 32;
/** Terms of a sum of whole numbers: rows of so many lie in a second cache. */
export const MAX_INTEGER_TERMS = 16384;
/** Rows whose sums registers hold. */
export const FEW_ROWS = 8;

/** Formats whose quants are multiplied as they are. */
const integerFormats: ReadonlySet<BlockFormatName> = new Set<BlockFormatName>([
  "Q4_0",
  "Q4_1",
  "Q5_0",
  "Q5_1",
  "Q8_0",
  "Q4_K",
  "Q5_K",
  "Q6_K",
]);

/** Elements whose bytes are read together. */
export function chunkOf(format: BlockFormatName): number {
  const { bit, count } = formatTable[format].packedBits ?? { bit: 5, count: 0 };
  return 2 ** (bit + count);
}

/** True for products that whole numbers can compute: blocks of both operands begin together. */
export function isOfBlocks(
  { format, terms, x, w }: Pick<PackedProduct, "format" | "terms" | "x" | "w">,
): boolean {
  const { elements } = formatTable[format];
  return integerFormats.has(format) && terms % Math.max(chunkOf(format), elements) === 0 &&
    terms <= MAX_INTEGER_TERMS && w.offset % elements === 0 && x.terms.at(-1)!.size % BLOCK === 0;
}

/**
 * True where a device multiplies packed weights as they are: a copy in floats would cost more.
 *
 * @param inBlocks Whether it multiplies many rows in whole numbers.
 */
export function multipliesPacked(kernel: LoopKernel, inBlocks: boolean): boolean {
  const product = packedProduct(kernel);
  if (product === null) return false;
  if (inBlocks && isOfBlocks(product)) return true;
  return product.rows <= FEW_ROWS && straightStep(product.x) !== null;
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
