/**
 * Splits a reduction with few rows in two kernels: the first reduces parts of each row, so that the
 * whole device has work, the second joins the parts and does what followed the reduction.
 */
import { linearize, symbol, zero } from "./affine.ts";
import type { DType } from "./dtype.ts";
import { Emitter } from "./emit.ts";
import { type Expr, innerLevels, type LoopKernel } from "./kernel.ts";
import { usesInner } from "./rows.ts";
import { sizeOf, stridesOf } from "./shape.ts";

/** The two halves, and what lies between them. */
export interface SplitReduction {
  readonly partial: LoopKernel;
  readonly final: LoopKernel;
  /** The partial results: inputs of `final` behind the original ones. */
  readonly between: readonly { readonly dtype: DType; readonly size: number }[];
}

/** True when a kernel's rows can be reduced in parts. */
export function canSplit(kernel: LoopKernel): boolean {
  if (kernel.contraction || kernel.chunk || kernel.reductions.length === 0) return false;
  if (kernel.reductions.some((r) => Emitter.isArg(r))) return false;
  if (kernel.reductions.some((r) => dependsOnReduction(kernel, r.expr))) return false;
  const levels = innerLevels(kernel);
  return kernel.outputs.every((o, k) => !levels[o.expr] && !usesInner(kernel, k));
}

function dependsOnReduction(kernel: LoopKernel, root: number): boolean {
  const stack = [root];
  for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
    const e = kernel.exprs[id]!;
    if (e.op === "reduced") return true;
    if (e.op === "primitive" || e.op === "cast") stack.push(...e.args);
  }
  return false;
}

/** The two kernels for `parts` parts a row; call only where {@linkcode canSplit} says yes. */
export function splitReduction(kernel: LoopKernel, parts: number): SplitReduction {
  const longest = kernel.inner.reduce((a, b) => kernel.sizes[b]! > kernel.sizes[a]! ? b : a);
  const length = wholeLines(Math.ceil(kernel.sizes[longest]! / parts));
  const count = Math.ceil(kernel.sizes[longest]! / length);
  const rowSizes = kernel.outer.map((s) => kernel.sizes[s]!);
  const rows = linearize(kernel.outer.map(symbol), stridesOf(rowSizes));
  const part = kernel.sizes.length;
  const sizes = [...kernel.sizes, count];
  const slot = linearize([rows, symbol(part)], [count, 1]);
  const size = sizeOf(rowSizes) * count;
  const between = kernel.reductions.map((r) => ({ dtype: storedType(r.dtype), size }));
  const reduced = kernel.reductions.map((r, k): Expr => ({
    op: "reduced",
    reduction: k,
    dtype: r.dtype,
  }));
  const partial: LoopKernel = {
    ...kernel,
    sizes,
    outer: [...kernel.outer, part],
    exprs: [...kernel.exprs, ...reduced],
    outputs: between.map(({ dtype }, k) => ({
      expr: kernel.exprs.length + k,
      dtype,
      form: slot,
      size,
    })),
    chunk: { symbol: longest, part, length },
    label: `${kernel.label}_part`,
  };
  const firstInput = kernel.inputs.length, firstLoad = kernel.loads.length;
  const shift = reduced.length;
  const final: LoopKernel = {
    ...kernel,
    sizes,
    inner: [part],
    inputs: [...kernel.inputs, ...between.map((b) => b.dtype)],
    loads: [
      ...kernel.loads,
      ...between.map(({ dtype }, k) => ({ input: firstInput + k, dtype, form: slot, guards: [] })),
    ],
    exprs: [
      ...between.map(({ dtype }, k): Expr => ({ op: "load", load: firstLoad + k, dtype })),
      ...kernel.exprs.map((e): Expr =>
        e.op === "primitive" || e.op === "cast" ? { ...e, args: e.args.map((a) => a + shift) } : e
      ),
    ],
    dynamic: kernel.dynamic.map((d) => ({ ...d, expr: d.expr + shift })),
    reductions: kernel.reductions.map((r, k) => ({ ...r, expr: k, index: zero })),
    outputs: kernel.outputs.map((o) => ({ ...o, expr: o.expr + shift })),
    label: `${kernel.label}_join`,
  };
  return { partial, final, between };
}

/** Long parts begin where lines of a cache begin: a vector that lies in two of them takes two loads. */
function wholeLines(length: number): number {
  return length < 1024 ? length : Math.ceil(length / 64) * 64;
}

/** Partial results of half types are kept in float32. */
function storedType(dtype: DType): DType {
  return dtype === "float16" || dtype === "bfloat16" ? "float32" : dtype;
}
