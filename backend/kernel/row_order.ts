/** Order in which the loops of a kernel walk elements in memory. */
import { type AffineExpr, coefficient } from "./affine.ts";
import { extent, type Load, type LoopKernel } from "./kernel.ts";

/** A work-group is given rows of so many elements at least. */
const MIN_GROUP_ROW = 64;

/** True when neighbouring rows read neighbouring elements, so rows belong side by side. */
export function walksColumns(kernel: LoopKernel, last: number): boolean {
  const innermost = kernel.inner[kernel.inner.length - 1]!;
  // What is read once a row, or once a column (a channel's mean), says nothing about how the elements lie.
  const varying = kernel.loads.filter((l) => l.index.terms.some(([t]) => kernel.inner.includes(t)));
  const most = Math.max(...varying.map((load) => elementsOf(kernel, load)));
  const elements = varying.filter((load) => elementsOf(kernel, load) === most);
  const steps = (s: number): number =>
    elements.filter((l) => l.index.terms.some(([t, c]) => t === s && c === 1)).length;
  return steps(last) > steps(innermost);
}

/** Elements that a load reads; an index read from memory may differ in each iteration. */
function elementsOf(kernel: LoopKernel, { index }: Load): number {
  const loops = [...kernel.outer, ...kernel.inner];
  const symbols = index.terms.map(([s]) => s);
  return extent(kernel, symbols.every((s) => loops.includes(s)) ? symbols : loops);
}

/** True when the rows of a kernel are long and contiguous: a GPU gives each a work-group. */
export function reducesInGroups(kernel: LoopKernel): boolean {
  if (kernel.inner.length === 0) return false;
  const rows = kernel.outer.filter((s) => s !== kernel.chunk?.part);
  const last = rows[rows.length - 1];
  if (last !== undefined && walksColumns(kernel, last)) return false;
  return extent(kernel, kernel.inner) >= MIN_GROUP_ROW;
}

/** True where loops walk an operand as one loop would: none of their indices is needed. */
export function isFlat(
  { sizes }: LoopKernel,
  index: AffineExpr,
  symbols: readonly number[],
): boolean {
  let step = coefficient(index, symbols.at(-1)!);
  for (const s of symbols.toReversed()) {
    if (coefficient(index, s) !== step) return false;
    step *= sizes[s]!;
  }
  return true;
}

/** Steps from neighbour to neighbour that still share what the memory delivers at once. */
const MAX_NEAR_STEP = 8;

/** Number of neighbours along some loops worth reading together; 0: they lie apart. */
function neighbours(
  { sizes }: LoopKernel,
  index: AffineExpr,
  symbols: readonly number[],
): number {
  const near = coefficient(index, symbols.at(-1)!);
  if (near < 1 || near > MAX_NEAR_STEP) return 0;
  let run = 1;
  for (const s of symbols.toReversed()) {
    if (coefficient(index, s) !== near * run) break;
    run *= sizes[s]!;
  }
  return run / near;
}

/** True for tiles that lie along the sum, as more neighbours do there than along the rows or columns. */
export function liesAlongSum(
  kernel: LoopKernel,
  index: AffineExpr,
  symbols: readonly number[],
  k: readonly number[],
): boolean {
  const along = neighbours(kernel, index, k);
  return along > 0 && along >= neighbours(kernel, index, symbols);
}
