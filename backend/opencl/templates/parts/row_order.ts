/** In which order the work-items of a kernel walk memory. */
import type { LoopKernel } from "../../../kernel/kernel.ts";

/** True when neighbouring rows read neighbouring elements, so rows belong side by side. */
export function walksColumns(kernel: LoopKernel, last: number): boolean {
  const innermost = kernel.inner[kernel.inner.length - 1]!;
  // What is read once a row (a channel's mean) says nothing about how the elements lie.
  const elements = kernel.loads.filter((l) => l.form.terms.some(([t]) => kernel.inner.includes(t)));
  const steps = (s: number): number =>
    elements.filter((l) => l.form.terms.some(([t, c]) => t === s && c === 1)).length;
  return steps(last) > steps(innermost);
}
