/**
 * Computes what follows a divided sum where its parts are joined: fusion left it to a kernel of its own, since a
 * product's kernel has no registers for it; the one that joins has.
 */
import { add, type AffineExpr, affineKey, linearize, scale, symbol } from "../../kernel/affine.ts";
import { canonicalize } from "../../kernel/canonicalize.ts";
import { type Expr, extent, isMap, type Load, type LoopKernel } from "../../kernel/kernel.ts";
import { sizeOf, stridesOf } from "../../graph/shape.ts";
import type { KernelGraph, Pass, Step } from "./kernel_graph.ts";
import { mapIndices } from "../../kernel/collapse.ts";
import { withLeading } from "../../kernel/forms/summed_products.ts";

/** Parts of a sum: one that is longer keeps its work-item too busy for more. */
const MAX_PARTS = 64;

/** The pass. */
export const followJoins: Pass = (graph, { target }) => {
  if (!target.isGpu) return graph;
  const readers = new Map<number, number[]>();
  graph.steps.forEach(({ inputs }, k) => {
    for (const at of new Set(inputs)) readers.set(at, [...readers.get(at) ?? [], k]);
  });
  const steps: (Step | null)[] = graph.steps.slice();
  graph.steps.forEach((_, k) => {
    const join = steps[k]!, [at] = join.outputs;
    if (!isJoin(join)) return;
    const [first, ...others] = readers.get(at!) ?? [];
    if (first === undefined) return;
    const isKept = others.length > 0 || graph.wanted.has(at!);
    const both = followed(join, steps[first]!, isKept);
    if (both === null) return;
    steps[k] = null;
    steps[first] = both;
  });
  return { ...graph, steps: steps.filter((step) => step !== null) } satisfies KernelGraph;
};

/** True for a kernel that adds up a few numbers for each element of one float result. */
function isJoin({ kernel, outputs }: Step): boolean {
  if (kernel.kind !== "loop" || kernel.contraction || kernel.chunk || outputs.length !== 1) {
    return false;
  }
  const [output] = kernel.outputs, { inner, reductions, indirect } = kernel;
  return reductions.length > 0 && inner.length > 0 && extent(kernel, inner) <= MAX_PARTS &&
    indirect.length === 0 && output!.dtype === "float32" &&
    kernel.exprs[output!.expr]!.dtype === "float32";
}

/** Both kernels as one; null where the second does not read one element for each of its own. */
function followed(join: Step, next: Step, isKept: boolean): Step | null {
  const first = join.kernel as LoopKernel, { kernel: second } = next;
  if (second.kind !== "loop" || !isElementwise(second)) return null;
  const places = placesOf(first, second);
  if (places === null) return null;
  const moved = ({ offset, terms }: AffineExpr): AffineExpr =>
    terms.reduce(
      (all, [s, c]) => add(all, scale(places[second.outer.indexOf(s)]!, c)),
      { offset, terms: [] } as AffineExpr,
    );
  const [output] = first.outputs, [at] = join.outputs, key = affineKey(output!.index);
  const isJoined = second.loads.map(({ input }) => next.inputs[input] === at);
  const { loads, exprs, outputs } = withLeading(mapIndices(second, moved), first.exprs);
  if (loads.some((load, k) => isJoined[k] && !isElement(load, key))) return null;
  const own = first.exprs.length;
  const { kernel, inputs } = canonicalize({
    ...first,
    inputs: [...first.inputs, ...second.inputs],
    loads: [
      ...first.loads,
      ...loads.map((load) => ({ ...load, input: load.input + first.inputs.length })),
    ],
    exprs: exprs.map((e, id): Expr => {
      if (e.op !== "load" || id < own) return e;
      return isJoined[e.load]
        ? { op: "cast", args: [output!.expr], dtype: e.dtype }
        : { ...e, load: e.load + first.loads.length };
    }),
    outputs: [...isKept ? [output!] : [], ...outputs],
    label: `${first.label}_${second.label}`,
  });
  const all = [...join.inputs, ...next.inputs];
  return {
    kernel,
    inputs: inputs.map((k) => all[k]!),
    outputs: [...isKept ? [at!] : [], ...next.outputs],
  };
}

/** The loops of the second kernel in terms of the first one's; null where they do not walk the same elements. */
function placesOf(first: LoopKernel, second: LoopKernel): AffineExpr[] | null {
  const [sizes, others] = [first, second].map((kernel) =>
    kernel.outer.map((s) => kernel.sizes[s]!)
  ) as [number[], number[]];
  const loops = first.outer.map(symbol);
  if (sizes.join() === others.join()) return loops;
  // Elements that lie one behind the other are one loop.
  const isOne = others.length === 1 && others[0] === sizeOf(sizes);
  return isOne ? [linearize(loops, stridesOf(sizes))] : null;
}

function isElement({ index, bounds, dtype }: Load, key: string): boolean {
  return bounds.length === 0 && dtype === "float32" && affineKey(index) === key;
}

function isElementwise(kernel: LoopKernel): boolean {
  return isMap(kernel) && kernel.indirect.length === 0 &&
    kernel.exprs.every(({ op }) => op !== "random");
}
