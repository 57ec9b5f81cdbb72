/** Contractions as sums of products, for writers and evaluators of loops: they know nothing else of them. */
import type { DType } from "../../graph/dtype.ts";
import { zero } from "../affine.ts";
import type { Expr, LoopKernel } from "../kernel.ts";

/** The same kernel with a sum of products for its contraction; others as they are. */
export function summedProducts(kernel: LoopKernel): LoopKernel {
  const { contraction, loads, exprs, outputs, indirect, reductions } = kernel;
  if (contraction === null) return kernel;
  const { a, b, dtype } = contraction, factors: Expr[] = [];
  const push = (e: Expr): number => factors.push(e) - 1;
  const operand = (load: number, from: DType): number => {
    const own = push({ op: "load", load, dtype: from });
    return from === dtype ? own : push({ op: "cast", args: [own], dtype });
  };
  const args = [operand(loads.length, a.dtype), operand(loads.length + 1, b.dtype)];
  const expr = push({ op: "primitive", fn: "mul", args, dtype });
  const later = <T extends { readonly expr: number }>(of: T): T => ({
    ...of,
    expr: of.expr + factors.length,
  });
  const moved = exprs.map((e): Expr => {
    if (e.op === "contracted") {
      return { op: "reduced", reduction: reductions.length, dtype: e.dtype };
    }
    return "args" in e ? { ...e, args: e.args.map((id) => id + factors.length) } : e;
  });
  return {
    ...kernel,
    loads: [...loads, a, b],
    exprs: [...factors, ...moved],
    reductions: [...reductions.map(later), { fn: "sum", expr, dtype, index: zero }],
    outputs: outputs.map(later),
    indirect: indirect.map(later),
    contraction: null,
  };
}
