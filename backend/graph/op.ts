/** Operation of an expression graph's node on its inputs. */
import type { AttentionCall } from "./attention.ts";
import type { BlockFormatName } from "../formats/block_formats.ts";
import type { CustomCall } from "./custom.ts";
import type { DType } from "./dtype.ts";
import type { PrimitiveName } from "./primitives.ts";
import type { RandomStream } from "./scalar.ts";
import type { Shape } from "./shape.ts";

/**
 * Precision of float32 products: "highest" keeps float32's accuracy; "high" and "medium" may
 * round their operands to 11 significant bits where a device multiplies those faster.
 */
export type Float32Precision = "highest" | "high" | "medium";

/** Operation by which a reduction joins its elements. */
export type ReduceFn = "sum" | "prod" | "max" | "min" | "argmax" | "argmin";

/** Join of a running result with each element. */
export type ScanFn = "sum" | "prod" | "max" | "min";

/** Join of a scattered element with the one at its place; "set" and "write" store it. */
export type ScatterMode = "add" | "max" | "min" | "set" | "write";

/** Mapping of a view's coordinates to those of its input. */
export type ViewOp =
  | { readonly kind: "reshape" }
  | { readonly kind: "permute"; readonly axes: readonly number[] }
  | { readonly kind: "expand" }
  /** Coordinate `i` reads `start + i * step`; a step may be negative. */
  | {
    readonly kind: "slice";
    readonly starts: readonly number[];
    readonly steps: readonly number[];
  }
  /** `before` elements of `value` in front of each axis, as many behind as the shape says. */
  | { readonly kind: "pad"; readonly before: readonly number[]; readonly value: number }
  /** The last axes become (positions..., kernel...): position `p`, tap `k` reads `p*stride + k*dilation`. */
  | {
    readonly kind: "im2col";
    readonly kernel: readonly number[];
    readonly stride: readonly number[];
    readonly dilation: readonly number[];
  };

/** Operations along the last axis whose loop carries a state from one element to the next. */
export type RowOp =
  /** Running result of a join: running sums, products, extremes. */
  | { readonly kind: "scan"; readonly fn: ScanFn }
  /** Indices that sort the axis, stable; the first of them where the result's axis is shorter. */
  | { readonly kind: "argsort"; readonly descending: boolean };

const rowKinds: Readonly<Record<RowOp["kind"], true>> = { scan: true, argsort: true };

/** True when an operation walks the last axis with a state. */
export const isRowOp = (op: Op): op is RowOp => op.kind in rowKinds;

/** The kinds of recurrent layers; those of one gate are called by its activation. */
export type RecurrentGates = "lstm" | "gru" | "tanh" | "relu";

/** Of what a kind has how many. */
export interface GateCounts {
  readonly gates: number;
  /** Tensors of a state. */
  readonly states: number;
  /** Values that a step stores for the backward pass beside its state. */
  readonly kept: number;
  /** Blocks of a step's gradients. */
  readonly blocks: number;
}

/** See {@linkcode GateCounts}. */
export const gateCounts: Readonly<Record<RecurrentGates, GateCounts>> = {
  lstm: { gates: 4, states: 2, kept: 4, blocks: 4 },
  gru: { gates: 3, states: 1, kept: 4, blocks: 4 },
  tanh: { gates: 1, states: 1, kept: 0, blocks: 1 },
  relu: { gates: 1, states: 1, kept: 0, blocks: 1 },
};

/**
 * A recurrent layer over all steps of time: T steps, N rows that are independent of each other, H
 * features, G gates, S tensors of a state. Weights have P columns for each H, P no less than H.
 *
 * - `forward`: inputs (T, N, G * H), what the inputs give each step; the weights (H, G * P), transposed;
 *   the first state (S, N, H); for a GRU perhaps the bias (G * H) of the product with h. Output
 *   (planes, T + 1, N, H): the states, then perhaps what `backward` reads besides: an LSTM's gates
 *   in PyTorch's order; a GRU's gates and its candidate's product with h. The first state is in
 *   front of what the steps give, or behind it where they go from the last to the first.
 * - `backward`: inputs such planes, the gradient of the states (S, T, N, H), and the weights
 *   (G * H, P). Output (T + 1, N, blocks * H): the blocks of each step, for an LSTM those of its
 *   gates, for a GRU those of candidate, reset, update and the candidate's product with h. Behind the
 *   last step the first S blocks are the gradient of the first state.
 */
export interface RecurrenceOp {
  /** The operation. */
  readonly kind: "recurrence";
  /** The states of all steps, or their gradients. */
  readonly pass: "forward" | "backward";
  /** Gates of a step from one state to the next. */
  readonly gates: RecurrentGates;
  /** True when the steps go from the last to the first. */
  readonly isReverse: boolean;
}

/** A node of a template: its inputs are places in the list, which begins with the template's inputs. */
export interface TemplateNode {
  /** Operation on its inputs. */
  readonly op: Op;
  /** Places of what it is made from. */
  readonly inputs: readonly number[];
  /** Its shape. */
  readonly shape: Shape;
  /** Its element type. */
  readonly dtype: DType;
}

/** Expressions of given inputs as a list. */
export interface ExpressionList {
  /** Tells it from others. */
  readonly id: number;
  /** Nodes behind the inputs, each behind what it is made from. */
  readonly nodes: readonly TemplateNode[];
  /** Places of the results. */
  readonly results: readonly number[];
}

/** A call of a routine; its outputs are nodes that share it, and its inputs. */
export interface RoutineCall {
  /** Nodes that it stands for. */
  readonly template: ExpressionList;
  /** Those of the template. */
  readonly outputs: readonly { readonly shape: Shape; readonly dtype: DType }[];
}

/** Operation of a node on its inputs. */
export type Op =
  | RowOp
  | RecurrenceOp
  | { readonly kind: "buffer" }
  /** A few bytes that are on the host: they travel with the kernels that read them. */
  | { readonly kind: "data"; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: "constant"; readonly value: number }
  /** 0, 1, 2, ... in row-major order. */
  | { readonly kind: "iota" }
  /** Philox uniform numbers in [0, 1): the element's index is the counter, `stream` and `seed` the key. */
  | { readonly kind: "random"; readonly seed: number; readonly stream: RandomStream }
  | { readonly kind: "elementwise"; readonly fn: PrimitiveName }
  | { readonly kind: "cast" }
  | ViewOp
  | { readonly kind: "reduce"; readonly fn: ReduceFn; readonly axes: readonly number[] }
  /** Inputs (batch..., m..., k...) and (batch..., k..., n...); result (batch..., m..., n...). */
  | {
    readonly kind: "contract";
    readonly batch: number;
    readonly m: number;
    readonly n: number;
    /** Precision of float32 products; default: "highest". */
    readonly precision?: Float32Precision;
  }
  /** `out[..., i, ...] = input[..., indices[..., i, ...], ...]` along `axis`. */
  | { readonly kind: "gather"; readonly axis: number; readonly opName: string }
  /**
   * Numbers of a block format: the input is uint8 with the bytes of all blocks, fields apart
   * (`formats/block_format.ts`). Elements of a block are neighbours along the last axis.
   */
  | { readonly kind: "decode"; readonly format: BlockFormatName }
  /**
   * A copy of the input in which `source` is joined with what is there, or stored, at `indices` along `axis`,
   * in order; "write" stores in the memory of the input itself where nobody else needs its value.
   */
  | {
    readonly kind: "scatter";
    readonly axis: number;
    readonly mode: ScatterMode;
    readonly opName: string;
  }
  /** The same value, in memory: readers load it instead of computing it again. */
  | { readonly kind: "copy" }
  /** One of the outputs of a kernel that a user wrote. */
  | { readonly kind: "custom"; readonly call: CustomCall; readonly output: number }
  /** One of the outputs of a routine: expressions that are planned together. */
  | { readonly kind: "routine"; readonly call: RoutineCall; readonly output: number }
  /** One of the outputs of attention, or of its gradient. */
  | { readonly kind: "attention"; readonly call: AttentionCall; readonly output: number };

/** True where a node's value is computed of numbers, and not only moved; of what is scattered, where it is joined. */
export function hasArithmetic(op: Op): boolean {
  switch (op.kind) {
    case "buffer":
    case "data":
    case "reshape":
    case "permute":
    case "expand":
    case "slice":
    case "im2col":
    case "copy":
    case "custom":
    case "routine":
      return false;
    default:
      return true;
  }
}

/** The stream that an operation draws from, null where it draws nothing. */
export function streamOf(op: Op): RandomStream | null {
  if (op.kind === "random") return op.stream;
  return op.kind === "attention" ? op.call.dropout?.stream ?? null : null;
}
