/**
 * One kernel's work, in terms that know neither OpenCL C nor JavaScript: loops, loads, scalar
 * expressions, reductions, stores. backend/schedule makes them from nodes, the code generators of the
 * backends write them out; both ask this folder what a kernel's structure says (its analysis, its index
 * range, which kernels are alike) and which device it is for (`target.ts`). It imports backend/graph alone.
 */
import type { AttentionKernel } from "./attention.ts";
import type { DType } from "../graph/dtype.ts";
import { type AffineExpr, affineKey } from "./affine.ts";
import type { BlockFormatName } from "../formats/block_formats.ts";
import type { CustomCall } from "../graph/custom.ts";
import type { PrimitiveName } from "../graph/primitives.ts";
import { isArgReduction } from "../graph/reductions.ts";
import type { Float32Precision, RecurrenceOp, ReduceFn, RowOp, ScatterMode } from "../graph/op.ts";
import type { RandomStream } from "../graph/scalar.ts";

/** One condition of a bounds mask; a padded element exists where all hold: `0 <= index < size`. */
export interface Bound {
  readonly index: AffineExpr;
  readonly size: number;
}

/** An indirect index, read from memory: the value of an integer expression, checked at run time. */
export interface IndirectIndex {
  /** Its symbol in indices. */
  readonly symbol: number;
  /** The expression that gives it. */
  readonly expr: number;
  /** Valid values are 0 to `size - 1`. */
  readonly size: number;
  /** The operation that a user called, for the error message. */
  readonly opName: string;
}

/** Layout of elements in blocks of a format; the kernel's input is their bytes. */
export interface PackedLoad {
  readonly format: BlockFormatName;
  /** Number of blocks. */
  readonly blocks: number;
}

/** One value read from a buffer. */
export interface Load {
  /** Number of the kernel's input. */
  readonly input: number;
  /** The type of the value. */
  readonly dtype: DType;
  /** Element index. */
  readonly index: AffineExpr;
  /** Blocks from which elements are decoded. */
  readonly packed?: PackedLoad;
  /** Outside these the buffer must not be touched. */
  readonly bounds: readonly Bound[];
}

/** A scalar expression; operands are earlier entries of the kernel's list. */
export type Expr =
  & { readonly dtype: DType }
  & (
    | { readonly op: "load"; readonly load: number }
    | { readonly op: "constant"; readonly value: number }
    /** The value of an index, as a number. */
    | { readonly op: "index"; readonly index: AffineExpr }
    | {
      readonly op: "random";
      readonly index: AffineExpr;
      readonly seed: number;
      readonly stream: RandomStream;
    }
    | { readonly op: "primitive"; readonly fn: PrimitiveName; readonly args: readonly number[] }
    | { readonly op: "cast"; readonly args: readonly number[] }
    /** True inside all bounds. */
    | { readonly op: "inside"; readonly bounds: readonly Bound[] }
    /** The result of one of the kernel's reductions. */
    | { readonly op: "reduced"; readonly reduction: number }
    /** The result of the kernel's contraction. */
    | { readonly op: "contracted" }
  );

/** A reduction over the kernel's inner loops. */
export interface Reduction {
  readonly fn: ReduceFn;
  /** Reduced value. */
  readonly expr: number;
  readonly dtype: DType;
  /** The position of the element, for argmax and argmin. */
  readonly index: AffineExpr;
}

/** The type that a reduction accumulates in: that of its input for arg-reductions. */
export function accumulatorType(kernel: LoopKernel, { fn, expr, dtype }: Reduction): DType {
  return isArgReduction(fn) ? kernel.exprs[expr]!.dtype : dtype;
}

/** One value written by the kernel: a result, or a piece of one that others are beside in its buffer. */
export interface Output {
  readonly expr: number;
  readonly dtype: DType;
  readonly index: AffineExpr;
  /** Elements that are written. */
  readonly size: number;
}

/** The loops of a contraction: symbols by role, and its two operands. */
export interface Contraction {
  readonly batch: readonly number[];
  readonly m: readonly number[];
  readonly n: readonly number[];
  readonly k: readonly number[];
  readonly a: Load;
  readonly b: Load;
  readonly dtype: DType;
  /** Precision of float32 products; default: "highest". */
  readonly precision?: Float32Precision;
}

/** Loops over `outer` and, per element of it, over `inner`: symbols, with the size of each. */
export interface LoopNest {
  readonly sizes: readonly number[];
  readonly outer: readonly number[];
  readonly inner: readonly number[];
}

/**
 * A preparation by another kernel, as one more input: an operand as matrix units read it, the targets of a
 * scatter in order, and the places that their sources had.
 */
export interface PreparedOperand {
  readonly name: "a" | "b" | "keys" | "places";
  readonly input: number;
}

/** Loops, and what is computed in them. */
export interface LoopKernel extends LoopNest {
  readonly kind: "loop";
  readonly inputs: readonly DType[];
  readonly loads: readonly Load[];
  readonly indirect: readonly IndirectIndex[];
  readonly exprs: readonly Expr[];
  readonly reductions: readonly Reduction[];
  readonly contraction: Contraction | null;
  readonly outputs: readonly Output[];
  /** Operands of the contraction that another kernel has prepared. */
  readonly prepared?: readonly PreparedOperand[];
  /** Stored inputs that the next run finds unchanged, as a rule: what follows from one alone is kept. */
  readonly lasting?: readonly number[];
  /** Row `part` walks only `length` elements of one inner loop: the first half of a split reduction. */
  readonly chunk?: { readonly symbol: number; readonly part: number; readonly length: number };
  /** The operations in it, for names and traces. */
  readonly label: string;
}

/** Operations whose loops carry state or scatter: written by hand in each backend. */
export type SpecialKernel = {
  readonly kind: "special";
  readonly inputs: readonly DType[];
  readonly output: { readonly dtype: DType; readonly size: number };
  /** The order of a scatter's sources, where another kernel has found it. */
  readonly prepared?: readonly PreparedOperand[];
  readonly label: string;
} & SpecialOp;

/** Rows that an operation walks, of `length` elements; `count` are stored of each, or of its order. */
export interface Rows {
  readonly rows: number;
  readonly length: number;
  readonly count: number;
}

/** An operation along the last axis, with what its node says. */
export type RowKernelOp<O extends RowOp = RowOp> = O extends RowOp
  ? Omit<O, "kind"> & { readonly op: O["kind"] } & Rows
  : never;

/** A recurrent layer over all steps of time, with its sizes; `RecurrenceOp` says what lies where. */
export interface RecurrenceOfSizes extends Omit<RecurrenceOp, "kind"> {
  readonly op: "recurrence";
  /** T, N and H. */
  readonly steps: number;
  readonly batch: number;
  readonly features: number;
  /** Columns of the weights for each H. */
  readonly columns: number;
  /** Values that are stored for each feature and step of a forward pass. */
  readonly planes: number;
}

/** Operation of a special kernel; shapes are those of the nodes. */
export type SpecialOp =
  | {
    readonly op: "scatter";
    /** A kernel that writes finds the base in its output. */
    readonly mode: ScatterMode;
    /** Shape of base and result, shape of the source, steps in the indices (0: broadcast). */
    readonly shape: readonly number[];
    readonly sourceShape: readonly number[];
    readonly indexStrides: readonly number[];
    readonly axis: number;
    readonly opName: string;
    /** The number that the base is everywhere: none is read then, and the source is the first input, too. */
    readonly fill?: number;
  }
  | RowKernelOp
  | RecurrenceOfSizes;

/** One call of a kernel that a user wrote. */
export interface CustomKernelCall {
  readonly kind: "custom";
  readonly inputs: readonly DType[];
  /** Numbers of the call's outputs that have buffers, in launch order; the others are empty. */
  readonly stored: readonly number[];
  /** True where an input or an output has no elements. */
  readonly hasEmpty: boolean;
  readonly call: CustomCall;
  readonly label: string;
}

/** One piece of work. */
export type Kernel = LoopKernel | SpecialKernel | AttentionKernel | CustomKernelCall;

/** Kernels that may share a launch. */
export type SharedKernel = LoopKernel | SpecialKernel;

/** Kernels that do the same with other buffers and sizes, and do not depend on each other. */
export interface HorizontalKernel {
  readonly kind: "horizontal";
  /** Their inputs are the batch's inputs, one after the other; so are their outputs. */
  readonly members: readonly SharedKernel[];
  /** Buffers that each of them writes: its results, and behind them its scratch. */
  readonly written: readonly number[];
  readonly label: string;
}

/** Kinds of launches. */
export type Launchable = Kernel | HorizontalKernel;

/** True for a kernel whose output is its first input, in the same memory. */
export function writesInPlace(kernel: Launchable): boolean {
  return kernel.kind === "special" && kernel.op === "scatter" && kernel.mode === "write";
}

/** Inputs that a launch changes where they are, with the outputs that they become, by their places. */
export function changedInPlace(
  kernel: Launchable,
): readonly (readonly [input: number, output: number])[] {
  if (kernel.kind !== "horizontal") return writesInPlace(kernel) ? [[0, 0]] : [];
  let input = 0, output = 0;
  return kernel.members.flatMap((member, k) => {
    const changed = writesInPlace(member) ? [[input, output] as const] : [];
    input += member.inputs.length;
    output += kernel.written[k]!;
    return changed;
  });
}

/** The number of iterations over the given symbols. */
export function extent(kernel: LoopKernel, symbols: readonly number[]): number {
  let n = 1;
  for (const s of symbols) n *= kernel.sizes[s]!;
  return n;
}

/** True for a kernel that neither reduces nor contracts. */
export function isMap({ inner, reductions, contraction }: LoopKernel): boolean {
  return inner.length === 0 && reductions.length === 0 && contraction === null;
}

/** True where a kernel decodes elements from blocks: a template must say that it can. */
export function readsPacked({ loads, contraction }: LoopKernel): boolean {
  return loads.some(({ packed }) => packed) ||
    contraction !== null && (contraction.a.packed ?? contraction.b.packed) !== undefined;
}

/** A text that is equal for loads of the same element of the same input. */
export function loadKey(load: Load): string {
  let key = `${load.input}${load.packed ? load.dtype : ""}:${affineKey(load.index)}`;
  for (const g of load.bounds) key += `|${affineKey(g.index)}<${g.size}`;
  return key;
}
