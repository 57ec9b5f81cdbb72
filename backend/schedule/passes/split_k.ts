/**
 * Split-K: a contraction with few tiles and a long sum as two kernels. The first computes parts of the
 * sum, so that the whole device has work, the second adds them up and does what followed.
 */
import { type AffineExpr, coefficient, linearize, symbol, zero } from "../../kernel/affine.ts";
import type { DType } from "../../graph/dtype.ts";
import type { Expr, Load, LoopKernel } from "../../kernel/kernel.ts";
import { sizeOf, stridesOf } from "../../graph/shape.ts";
import type { PlanningDevice } from "../../kernel/template.ts";
import { type KernelGraph, type KernelPair, type Pass, splitKernels } from "./kernel_graph.ts";
import { leavesOf, shareable } from "./shareable.ts";
import { withLeading } from "../../kernel/forms/summed_products.ts";

/** Products for each part that they would have: so many fill a device together, with room for launches of fewer. */
const MIN_ALIKE = 1;

/**
 * The pass: long sums of products are divided where their template says so, and where no others fill the device
 * with them.
 */
export const splitProducts: Pass = (graph, device) => {
  const { target, planKernel } = device;
  if (planKernel === null) return graph;
  const alike = target.isGpu ? alikeLeaves(graph, device) : new Map<number, number>();
  return splitKernels(graph, (kernel, k) => {
    const parts = kernel.contraction === null ? 1 : planKernel(kernel, target).sumParts;
    return parts > 1 && (alike.get(k) ?? 1) < MIN_ALIKE * parts ? splitK(kernel, parts) : null;
  });
};

/** The number of products that can share a launch with one whose results no kernel reads, itself among them. */
function alikeLeaves(graph: KernelGraph, device: PlanningDevice): ReadonlyMap<number, number> {
  const groups = new Map<string, number[]>();
  for (const k of leavesOf(graph)) {
    const { kernel } = graph.steps[k]!;
    if (kernel.kind !== "loop" || kernel.contraction === null) continue;
    const found = shareable(kernel, device, true);
    if (found === null) continue;
    const known = groups.get(found.key);
    if (known) known.push(k);
    else groups.set(found.key, [k]);
  }
  return new Map([...groups.values()].flatMap((all) => all.map((k) => [k, all.length] as const)));
}

/** The loop of the sum that is divided, and in how many parts: a divisor, so that all are alike. */
interface SumParts {
  readonly symbol: number;
  readonly parts: number;
}

/**
 * The smallest divisor of a loop that gives so many parts, or else the largest; an outer loop rather
 * than one further in, where neighbours may read the same elements.
 */
function sumParts({ sizes, inner }: LoopKernel, parts: number): SumParts {
  let best: SumParts = { symbol: inner[0]!, parts: 1 };
  for (const s of inner) {
    if (best.parts >= parts) break;
    for (let d = 2; d <= Math.min(sizes[s]!, 2 * parts); d++) {
      if (sizes[s]! % d !== 0) continue;
      const isBetter = best.parts < parts ? d > best.parts : d >= parts && d < best.parts;
      if (isBetter) best = { symbol: s, parts: d };
    }
  }
  return best;
}

/** The two kernels for about `parts` parts; null where the sum cannot be divided. */
export function splitK(kernel: LoopKernel, parts: number): KernelPair | null {
  const c = kernel.contraction;
  if (!c || kernel.reductions.length > 0 || kernel.indirect.length > 0) return null;
  const cut = sumParts(kernel, parts);
  if (cut.parts === 1) return null;
  const part = kernel.sizes.length, length = kernel.sizes[cut.symbol]! / cut.parts;
  const sizes = [...kernel.sizes, cut.parts];
  const shape = [part, ...kernel.outer].map((s) => sizes[s]!);
  const place = linearize([part, ...kernel.outer].map(symbol), stridesOf(shape));
  const ofPart = (load: Load): Load => ({
    ...load,
    index: inPart(load.index, cut.symbol, part, length),
    bounds: load.bounds.map((b) => ({ ...b, index: inPart(b.index, cut.symbol, part, length) })),
  });
  const batch = [part, ...c.batch];
  // Halves are added up in single precision.
  const dtype = c.dtype === "float16" || c.dtype === "bfloat16" ? "float32" : c.dtype;
  const partial: LoopKernel = {
    ...kernel,
    sizes: sizes.map((n, s) => s === cut.symbol ? length : n),
    outer: [...batch, ...c.m, ...c.n],
    loads: [],
    exprs: [{ op: "contracted", dtype: c.dtype }],
    contraction: { ...c, batch, a: ofPart(c.a), b: ofPart(c.b) },
    outputs: [{ expr: 0, dtype, index: place, size: sizeOf(shape) }],
    label: `${kernel.label}_part`,
  };
  return { partial, stored: [], final: finalOf(kernel, { part, sizes, place, dtype }) };
}

interface PartialSums {
  /** The loop over parts. */
  readonly part: number;
  readonly sizes: readonly number[];
  /** Position of a part's sum. */
  readonly place: AffineExpr;
  readonly dtype: DType;
}

/** Adds up the parts, and does what followed the product. */
function finalOf(kernel: LoopKernel, { part, sizes, place, dtype }: PartialSums): LoopKernel {
  const load: Load = { input: kernel.inputs.length, dtype, index: place, bounds: [] };
  const { exprs, outputs } = withLeading(kernel, [{
    op: "load",
    load: kernel.loads.length,
    dtype,
  }]);
  return {
    ...kernel,
    sizes,
    inner: [part],
    inputs: [...kernel.inputs, dtype],
    loads: [...kernel.loads, load],
    exprs: exprs.map((e): Expr =>
      e.op === "contracted" ? { op: "reduced", reduction: 0, dtype: e.dtype } : e
    ),
    reductions: [{ fn: "sum", expr: 0, dtype, index: zero }],
    contraction: null,
    outputs,
    label: `${kernel.label}_join`,
  };
}

/** An index in which a loop runs over the `length` iterations of one part. */
function inPart(index: AffineExpr, from: number, part: number, length: number): AffineExpr {
  const step = coefficient(index, from);
  return step === 0 ? index : { ...index, terms: [...index.terms, [part, step * length]] };
}
