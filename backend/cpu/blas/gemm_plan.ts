/**
 * Finds the matrices in a contraction. Operands that are not matrices (windows of a convolution,
 * half types, several summed axes) are copied into some first; what follows the contraction becomes
 * a loop of its own over the product, in place where an output can hold it.
 */
import { type AffineExpr, coefficient, linearize, symbol } from "../../kernel/affine.ts";
import { collapse } from "../../kernel/collapse.ts";
import { type DType, isFloat } from "../../graph/dtype.ts";
import { pushOperand } from "../../kernel/forms/summed_products.ts";
import {
  type Contraction,
  type Expr,
  extent,
  type Load,
  type LoopKernel,
} from "../../kernel/kernel.ts";
import { sizeOf, stridesOf } from "../../graph/shape.ts";
import type { GemmType } from "./gemm.ts";

/** One matrix: its first element, and how its rows lie. */
export interface MatrixPlan {
  readonly offset: number;
  readonly isTransposed: boolean;
  readonly leading: number;
}

/** A loop over matrices: how far each of them moves. */
export interface BatchLoop {
  readonly size: number;
  readonly steps: readonly [a: number, b: number, c: number];
}

/** One product for each combination of the batch loops. */
export interface ProductPlan {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly a: MatrixPlan;
  readonly b: MatrixPlan;
  readonly c: MatrixPlan;
  readonly batch: readonly BatchLoop[];
  /** The operands have changed places: c is walked by columns. */
  readonly isSwapped: boolean;
}

/** Source of an operand: an input, or a copy of one. */
export interface OperandPlan {
  readonly input: number;
  /** Copies the input into a matrix of `size` elements. */
  readonly pack: { readonly kernel: LoopKernel; readonly size: number } | null;
}

/** The whole kernel as products and loops. */
export interface GemmPlan {
  readonly dtype: GemmType;
  readonly product: ProductPlan;
  readonly a: OperandPlan;
  readonly b: OperandPlan;
  /** The output that the product is written to, or null: to a scratch of `size` elements. */
  readonly output: number | null;
  readonly size: number;
  /** Kernel behind the product, its last input; null where the product is the result. */
  readonly epilogue: LoopKernel | null;
}

/** A copy must be read this often to pay. */
const MIN_READS = 8;

/**
 * A library adds up longer sums one block after the other, and drifts: OpenBLAS 0.3.21 is off by 7e-4 at
 * 1,000,000 equal terms.
 */
const MAX_TERMS = 1 << 14;

/** Plans a contraction by products of at least `minProducts` multiplications, or null. */
export function planGemm(kernel: LoopKernel, minProducts: number): GemmPlan | null {
  const c = kernel.contraction;
  if (!c || !isFloat(c.dtype) || c.a.bounds.length + c.b.bounds.length > 0) return null;
  const terms = extent(kernel, kernel.inner);
  if (extent(kernel, kernel.outer) * terms < minProducts || terms > MAX_TERMS) return null;
  const dtype = c.dtype === "float64" ? "float64" : "float32";
  const targets = [...kernel.outputs.keys()].filter((o) => kernel.outputs[o]!.dtype === dtype);
  for (const [packA, packB] of packings(kernel, c, dtype)) {
    for (const output of [...targets, null]) {
      const plan = planWith(kernel, c, dtype, [packA, packB], output, minProducts);
      if (plan) return plan;
    }
  }
  return null;
}

/** Operands to copy, the cheapest choice first. */
function packings(kernel: LoopKernel, c: Contraction, dtype: GemmType): [boolean, boolean][] {
  const mayPack = [
    extent(kernel, c.n) >= MIN_READS,
    extent(kernel, c.m) >= MIN_READS,
  ] as const;
  const must = [c.a.dtype !== dtype, c.b.dtype !== dtype] as const;
  const all: [boolean, boolean][] = [[false, false], [true, false], [false, true], [true, true]];
  return all.filter((choice) =>
    choice.every((pack, k) => pack ? mayPack[k as 0 | 1] : !must[k as 0 | 1])
  );
}

function planWith(
  kernel: LoopKernel,
  c: Contraction,
  dtype: GemmType,
  [packA, packB]: readonly [boolean, boolean],
  output: number | null,
  minProducts: number,
): GemmPlan | null {
  const a = packA ? pack(kernel, c.a, [...moving(c.batch, c.a), ...c.m, ...c.k], dtype) : null;
  const b = packB ? pack(kernel, c.b, [...moving(c.batch, c.b), ...c.k, ...c.n], dtype) : null;
  const target = output === null ? rowMajor(kernel, kernel.outer) : kernel.outputs[output]!.index;
  const core = collapse({
    ...kernel,
    loads: [],
    indirect: [],
    exprs: [],
    reductions: [],
    contraction: { ...c, a: a?.load ?? c.a, b: b?.load ?? c.b },
    outputs: [{ expr: 0, dtype, index: target, size: extent(kernel, kernel.outer) }],
  });
  const product = planProduct(core, minProducts);
  if (!product) return null;
  return {
    dtype,
    product,
    a: { input: c.a.input, pack: a },
    b: { input: c.b.input, pack: b },
    output,
    size: extent(kernel, kernel.outer),
    epilogue: epilogueOf(kernel, dtype, target, output),
  };
}

/** The batch indices that an operand changes with. */
function moving(batch: readonly number[], load: Load): number[] {
  return batch.filter((s) => coefficient(load.index, s) !== 0);
}

/** The index of a row-major array over `symbols`. */
export function rowMajor(kernel: LoopKernel, symbols: readonly number[]): AffineExpr {
  const sizes = symbols.map((s) => kernel.sizes[s]!);
  return linearize(symbols.map(symbol), stridesOf(sizes));
}

/** A kernel that copies an operand into a row-major array over `symbols`: 0 outside of its bounds. */
export function pack(
  kernel: LoopKernel,
  load: Load,
  symbols: readonly number[],
  dtype: DType,
): { kernel: LoopKernel; size: number; load: Load } {
  const size = sizeOf(symbols.map((s) => kernel.sizes[s]!));
  const index = rowMajor(kernel, symbols), exprs: Expr[] = [];
  const expr = pushOperand(exprs, 0, load, load.dtype);
  const copy: LoopKernel = {
    kind: "loop",
    sizes: kernel.sizes,
    outer: symbols,
    inner: [],
    inputs: [load.dtype],
    loads: [{ ...load, input: 0 }],
    indirect: [],
    exprs,
    reductions: [],
    contraction: null,
    outputs: [{ expr, dtype, index, size }],
    label: "pack",
  };
  return { kernel: collapse(copy), size, load: { ...load, dtype, index, bounds: [] } };
}

/** Kernel behind the contraction; the product is an input of its own. */
export function epilogueOf(
  kernel: LoopKernel,
  dtype: GemmType,
  index: AffineExpr,
  output: number | null,
): LoopKernel | null {
  const isPlain = (o: number): boolean =>
    kernel.exprs[kernel.outputs[o]!.expr]!.op === "contracted";
  if (output !== null && kernel.outputs.length === 1 && isPlain(output)) return null;
  const load = kernel.loads.length;
  return {
    ...kernel,
    inner: [],
    contraction: null,
    inputs: [...kernel.inputs, dtype as DType],
    loads: [...kernel.loads, { input: kernel.inputs.length, dtype, index, bounds: [] }],
    exprs: kernel.exprs.map((e) =>
      e.op === "contracted" ? { op: "load", load, dtype: e.dtype } : e
    ),
  };
}

/** One dimension of a product: its size, and how far each matrix moves with it. */
interface Dimension {
  readonly size: number;
  readonly a: number;
  readonly b: number;
  readonly c: number;
}

function planProduct(core: LoopKernel, minProducts: number): ProductPlan | null {
  const contraction = core.contraction!;
  const [a, b, c] = [contraction.a.index, contraction.b.index, core.outputs[0]!.index];
  if ([contraction.m, contraction.n, contraction.k].some((group) => group.length > 1)) return null;
  const dimension = ([s]: readonly number[]): Dimension =>
    s === undefined ? { size: 1, a: 0, b: 0, c: 0 } : {
      size: core.sizes[s]!,
      a: coefficient(a, s),
      b: coefficient(b, s),
      c: coefficient(c, s),
    };
  const [m, n, k] = [contraction.m, contraction.n, contraction.k].map(dimension) as [
    Dimension,
    Dimension,
    Dimension,
  ];
  if (m.size * n.size * k.size < minProducts) return null;
  const batch = contraction.batch.map((s): BatchLoop => {
    const { size, a, b, c } = dimension([s]);
    return { size, steps: [a, b, c] };
  });
  const space = { m, n, k, offsets: [a.offset, b.offset, c.offset], batch } as const;
  return productOf(space, false) ?? productOf(transposed(space), true);
}

/** The loops of a product, and where its matrices begin. */
interface Space {
  readonly m: Dimension;
  readonly n: Dimension;
  readonly k: Dimension;
  readonly offsets: readonly [a: number, b: number, c: number];
  readonly batch: readonly BatchLoop[];
}

function productOf({ m, n, k, offsets, batch }: Space, isSwapped: boolean): ProductPlan | null {
  const a = layout(m.a, k.a, m.size, k.size, offsets[0]);
  const b = layout(k.b, n.b, k.size, n.size, offsets[1]);
  const c = layout(m.c, n.c, m.size, n.size, offsets[2]);
  if (!a || !b || !c || c.isTransposed) return null;
  return { m: m.size, n: n.size, k: k.size, a, b, c, batch, isSwapped };
}

/** The transposed product, of the operands in the other order: for where c is walked by columns. */
function transposed({ m, n, k, offsets: [a, b, c], batch }: Space): Space {
  const swap = (d: Dimension): Dimension => ({ ...d, a: d.b, b: d.a });
  return {
    m: swap(n),
    n: swap(m),
    k: swap(k),
    offsets: [b, a, c],
    batch: batch.map(({ size, steps: [a, b, c] }) => ({ size, steps: [b, a, c] })),
  };
}

/** Layout of a matrix with these row and column distances; null where it overlaps itself. */
function layout(
  row: number,
  column: number,
  rows: number,
  columns: number,
  offset: number,
): MatrixPlan | null {
  if ((column === 1 || columns === 1) && (row >= columns || rows === 1)) {
    return { offset, isTransposed: false, leading: Math.max(row, columns) };
  }
  if ((row === 1 || rows === 1) && (column >= rows || columns === 1)) {
    return { offset, isTransposed: true, leading: Math.max(column, rows) };
  }
  return null;
}
