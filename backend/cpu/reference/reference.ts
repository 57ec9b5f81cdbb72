/**
 * The plain evaluator: walks the loops of a kernel and computes its expressions one by one. Slow and
 * obvious; whatever is faster must agree with it (NETCL_CPU=reference).
 *
 * This folder (`reference/`) imports `kernel/`, `graph/` and the scalar functions of `script/`; it
 * generates nothing. Kernels come from `cpu_backend.ts`, elements go to typed arrays.
 */
import { neededBy, usesInner, variesWith } from "../../kernel/analysis.ts";
import type { AffineExpr } from "../../kernel/affine.ts";
import { hostBlocks } from "../../formats/host_blocks.ts";
import type { TypedArray } from "../../graph/dtype.ts";
import type { AttentionKernel } from "../../kernel/attention.ts";
import type { Bound, Expr, Load, LoopKernel } from "../../kernel/kernel.ts";
import type { Reduction, SpecialKernel } from "../../kernel/kernel.ts";
import { summedProducts } from "../../kernel/forms/summed_products.ts";
import { combinerOf, identityOf, isArgReduction, prefersLarger } from "../../graph/reductions.ts";
import {
  applyPrimitive,
  castValue,
  constantValue,
  rounded,
  type Value,
} from "./reference_primitives.ts";
import { readElement, writeElement } from "./elements.ts";
import { runAttention } from "./reference_attention.ts";
import { runSpecial } from "./reference_special.ts";
import { arraysOf, type CheckIndex, outputTypes, type Runner } from "../script/runner.ts";
import { philox } from "../../graph/scalar.ts";

/** A runner that interprets the kernel. */
export function referenceRunner(
  kernel: LoopKernel | SpecialKernel | AttentionKernel,
  check: CheckIndex,
): Runner {
  return {
    source: `reference: ${kernel.label}`,
    run(reads, writes) {
      const inputs = arraysOf(reads, kernel.inputs);
      const outputs = arraysOf(writes, outputTypes(kernel));
      if (kernel.kind === "special") runSpecial(kernel, inputs, outputs[0]!, check);
      else if (kernel.kind === "attention") runAttention(kernel, inputs, outputs);
      else new Interpreter(summedProducts(kernel), inputs, outputs, check).run();
    },
  };
}

class Interpreter {
  readonly #kernel: LoopKernel;
  readonly #inputs: readonly TypedArray[];
  readonly #outputs: readonly TypedArray[];
  readonly #check: CheckIndex;
  /** The present value of each loop index. */
  #at: number[];
  readonly #isInner: readonly boolean[];
  #reduced: Value[] = [];

  constructor(
    kernel: LoopKernel,
    inputs: readonly TypedArray[],
    outputs: readonly TypedArray[],
    check: CheckIndex,
  ) {
    this.#kernel = kernel;
    this.#inputs = inputs;
    this.#outputs = outputs;
    this.#check = check;
    this.#at = new Array<number>(kernel.sizes.length + kernel.indirect.length).fill(0);
    this.#isInner = variesWith(kernel, kernel.inner);
  }

  run(): void {
    const { outer, inner, outputs } = this.#kernel;
    const places = outputs.map((_, o) => o);
    const everywhere = places.filter((o) => this.#variesInside(o));
    const once = places.filter((o) => !everywhere.includes(o));
    this.#loop(outer, () => {
      this.#reduced = [];
      this.#store(once);
      if (everywhere.length > 0) this.#loop(inner, () => this.#store(everywhere));
    });
  }

  #variesInside(output: number): boolean {
    return this.#isInner[this.#kernel.outputs[output]!.expr]! || usesInner(this.#kernel, output);
  }

  /** Runs the body for every combination of the given indices, and puts them back. */
  #loop(symbols: readonly number[], body: () => void, depth = 0): void {
    const symbol = symbols[depth];
    if (symbol === undefined) return body();
    const before = this.#at[symbol]!;
    const [start, end] = this.#range(symbol);
    for (let i = start; i < end; i++) {
      this.#at[symbol] = i;
      this.#loop(symbols, body, depth + 1);
    }
    this.#at[symbol] = before;
  }

  #range(symbol: number): [number, number] {
    const { chunk, sizes } = this.#kernel;
    const size = sizes[symbol]!;
    if (chunk?.symbol !== symbol) return [0, size];
    const start = this.#at[chunk.part]! * chunk.length;
    return [start, Math.min(start + chunk.length, size)];
  }

  #index(affine: AffineExpr): number {
    let index = affine.offset;
    for (const [s, c] of affine.terms) index += c * this.#at[s]!;
    return index;
  }

  #inside(bounds: readonly Bound[]): boolean {
    return bounds.every(({ index: affine, size }) => {
      const index = this.#index(affine);
      return index >= 0 && index < size;
    });
  }

  /** Outside its bounds a load gives any element: a `where` leaves it out. */
  #load(load: Load): Value {
    const index = this.#inside(load.bounds) ? this.#index(load.index) : 0;
    const buffer = this.#inputs[load.input]!, { packed } = load;
    return packed
      ? hostBlocks(packed.format).element(buffer as Uint8Array, packed.blocks, index)
      : readElement(buffer, load.dtype, index);
  }

  #store(outputs: readonly number[]): void {
    const values = outputs.map((o) => this.#evaluate(this.#kernel.outputs[o]!.expr));
    outputs.forEach((o, k) => {
      const { dtype, index } = this.#kernel.outputs[o]!;
      writeElement(this.#outputs[o]!, dtype, this.#index(index), values[k]!);
    });
  }

  /** The value of an expression: of those that it needs, in their order. */
  #evaluate(root: number): Value {
    const values: Value[] = [];
    for (const id of this.#needs(root)) {
      values[id] = this.#compute(this.#kernel.exprs[id]!, values);
      for (const { expr, symbol, size, opName } of this.#kernel.indirect) {
        if (expr === id) this.#at[symbol] = this.#check(Number(values[id]), size, opName);
      }
    }
    return values[root]!;
  }

  readonly #needed = new Map<number, readonly number[]>();

  #needs(root: number): readonly number[] {
    let needed = this.#needed.get(root);
    if (!needed) this.#needed.set(root, needed = neededBy(this.#kernel, [root]));
    return needed;
  }

  #compute(e: Expr, values: readonly Value[]): Value {
    switch (e.op) {
      case "load":
        return this.#load(this.#kernel.loads[e.load]!);
      case "constant":
        return constantValue(e.value, e.dtype);
      case "index":
        return constantValue(this.#index(e.index), e.dtype);
      case "random":
        return philox(this.#index(e.index), e.seed, e.stream.value);
      case "primitive": {
        const { dtype } = this.#kernel.exprs[e.args[e.args.length - 1]!]!;
        return rounded(
          applyPrimitive(e.fn, e.args.map((a) => values[a]!), dtype, e.dtype),
          e.dtype,
        );
      }
      case "cast": {
        const [from] = e.args as [number];
        return rounded(castValue(values[from]!, this.#kernel.exprs[from]!.dtype, e.dtype), e.dtype);
      }
      case "inside":
        return Number(this.#inside(e.bounds));
      case "reduced":
        return this.#reduced[e.reduction] ??= this.#reduce(this.#kernel.reductions[e.reduction]!);
      case "contracted":
        throw new Error("Contractions are sums of products here");
    }
  }

  #reduce({ fn, expr, dtype, index }: Reduction): Value {
    let best: Value | undefined, place = -1;
    const before = [...this.#at];
    this.#loop(this.#kernel.inner, () => {
      const value = this.#evaluate(expr);
      if (isArgReduction(fn)) {
        if (best !== undefined && !isBetter(value, best, prefersLarger(fn))) return;
        [best, place] = [value, this.#index(index)];
      } else {
        best = applyPrimitive(combinerOf(fn), [best ?? identityOf(fn, dtype), value], dtype, dtype);
      }
    });
    // The walk has read by indices of other elements.
    this.#at = before;
    if (isArgReduction(fn)) return constantValue(place, dtype);
    return rounded(best ?? identityOf(fn, dtype), dtype);
  }
}

/** The first of equal elements wins; a NaN beats every number. */
function isBetter(value: Value, best: Value, isMax: boolean): boolean {
  if (Number.isNaN(best)) return false;
  return Number.isNaN(value) || (isMax ? value > best : value < best);
}
