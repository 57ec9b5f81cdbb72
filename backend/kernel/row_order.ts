/** How the elements of a kernel's rows lie in memory. */
import { extent, type LoopKernel } from "./kernel.ts";

/** A work-group is given rows of so many elements at least. */
const MIN_GROUP_ROW = 64;

/** True when neighbouring rows read neighbouring elements, so rows belong side by side. */
export function walksColumns(kernel: LoopKernel, last: number): boolean {
  const innermost = kernel.inner[kernel.inner.length - 1]!;
  // What is read once a row (a channel's mean) says nothing about how the elements lie.
  const elements = kernel.loads.filter((l) => l.form.terms.some(([t]) => kernel.inner.includes(t)));
  const steps = (s: number): number =>
    elements.filter((l) => l.form.terms.some(([t, c]) => t === s && c === 1)).length;
  return steps(last) > steps(innermost);
}

/** True when the rows of a kernel are long and contiguous: a GPU gives each a work-group. */
export function reducesInGroups(kernel: LoopKernel): boolean {
  if (kernel.inner.length === 0) return false;
  const rows = kernel.outer.filter((s) => s !== kernel.chunk?.part);
  const last = rows[rows.length - 1];
  if (last !== undefined && walksColumns(kernel, last)) return false;
  return extent(kernel, kernel.inner) >= MIN_GROUP_ROW;
}
