/** Elements as lanes of explicit vectors, and the kernels that can be written with them. */
import { coefficient } from "../../../kernel/affine.ts";
import { variesWith } from "../../../kernel/analysis.ts";
import type { DType } from "../../../graph/dtype.ts";
import { type PrimitiveName, primitives, type VectorKind } from "../../../graph/primitives.ts";
import { combinerOf, isArgReduction } from "../../../graph/reductions.ts";
import {
  accumulatorType,
  type Bound,
  type Expr,
  type Load,
  type LoopKernel,
  type Reduction,
} from "../../../kernel/kernel.ts";
import { literal, storageType } from "../types.ts";
import { hasVectorForm, renderVector } from "./primitives.ts";

/** Elements of a vector. */
export const LANES = 16;

/** Conversion of a type's elements to lanes and back; `$p` is a pointer, `$v` a vector. */
interface VectorType {
  readonly type: "float16" | "int16";
  /** Forms of primitives for it; null: none, it is read and converted only. */
  readonly kind: VectorKind | null;
  /** From a vector of what lies in memory, `$v`, where that is something else. */
  readonly unpack?: string;
  readonly pack?: string;
  readonly load?: string;
  readonly store?: string;
}

const vectorTypes: Readonly<Record<DType, VectorType | "scalar">> = {
  float32: { type: "float16", kind: "float", store: "store_16($v, $p)" },
  float16: {
    type: "float16",
    kind: "float",
    load: "vload_half16(0, $p)",
    store: "vstore_half16($v, 0, $p)",
  },
  bfloat16: {
    type: "float16",
    kind: "float",
    unpack: "as_float16(convert_uint16($v) << 16)",
    pack: "to_bfloat16_16($v)",
  },
  float64: "scalar",
  int32: { type: "int16", kind: "int" },
  int64: "scalar",
  int16: "scalar",
  int8: "scalar",
  uint32: "scalar",
  // Wraps at 8 bits, which lanes of 32 do not.
  uint8: { type: "int16", kind: null, unpack: "convert_int16($v)" },
  bool: {
    type: "int16",
    kind: "bool",
    unpack: "(convert_int16($v) != 0)",
    pack: "convert_uchar16($v & 1)",
  },
};

const hasLanes = (dtype: DType): boolean => vectorTypes[dtype] !== "scalar";

/** True for the types whose lanes can be written to memory again. */
export const storesLanes = (dtype: DType): boolean => hasLanes(dtype) && dtype !== "uint8";

/** True when there are vectors for a primitive of operands of `dtype`. */
function hasForm(fn: PrimitiveName, dtype: DType): boolean {
  const type = vectorTypes[dtype];
  return type !== "scalar" && type.kind !== null && hasVectorForm(fn, type.kind);
}

/**
 * Conversion of a type's elements to lanes.
 *
 * @throws {Error} For a type that there are no lanes for.
 */
export function lanesOf(dtype: DType): VectorType {
  const type = vectorTypes[dtype];
  if (type === "scalar") throw new Error(`There are no vectors of ${dtype}`);
  return type;
}

/** The lanes of `dtype` at a pointer: all of them, or as many as `left` says. */
export function loadLanes(dtype: DType, pointer: string, left: string): string {
  const { load = "vload16(0, $p)", unpack = "$v" } = lanesOf(dtype);
  const storage = storageType(dtype);
  const text = left === ""
    ? load.replace("$p", pointer)
    : `load_part_${storage}(${pointer}, ${left})`;
  return unpack.replace("$v", text);
}

/**
 * Load of lanes of which those from `low` to before `high` are in memory, and others are 0:
 * neighbours, or every second element.
 */
export function loadBetween(
  dtype: DType,
  pointer: string,
  step: 1 | 2,
  low: string,
  high: string,
): string {
  const { unpack = "$v" } = lanesOf(dtype);
  const name = step === 1 ? "load_between" : "load_apart";
  return unpack.replace("$v", `${name}_${storageType(dtype)}(${pointer}, ${low}, ${high})`);
}

/** The statement that stores `left` pairs of lanes one beside the other: of `even`, of `odd`, and so on. */
export function storePairs(
  dtype: DType,
  pointer: string,
  even: string,
  odd: string,
  left: string,
): string {
  const { pack = "$v" } = lanesOf(dtype);
  const [a, b] = [even, odd].map((value) => pack.replace("$v", value));
  return `store_pairs_${storageType(dtype)}(${a}, ${b}, ${pointer}, ${left});`;
}

/** The statement that stores lanes of `dtype` at a pointer: all of them, or as many as `left` says. */
export function storeLanes(dtype: DType, pointer: string, value: string, left: string): string {
  const { store = "vstore16($v, 0, $p)", pack = "$v" } = lanesOf(dtype);
  const packed = pack.replace("$v", value);
  return left === ""
    ? `${store.replace("$v", packed).replace("$p", pointer)};`
    : `store_part_${storageType(dtype)}(${packed}, ${pointer}, ${left});`;
}

/** True when two vectors of a reduction's results can be joined lane by lane. */
export function joinsLanes(kernel: LoopKernel, reduction: Reduction): boolean {
  const { fn, dtype } = reduction;
  if (!isArgReduction(fn)) return hasForm(combinerOf(fn), dtype);
  return dtype === "int32" && hasForm("eq", accumulatorType(kernel, reduction));
}

/** Reads possible along a loop: their loads, and their bounds. */
export interface LaneReads {
  load(load: Load, symbol: number): boolean;
  inside(bounds: readonly Bound[], symbol: number): boolean;
}

/** Neighbours, all of them in memory. */
const plainReads: LaneReads = {
  load: ({ index, bounds }, symbol) => bounds.length === 0 && coefficient(index, symbol) === 1,
  inside: () => false,
};

/** True when an expression that changes with the loop can be written with vectors. */
function fits(kernel: LoopKernel, e: Expr, symbol: number, reads: LaneReads): boolean {
  switch (e.op) {
    case "load": {
      const load = kernel.loads[e.load]!;
      return hasLanes(load.dtype) && reads.load(load, symbol);
    }
    case "inside":
      return reads.inside(e.bounds, symbol);
    case "index":
      return e.dtype === "int32";
    case "random":
      return true;
    case "primitive": {
      const operand = kernel.exprs[e.args[e.args.length - 1]!]!.dtype;
      return hasLanes(e.dtype) && hasForm(e.fn, operand) &&
        (e.fn !== "where" || kernel.exprs[e.args[0]!]!.dtype === "bool");
    }
    case "cast":
      return storesLanes(e.dtype) && hasLanes(kernel.exprs[e.args[0]!]!.dtype);
    case "contracted":
      return e.dtype === "float32";
    case "reduced":
      return hasLanes(e.dtype);
    default:
      return false;
  }
}

/** True when what is computed along the loop over `symbol` has vectors, whatever is stored. */
export function canCompute(
  kernel: LoopKernel,
  symbol: number,
  reads: LaneReads = plainReads,
): boolean {
  const depends = variesWith(kernel, [symbol]);
  if (kernel.indirect.some((d) => depends[d.expr])) return false;
  return kernel.exprs.every((e, id) => !depends[id] || fits(kernel, e, symbol, reads));
}

/** True when the loop over `symbol` can be vectorized for the given results. */
export function canVectorize(kernel: LoopKernel, symbol: number): boolean {
  if (!canCompute(kernel, symbol)) return false;
  const depends = variesWith(kernel, [symbol]);
  const reductions = kernel.reductions.every((r) => depends[r.expr] && joinsLanes(kernel, r));
  return reductions && kernel.outputs.every((o) => {
    const c = coefficient(o.index, symbol);
    return c === 0 && !depends[o.expr] || c === 1 && storesLanes(o.dtype);
  });
}

/** True when values are costly enough for vectors that are not full. */
export function isCostly(exprs: readonly Expr[]): boolean {
  return exprs.some((e) => e.op === "random" || e.op === "primitive" && primitives[e.fn].cost >= 8);
}

/** The type of the lanes that a reduction is accumulated in. */
export function laneType(reduction: Reduction): "float16" | "int16" {
  return lanesOf(reduction.dtype).type;
}

/** A number in every lane. */
export function spreadLanes(value: number | bigint, dtype: DType): string {
  const { type } = lanesOf(dtype);
  // A truth value is a mask.
  return `(${type})(${dtype === "bool" ? -Number(value) : literal(value, dtype)})`;
}

/** Two vectors of partial results, lane by lane. */
export function joinLanes({ fn, dtype }: Reduction, a: string, b: string): string {
  if (isArgReduction(fn)) throw new Error(`Lanes cannot be joined by ${fn}`);
  return renderVector(combinerOf(fn), [a, b], lanesOf(dtype).kind!);
}

/** Lanes of one type as lanes of another. */
export function castLanes(text: string, from: DType, to: DType): string {
  const [source, target] = [lanesOf(from).type, lanesOf(to).type];
  if (to === "bool") {
    return from === "bool" ? text : `(${text} != ${source === "float16" ? "0.0f" : "0"})`;
  }
  if (from === "bool") {
    return target === "int16" ? `(-${text})` : `select((float16)(0.0f), (float16)(1.0f), ${text})`;
  }
  if (source === target) return text;
  return target === "int16" ? `int_of_float_16(${text})` : `convert_${target}(${text})`;
}
