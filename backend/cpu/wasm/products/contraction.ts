/**
 * Contractions in WebAssembly. Whatever the loops are, an element of an operand lies at the sum of
 * one offset for its rows and one for its summed indices, and tables hold those: matrices, their
 * transposes, batches of them and windows of images are all multiplied without being copied. Only
 * an operand whose columns do not lie side by side is, in the order that tiles read it.
 *
 * This folder (`products/`) plans and runs tile programs. It imports `blas/`, `kernel/`, `graph/`, `script/`, `tile/` of
 * this backend and the programs of `backend/tile`. Contractions come from `kernel_runners.ts`; what has no plan here goes
 * to `blas/` or `script/`.
 */
import { type AffineExpr, coefficient } from "../../../kernel/affine.ts";
import { collapse } from "../../../kernel/collapse.ts";
import { isFloat } from "../../../graph/dtype.ts";
import { type Contraction, extent, type Load, type LoopKernel } from "../../../kernel/kernel.ts";
import { epilogueOf, pack, rowMajor } from "../../blas/gemm_plan.ts";
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { HostBlock, PartialRunner, Runner } from "../../script/runner.ts";
import { contiguousAxis, describe, planSides, type ProductPlan } from "./contraction_plan.ts";
import { FusedEpilogue, type LineSymbols } from "./fused_epilogue.ts";
import { ProductRunner } from "./product_runner.ts";
import type { WasmRuntime } from "../runtime.ts";

/** Fewer multiplications than this are quicker in JavaScript. */
const MIN_PRODUCTS = 1024;

/** A contraction whose operands are floats. */
export interface FloatContraction {
  readonly kernel: LoopKernel;
  readonly contraction: Contraction;
  /** Destination of its elements. */
  readonly target: AffineExpr;
  /** Operations that follow it, in lines of its elements; null where there are none, or not such. */
  readonly epilogueOf: (symbols: LineSymbols) => FusedEpilogue | null;
  /** About how many nanoseconds one thread takes to compute it as products of matrices. */
  readonly cost: number;
}

/** A way to compute a contraction. */
export interface Product {
  /** A line for people. */
  readonly source: string;
  /** True where it computes what follows the contraction as well, from all inputs of the kernel. */
  readonly hasEpilogue: boolean;
  /**
   * Computes it from its operands; false where they do not allow that, and the result is of no use.
   */
  run(a: HostBlock, b: HostBlock, c: HostBlock, inputs: readonly HostBlock[]): boolean;
}

/** Finds a way that takes fewer operations than products of matrices, or null. */
export type FindProduct = (
  given: FloatContraction,
  runtime: WasmRuntime,
  host: GemmHost,
) => Product | null;

/**
 * A runner for a contraction of floats, or null where there is nothing to gain. Operands may be padded where
 * `findFaster` finds a way that reads them so.
 */
export function contractionRunner(
  kernel: LoopKernel,
  runtime: WasmRuntime,
  host: GemmHost,
  findFaster: FindProduct = () => null,
): PartialRunner | null {
  const given = kernel.contraction;
  if (!given || !isFloat(given.dtype) || given.dtype === "float64") return null;
  const isPadded = given.a.bounds.length + given.b.bounds.length > 0;
  const copies = [given.a.dtype !== "float32", given.b.dtype !== "float32"] as const;
  if (isPadded && copies.includes(true)) return null;
  if (extent(kernel, kernel.outer) * extent(kernel, kernel.inner) < MIN_PRODUCTS) return null;
  const output = kernel.outputs.findIndex((o) => o.dtype === "float32");
  const target = output < 0 ? rowMajor(kernel, kernel.outer) : kernel.outputs[output]!.index;
  const { plan, prepared, contraction } = choose(kernel, given, target, copies, host);
  const epilogue = epilogueOf(kernel, "float32", target, output < 0 ? null : output);
  const fused = (symbols: LineSymbols): FusedEpilogue | null =>
    epilogue && FusedEpilogue.of(kernel, symbols);
  const form = { kernel, contraction, target, epilogueOf: fused, cost: plan.cost };
  const faster = findFaster(form, runtime, host);
  if (isPadded && faster === null) return null;
  if (faster === null && isQuickerAsSum(kernel, given, plan)) {
    const sum = host.compile(kernel);
    return { source: sum.source, run: (inputs, outputs) => (sum.run(inputs, outputs), true) };
  }
  const own = fused(lineSymbols(contraction, plan));
  const after = epilogue && (own === null || faster?.hasEpilogue === false)
    ? host.compile(collapse(epilogue))
    : null;
  const product = isPadded ? null : new ProductRunner(plan, runtime, host, own);
  const finish = (inputs: Blocks, outputs: Blocks, x: HostBlock, y: HostBlock, c: HostBlock) => {
    if (faster?.run(x, y, c, inputs)) {
      if (!faster.hasEpilogue) after?.run([...inputs, c], outputs);
      return true;
    }
    const [left, right] = plan.isSwapped ? [y, x] : [x, y];
    if (product === null || !product.run(left, right, c, inputs)) return false;
    if (own === null) after?.run([...inputs, c], outputs);
    return true;
  };
  return {
    source: [
      ...prepared.flatMap(({ copy }) => copy ? [copy.source] : []),
      faster?.source ?? [describe(plan), ...own ? [own.source] : []].join("\n"),
      ...after ? [after.source] : [],
    ].join("\n"),
    run: (inputs, outputs) =>
      withOperand(
        host,
        prepared[0],
        inputs,
        (x) =>
          withOperand(host, prepared[1], inputs, (y) => {
            if (output >= 0) return finish(inputs, outputs, x, y, outputs[output]!);
            const size = extent(kernel, kernel.outer);
            return host.withScratch("float32", size, (c) => finish(inputs, outputs, x, y, c));
          }),
      ),
  };
}

/** The lines of a product's result: along its columns or, where these do not lie side by side, its rows. */
function lineSymbols({ batch, m, n }: Contraction, { c, isSwapped }: ProductPlan): LineSymbols {
  const [rows, columns] = isSwapped ? [n, m] : [m, n];
  return contiguousAxis(c) === "columns"
    ? { batch, across: rows, along: columns }
    : { batch, across: columns, along: rows };
}

/** Multiplications that a core does in a nanosecond where one loop adds them up. */
const SUM_SPEED = 5;

/**
 * True when elements are better added up one by one: one row leaves most of a tile empty, and
 * windows of an image are copied for it alone.
 */
function isQuickerAsSum(kernel: LoopKernel, c: Contraction, { m, n, cost }: ProductPlan): boolean {
  const isFloat32 = [c.a.dtype, c.b.dtype, c.dtype].every((dtype) => dtype === "float32");
  if (!isFloat32 || Math.min(m, n) > 1 || kernel.reductions.length > 0) return false;
  return extent(kernel, kernel.outer) * extent(kernel, kernel.inner) / SUM_SPEED < cost;
}

type Blocks = readonly HostBlock[];

/** An operand as floats: where it lies, or a copy of half floats. */
interface Operand {
  readonly load: Load;
  readonly copy: Runner | null;
  readonly size: number;
}

/** The cheaper of the two ways round, with some operands copied first. */
function choose(
  kernel: LoopKernel,
  c: Contraction,
  target: AffineExpr,
  copies: readonly [boolean, boolean],
  host: GemmHost,
): { plan: ProductPlan; prepared: readonly [Operand, Operand]; contraction: Contraction } {
  const prepare = (load: Load, which: 0 | 1): Operand =>
    copies[which] ? copied(kernel, c, load, which, host) : { load, copy: null, size: 0 };
  const prepared = [prepare(c.a, 0), prepare(c.b, 1)] as const;
  const loads = { ...c, a: prepared[0].load, b: prepared[1].load };
  const straight = planSides(kernel, loads, target, false);
  const swapped = planSides(kernel, loads, target, true);
  const plan = swapped.cost < straight.cost ? swapped : straight;
  return { plan, prepared, contraction: loads };
}

/** A row-major copy of an operand, as floats. */
function copied(
  kernel: LoopKernel,
  c: Contraction,
  load: Load,
  which: 0 | 1,
  host: GemmHost,
): Operand {
  const moving = c.batch.filter((s) => coefficient(load.index, s) !== 0);
  const symbols = [...moving, ...which === 0 ? [...c.m, ...c.k] : [...c.n, ...c.k]];
  const packed = pack(kernel, load, symbols, "float32");
  return { load: packed.load, copy: host.compile(packed.kernel), size: packed.size };
}

function withOperand<T>(
  host: GemmHost,
  { load, copy, size }: Operand,
  inputs: readonly HostBlock[],
  use: (block: HostBlock) => T,
): T {
  const input = inputs[load.input]!;
  if (copy === null) return use(input);
  return host.withScratch("float32", size, (block) => {
    copy.run([input], [block]);
    return use(block);
  });
}
