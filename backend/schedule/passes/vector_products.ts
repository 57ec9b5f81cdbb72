/**
 * Products of a matrix with one vector, as a language model has many a word: a GPU reduces the matrix's rows
 * where they lie, as it does those of a norm. Tiles of products have nothing to do twice there; their sums
 * were split in parts, a launch for these and one to join them, and no launch was shared. On paper a word of
 * a Llama of 12 layers took 304 launches.
 */
import type { DType } from "../../graph/dtype.ts";
import { isFloat } from "../../graph/dtype.ts";
import { extent, type Load, type LoopKernel, readsPacked } from "../../kernel/kernel.ts";
import type { Pass } from "./kernel_graph.ts";
import { summedProducts } from "../../kernel/forms/summed_products.ts";

/** Shorter sums are those of small windows, for which there are kernels. */
const MIN_SUM = 32;

/** The pass, for GPUs. */
export const vectorProducts: Pass = (graph, { target }) =>
  target.isGpu
    ? {
      ...graph,
      steps: graph.steps.map((step) =>
        step.kernel.kind === "loop" && isVectorProduct(step.kernel)
          ? { ...step, kernel: summedProducts(step.kernel, sumType(step.kernel)) }
          : step
      ),
    }
    : graph;

/** True for a product of a matrix with one vector, or of some with one each. */
function isVectorProduct(kernel: LoopKernel): boolean {
  const { contraction: c, reductions, indirect } = kernel;
  if (c === null || reductions.length > 0 || indirect.length > 0 || readsPacked(kernel)) {
    return false;
  }
  if (extent(kernel, c.m) > 1 && extent(kernel, c.n) > 1) return false;
  return isFloat(c.dtype) && extent(kernel, c.k) >= MIN_SUM &&
    [c.a, c.b].every((load) => load.bounds.length === 0 && readsOnce(kernel, load));
}

/** True where no two turns of an operand's own loops read the same element, as overlapping windows do. */
function readsOnce({ sizes }: LoopKernel, { index }: Load): boolean {
  let span = 0;
  for (const [s, step] of index.terms.toSorted(([, a], [, b]) => Math.abs(a) - Math.abs(b))) {
    if (Math.abs(step) <= span) return false;
    span += Math.abs(step) * (sizes[s]! - 1);
  }
  return true;
}

/** Halves are added up in single precision. */
const sumType = ({ contraction }: LoopKernel): DType =>
  contraction!.dtype === "float64" ? "float64" : "float32";
