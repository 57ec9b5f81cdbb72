/**
 * The structure of a kernel: what is left of it when buffers, sizes and numbers that a launch hands over
 * are left out. Kernels of equal structure that are mapped to work-items alike have one text.
 */
import { type AffineExpr, affineKey } from "./affine.ts";
import { type DType, dtypes } from "../graph/dtype.ts";
import { fixedExprs, shiftedProducts } from "./analysis.ts";
import type { Bound, Contraction, Expr, Load, LoopKernel } from "./kernel.ts";

/** Steps up to this one are written as numbers: a compiler then sees that elements interleave. */
const MAX_WRITTEN_STEP = 4;
/** Constants that are written as numbers; others are arguments, so that kernels are shared. */
const WRITTEN_CONSTANTS: readonly number[] = [0, 1, -1, 2, 0.5];
/** Bytes of an index or a size among the arguments. */
const INDEX_BYTES = 4;

/** Structure that kernels of one text share, and what a launch hands over beside buffers. */
export interface KernelStructure {
  readonly key: string;
  /** Bytes of the numbers among a launch's arguments; those of a mapping come on top. */
  readonly numberBytes: number;
  /** Of them those that come again with every copy of the statements. */
  readonly copiedBytes: number;
}

/** The structure of a loop kernel; of a contraction what follows from its tile comes on top. */
export function structureOf(kernel: LoopKernel): KernelStructure {
  const { outer, inner, chunk, inputs, indirect, exprs, reductions, outputs, contraction } = kernel;
  const numbers = new Numbers(kernel);
  const index = (e: AffineExpr): string => numbers.affine(e);
  const loaded = (l: Load): string =>
    `${l.input}${l.dtype}${l.packed?.format ?? ""}[${index(l.index)}]${numbers.bounds(l.bounds)}`;
  const hidden = hiddenConstants(kernel);
  const parts = [
    outer.join(),
    inner.join(),
    chunk ? `${chunk.symbol}by${chunk.part}` : "",
    inputs.join(),
    kernel.loads.map(loaded).join(),
    contraction ? contractionText(contraction, loaded) : "",
    indirect.map((d) => `${d.symbol}:${d.expr}`).join(),
    exprs.map((e, id) => `${e.op}:${e.dtype}${textOf(e, numbers, hidden.has(id))}`).join(";"),
    reductions.map((r) => `${r.fn}:${r.dtype}:${r.expr}[${index(r.index)}]`).join(),
    outputs.map((o) => `${o.expr}${o.dtype}[${index(o.index)}]`).join(),
  ];
  // The 1 of shifted products, which a writer may take: see Dialect.contracts.
  for (const id of shiftedProducts(kernel)) numbers.constant(1, exprs[id]!.dtype, true);
  return { key: parts.join("|"), numberBytes: numbers.bytes, copiedBytes: numbers.copiedBytes };
}

function contractionText(
  { batch, m, n, k, a, b, dtype, precision }: Contraction,
  loaded: (load: Load) => string,
): string {
  return `${batch}/${m}/${n}/${k}:${dtype}${precision ?? ""} ${loaded(a)} ${loaded(b)}`;
}

function textOf(e: Expr, numbers: Numbers, isHidden: boolean): string {
  switch (e.op) {
    case "load":
      return `${e.load}`;
    case "constant":
      return numbers.constant(e.value, e.dtype, isHidden);
    case "index":
      return `[${numbers.index(e.index)}]`;
    case "random":
      return `[${numbers.affine(e.index)}]${numbers.randomKey()}`;
    case "primitive":
      return `${e.fn}(${e.args})`;
    case "cast":
      return `(${e.args})`;
    case "inside":
      return numbers.bounds(e.bounds);
    case "reduced":
      return `${e.reduction}`;
    case "contracted":
      return "";
  }
}

/**
 * Constants that must not be seen by a compiler: those that it could compute with, or that are not
 * finite. PoCL 3.1 converts floats to integers inside exp, exp2, expm1, sinh, tanh, floor, ceil and
 * trunc; of a constant NaN that is undefined behaviour to LLVM, which then removes the store of the
 * result (and crashes in rint). An argument has a value at run time only, where all of these are right.
 */
export function hiddenConstants(kernel: LoopKernel): ReadonlySet<number> {
  const { exprs } = kernel;
  const isFixed = fixedExprs(kernel);
  const found = new Set<number>();
  exprs.forEach((e, id) => {
    if (e.op === "constant" && !Number.isFinite(e.value)) found.add(id);
    if (!isFixed[id] || !("args" in e)) return;
    for (const a of e.args) if (exprs[a]!.op === "constant") found.add(a);
  });
  return found;
}

/** True for a constant that stands in the text. */
export function isWrittenConstant(value: number, isHidden: boolean): boolean {
  return !isHidden && WRITTEN_CONSTANTS.includes(value);
}

/** True for a step that stands in the text. */
export const isWrittenStep = (step: number): boolean => step > 0 && step <= MAX_WRITTEN_STEP;

/** Names for numbers: equal ones share an argument, so which are equal belongs to the structure. */
class Numbers {
  readonly #indices = new Map<string, string>();
  readonly #constants = new Map<string, string>();
  bytes: number;
  copiedBytes = 0;

  constructor({ outer, inner, chunk, indirect }: LoopKernel) {
    // The size of each loop, and of a part; the bound of each index that is read, and the code of its operation.
    const sizes = outer.length + inner.length + (chunk ? 1 : 0);
    this.bytes = INDEX_BYTES * (sizes + 2 * indirect.length);
  }

  affine(index: AffineExpr): string {
    const key = affineKey(index);
    const known = this.#indices.get(key);
    if (known !== undefined) return known;
    const terms = index.terms.map(([s, c]) => {
      if (isWrittenStep(c)) return `${c}i${s}`;
      this.bytes += INDEX_BYTES;
      return `*i${s}`;
    });
    if (index.offset !== 0) {
      this.bytes += INDEX_BYTES;
      terms.push("*");
    }
    const name = `${this.#indices.size}:${terms.join("+")}`;
    this.#indices.set(key, name);
    return name;
  }

  /** An index as a value: its offset where it is fixed, its step where it is a vector. */
  index(affine: AffineExpr): string {
    this.#copied(1);
    return this.affine(affine);
  }

  #copied(indices: number): void {
    this.bytes += INDEX_BYTES * indices;
    this.copiedBytes += INDEX_BYTES * indices;
  }

  bounds(bounds: readonly Bound[]): string {
    this.#copied(bounds.length);
    return bounds.map((b) => `<${this.affine(b.index)}`).join("");
  }

  constant(value: number, dtype: DType, isHidden: boolean): string {
    if (isWrittenConstant(value, isHidden)) return Object.is(value, -0) ? "-0" : `${value}`;
    const key = `${dtype}:${value}`;
    const known = this.#constants.get(key);
    if (known !== undefined) return known;
    this.bytes += Math.max(INDEX_BYTES, dtypes[dtype].bytes);
    const name = `#${this.#constants.size}`;
    this.#constants.set(key, name);
    return name;
  }

  /** The key of a random number, its place in the sequence, and the step of its counters in vectors. */
  randomKey(): string {
    this.#copied(3);
    return "";
  }
}
