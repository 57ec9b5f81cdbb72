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

/** A kernel with more expressions before its own, which can be operands of these. */
export function withLeading(kernel: LoopKernel, leading: readonly Expr[]): LoopKernel {
  const count = leading.length;
  const later = <T extends { readonly expr: number }>(of: T): T => ({
    ...of,
    expr: of.expr + count,
  });
  const moved = (e: Expr): Expr => "args" in e ? { ...e, args: e.args.map((id) => id + count) } : e;
  return {
    ...kernel,
    exprs: [...leading, ...kernel.exprs.map(moved)],
    reductions: kernel.reductions.map(later),
    outputs: kernel.outputs.map(later),
    indirect: kernel.indirect.map(later),
  };
}

/**
 * The same kernel with a sum of products for its contraction; others as they are.
 *
 * @param sumType The type of products and sums: by default that of the contraction.
 */
export function summedProducts(kernel: LoopKernel, sumType?: DType): LoopKernel {
  const { contraction, loads } = kernel;
  if (contraction === null) return kernel;
  const { a, b } = contraction, dtype = sumType ?? contraction.dtype, factors: Expr[] = [];
  const args = [a, b].map((load, k) => pushOperand(factors, loads.length + k, load, dtype));
  const expr = factors.push({ op: "primitive", fn: "mul", args, dtype }) - 1;
  let sum: Expr = { op: "reduced", reduction: kernel.reductions.length, dtype };
  if (dtype !== contraction.dtype) {
    sum = { op: "cast", args: [factors.push(sum) - 1], dtype: contraction.dtype };
  }
  const { exprs, reductions, ...rest } = withLeading(kernel, factors);
  return {
    ...rest,
    loads: [...loads, a, b],
    exprs: exprs.map((e) => e.op === "contracted" ? sum : e),
    reductions: [...reductions, { fn: "sum", expr, dtype, index: zero }],
    contraction: null,
  };
}
