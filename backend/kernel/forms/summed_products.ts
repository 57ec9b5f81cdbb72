/** Contractions as sums of products, for writers and evaluators of loops: they know nothing else of them. */
import type { DType } from "../../graph/dtype.ts";
import { zero } from "../affine.ts";
import type { Expr, Load, LoopKernel } from "../kernel.ts";

/** Appends the value of an operand, of which load `load` reads: 0 outside of its bounds. Gives back its place. */
export function pushOperand(exprs: Expr[], load: number, of: Load, dtype: DType): number {
  const push = (e: Expr): number => exprs.push(e) - 1, from = of.dtype;
  let own = push({ op: "load", load, dtype: from });
  if (of.bounds.length > 0) {
    const inside = push({ op: "inside", bounds: of.bounds, dtype: "bool" });
    const zero = push({ op: "constant", value: 0, dtype: from });
    own = push({ op: "primitive", fn: "where", args: [inside, own, zero], dtype: from });
  }
  return from === dtype ? own : push({ op: "cast", args: [own], dtype });
}

/** The same kernel with a sum of products for its contraction; others as they are. */
export function summedProducts(kernel: LoopKernel): LoopKernel {
  const { contraction, loads, exprs, outputs, indirect, reductions } = kernel;
  if (contraction === null) return kernel;
  const { a, b, dtype } = contraction, factors: Expr[] = [];
  const args = [a, b].map((load, k) => pushOperand(factors, loads.length + k, load, dtype));
  const expr = factors.push({ op: "primitive", fn: "mul", args, dtype }) - 1;
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
