/** Layout of the elements of a kernel's rows in memory. */
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
