/** Decisions about a loop kernel before it is written: lanes, cuts, costs. */
import type { Parameter } from "../../../codegen/emit.ts";
import { coefficient, rangeOf } from "../../../kernel/affine.ts";
import { needsWideIndices } from "../../../kernel/index_range.ts";
import {
  type Expr,
  type IndirectIndex,
  type LoopKernel,
  readsPacked,
} from "../../../kernel/kernel.ts";
import { isArgReduction } from "../../../graph/reductions.ts";
import { neededBy, usesInner, variesWith } from "../../../kernel/analysis.ts";
import {
  elementStores,
  type KeptValue,
  lastReduction,
  mapReductions,
  type RowProgram,
  rowProgram,
} from "../../../kernel/row_program.ts";
import { isWide, kindOf } from "../lanes.ts";
import type { IndexFault } from "./loop_indices.ts";
import { LANES } from "./loop_scope.ts";
import { RANDOM_COST } from "../functions/random.ts";
import { joinsInLanes } from "./accumulators.ts";
import { castsInLanes, costOf as costOfPrimitive, hasLaneForm } from "./primitives.ts";

/** A kernel in WebAssembly. Its arguments are 32-bit words: the buffers' addresses, then these. */
export interface GeneratedLoop {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly parameters: readonly Parameter[];
  /** The size of the range that a run may be cut into, and the multiples to cut it at. */
  readonly range: number;
  readonly grain: number;
  /** About how many nanoseconds it takes on one core. */
  readonly cost: number;
  /** Places for indices that are out of range. */
  readonly faults: readonly IndexFault[];
  /** An output holds values in between: it must not be an input as well. */
  readonly keepsValues: boolean;
}

/** Cheaper expressions than this are computed twice. */
const MIN_KEPT_COST = 8;

/** Instructions in the time that a store of an element takes, most of which the memory takes. */
const STORE_COST = 2;

/** Those for an element of a sum: it is made a double. */
const SUM_COST = 2;

/** Elements of a buffer: addresses are 32-bit numbers of bytes. */
const MAX_ELEMENTS = 2 ** 30;

/** True when there are lanes for all that a kernel computes, and addresses for all that it reads. */
export function fitsLanes(kernel: LoopKernel): boolean {
  const { exprs, outputs, loads, reductions, sizes } = kernel;
  if (kernel.contraction || needsWideIndices(kernel) || readsPacked(kernel)) return false;
  if (!kernel.indirect.every((i) => isReadable(kernel, i))) return false;
  const computed = neededBy(kernel, [...outputs, ...reductions].map(({ expr }) => expr));
  if (!computed.every((id) => isWritable(kernel, exprs[id]!))) return false;
  const joined = reductions.every(({ fn, expr, dtype }) =>
    isArgReduction(fn)
      ? ![exprs[expr]!.dtype, dtype].some((type) => isWide(kindOf(type)))
      : joinsInLanes(fn, dtype)
  );
  return joined && [...loads, ...outputs].every(({ index }) => {
    const [low, high] = rangeOf(index, sizes);
    return low >= -MAX_ELEMENTS && high < MAX_ELEMENTS;
  });
}

/** True for an indirect index that is a number when it is needed: results of reductions are vectors. */
function isReadable({ exprs }: LoopKernel, { expr }: IndirectIndex): boolean {
  const { op, dtype } = exprs[expr]!, kind = kindOf(dtype);
  return op !== "reduced" && (kind === "int" || kind === "long");
}

/** True when there are lanes for an expression of types that have some. */
function isWritable({ exprs }: LoopKernel, e: Expr): boolean {
  switch (e.op) {
    case "primitive":
      return hasLaneForm(e.fn, exprs[e.args.at(-1)!]!.dtype);
    case "cast":
      return castsInLanes(exprs[e.args[0]!]!.dtype, e.dtype);
    case "contracted":
      return false;
    default:
      return true;
  }
}

/** Rows shorter than this are better computed side by side than one by one. */
const MIN_PLAIN_ROW = 16;

/** True when an indirect index changes along a loop: lanes share theirs. */
function movesIndirect(kernel: LoopKernel, symbol: number): boolean {
  if (kernel.indirect.length === 0) return false;
  const varies = variesWith(kernel, [symbol]);
  return kernel.indirect.some(({ expr }) => varies[expr]);
}

/** The loop index for the lanes: the one that most of the elements lie side by side along. */
export function chooseLanes(kernel: LoopKernel): number {
  let best = -1, least = Infinity;
  // Places are counted in the order of the loops: that of the last one may run over lanes.
  const isOrdered = kernel.reductions.some((r) => isArgReduction(r.fn));
  const inner = isOrdered ? kernel.inner.slice(-1) : kernel.inner.toReversed();
  const candidates = [...inner, ...kernel.outer.toReversed()];
  for (const symbol of candidates) {
    const size = kernel.sizes[symbol]!;
    if (kernel.chunk?.part === symbol || movesIndirect(kernel, symbol)) continue;
    const isInner = kernel.inner.includes(symbol);
    const indices = [
      ...kernel.loads.map((l) => l.index),
      ...kernel.outputs.flatMap((o, k) => usesInner(kernel, k) || !isInner ? [o.index] : []),
    ];
    let cost = size < LANES ? 6 * indices.length : 0;
    if (isInner && size < MIN_PLAIN_ROW) cost += 2;
    for (const index of indices) {
      const c = coefficient(index, symbol);
      cost += c === 1 ? 1 : c === 0 ? 0.9 : 6;
    }
    if (cost < least) [best, least] = [symbol, cost];
  }
  return best;
}

/** The outer index to cut for threads: the longest, preferably not the one over lanes. */
export function chooseCut(kernel: LoopKernel, laneSymbol: number): number {
  let best = -1, most = 0;
  for (const symbol of kernel.outer) {
    const parts = symbol === laneSymbol ? kernel.sizes[symbol]! / 64 : kernel.sizes[symbol]!;
    if (parts > most) [best, most] = [symbol, parts];
  }
  return best;
}

/** About how many instructions an expression takes. */
function costOfExpr(kernel: LoopKernel, id: number): number {
  const e = kernel.exprs[id]!;
  switch (e.op) {
    case "primitive":
      return costOfPrimitive(e.fn);
    case "load":
      return kernel.loads[e.load]!.bounds.length > 0 ? 12 : 1;
    case "constant":
      return 0;
    case "random":
      return RANDOM_COST;
    default:
      return 2;
  }
}

/** About how long a kernel takes on one core, in nanoseconds. */
export function costOfKernel(kernel: LoopKernel): number {
  const isInner = variesWith(kernel, kernel.inner);
  let rows = 1, inner = 1;
  for (const s of kernel.outer) rows *= kernel.sizes[s]!;
  for (const s of kernel.inner) inner *= kernel.sizes[s]!;
  let cost = 0;
  kernel.exprs.forEach((_, id) => {
    cost += costOfExpr(kernel, id) * rows * (isInner[id] ? inner : 1);
  });
  cost += SUM_COST * kernel.reductions.length * rows * inner;
  kernel.outputs.forEach((_, o) => {
    cost += STORE_COST * rows * (usesInner(kernel, o) ? inner : 1);
  });
  // Four lanes, about three instructions a nanosecond.
  return cost / 10;
}

/** About how many instructions some expressions take. */
export function costOf(kernel: LoopKernel, ids: readonly number[]): number {
  return ids.reduce((sum, id) => sum + costOfExpr(kernel, id), 0);
}

/** Vectors that a pass over a body computes: few where it keeps many values at once. */
export function unrollOf(kernel: LoopKernel, ids: readonly number[]): number {
  const cost = costOf(kernel, ids);
  return cost <= 24 ? 4 : cost <= 48 ? 2 : 1;
}

/**
 * The mapping to lanes along one loop: where that is one of a row, several vectors of accumulators run
 * side by side.
 *
 * @param mayKeep Whether an output may hold a value on the way: it is none of the inputs.
 */
export function laneProgram(
  kernel: LoopKernel,
  laneSymbol: number,
  mayKeep: boolean,
): RowProgram {
  const program = rowProgram(kernel);
  if (!kernel.inner.includes(laneSymbol)) return program;
  const keeps = mayKeep ? worthKeeping(kernel, program, variesWith(kernel, [laneSymbol])) : null;
  return mapReductions(
    keeps === null ? program : rowProgram(kernel, keeps),
    ({ exprs }) => ({ copies: unrollOf(kernel, exprs) }),
  );
}

/** The most expensive floats that the last reduction and an output are both made of. */
function worthKeeping(
  kernel: LoopKernel,
  program: RowProgram,
  varies: readonly boolean[],
): KeptValue | null {
  const last = lastReduction(program), stores = elementStores(program);
  const output = stores?.outputs.find((o) => kernel.outputs[o]!.dtype === "float32");
  if (last === null || output === undefined) return null;
  const isInner = variesWith(kernel, kernel.inner), reduced = new Set(last.exprs);
  const common = neededBy(kernel, [kernel.outputs[output]!.expr]).filter((id) =>
    reduced.has(id) && varies[id] && kindOf(kernel.exprs[id]!.dtype) === "float"
  );
  let best: KeptValue | null = null, most = MIN_KEPT_COST;
  for (const expr of common) {
    const needed = neededBy(kernel, [expr]).filter((id) => isInner[id]);
    const cost = needed.reduce((sum, id) => sum + costOfExpr(kernel, id), 0);
    if (cost > most) [best, most] = [{ expr, output }, cost];
  }
  return best;
}
