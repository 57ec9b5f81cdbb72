/**
 * Windows side by side in vectors: which loop is their lanes, and how lanes are read that lie one
 * or two elements apart, or partly beyond an edge.
 */
import type { Emitter } from "../../../codegen/emit.ts";
import { type AffineExpr, coefficient } from "../../../kernel/affine.ts";
import { usesInner, variesWith } from "../../../kernel/analysis.ts";
import type { Bound, LoopKernel, Output } from "../../../kernel/kernel.ts";
import { extent } from "../../../kernel/kernel.ts";
import { stridesOf } from "../../../graph/shape.ts";
import type { LaneReader, Lanes } from "./vector_body.ts";
import {
  canCompute,
  joinsLanes,
  type LaneReads,
  LANES,
  loadBetween,
  storesLanes,
} from "./vector_types.ts";

/** Elements of a window that is written out, and of the expressions of all its elements. */
const MAX_WINDOW = 25, MAX_UNROLLED = 256;
/** Elements of a row that is worth vectors whose lanes are no neighbours. */
const MIN_APART_ROW = 64;
/** Fewer windows side by side waste too many lanes. */
const MIN_SIDE_BY_SIDE = 6;

/** Form of windows side by side. */
export interface WindowForm {
  /** The loop whose iterations are lanes. */
  readonly lane: number;
  /**
   * The loop over two elements that lie between those of two lanes; null where results are
   * neighbours.
   */
  readonly pair: number | null;
  /** The elements of a window's results lie side by side, and those of the next window behind them. */
  readonly inBlocks: boolean;
  /** All loops but the lanes' that are no elements of a window. */
  readonly rows: readonly number[];
}

/** Form of a kernel as windows side by side; null where it has another form. */
export function windowForm(kernel: LoopKernel): WindowForm | null {
  const { outer, inner, sizes } = kernel;
  if (kernel.chunk || kernel.contraction || kernel.indirect.length > 0) return null;
  const form = [1, 2].map((k) => formOf(kernel, outer.length - k))
    .find((f) => f !== null && sizes[f.lane]! >= MIN_SIDE_BY_SIDE);
  if (!form) return null;
  const length = extent(kernel, inner) * (form.pair === null ? 1 : 2);
  if (length === 0) return null; // its results are what reductions begin with
  const isShort = length <= MAX_WINDOW && length * kernel.exprs.length <= MAX_UNROLLED;
  const varies = variesWith(kernel, [form.lane]);
  const areJoined = kernel.reductions.every((r) => varies[r.expr] && joinsLanes(kernel, r));
  return isShort && areJoined && canCompute(kernel, form.lane, windowReads) ? form : null;
}

/**
 * The form in which the outer loop at a position is the lanes'; the one behind it may be its
 * pairs'.
 */
function formOf(kernel: LoopKernel, at: number): WindowForm | null {
  const { outer, inner, sizes, outputs } = kernel, lane = outer[at];
  if (lane === undefined || outputs.some((o) => !storesLanes(o.dtype))) return null;
  const behind = outer.slice(at + 1), rows = outer.slice(0, at);
  const lieApart = (step: number, symbol: number): boolean =>
    outputs.every(({ index }) => coefficient(index, symbol) === step);
  const inBlocks = behind.length === 0 && areBlocks(kernel, lane);
  if (inBlocks || lieApart(1, lane)) {
    return behind.length === 0 ? { lane, pair: null, inBlocks, rows } : null;
  }
  // A pair around a window is a map's: a reduction is written for one window of a lane.
  const pairs = behind.length === 0 ? inner : kernel.reductions.length === 0 ? behind : [];
  const pair = pairs.find((s) => sizes[s] === 2 && lieApart(1, s));
  return pair !== undefined && lieApart(2, lane) ? { lane, pair, inBlocks, rows } : null;
}

/**
 * True where outputs have the elements of a window in their order, and then those of the next lane's, or one
 * element of each window.
 */
function areBlocks(kernel: LoopKernel, lane: number): boolean {
  const { inner, sizes, outputs } = kernel, varies = variesWith(kernel, inner);
  const steps = stridesOf([1, ...inner.map((s) => sizes[s]!)]);
  const isBlock = ({ dtype, index }: Output): boolean =>
    (dtype === "float32" || dtype === "int32") &&
    [lane, ...inner].every((s, k) => coefficient(index, s) === steps[k]);
  const isOnce = ({ index, expr }: Output): boolean =>
    !varies[expr] && [lane, ...inner].every((s, k) => coefficient(index, s) === (k === 0 ? 1 : 0));
  return inner.length > 0 && outputs.some(isBlock) && outputs.every((o) => isBlock(o) || isOnce(o));
}

/**
 * The loops of rows whose lanes are no neighbours: the lanes' own, and that over pairs between
 * them.
 */
export interface ApartRows {
  readonly symbol: number;
  readonly pair: number | null;
}

/**
 * Along which loop rows are walked whose elements lie two apart, or partly beyond an edge; or null.
 */
export function apartRows(kernel: LoopKernel): ApartRows | null {
  const { inner, sizes, indirect, chunk } = kernel;
  if (chunk || indirect.length > 0 || extent(kernel, inner) < MIN_APART_ROW) return null;
  const varies = variesWith(kernel, inner);
  const each = kernel.outputs.filter((o, k) => varies[o.expr] || usesInner(kernel, k));
  const lieApart = (step: number, symbol: number): boolean =>
    each.every(({ dtype, index }) => storesLanes(dtype) && coefficient(index, symbol) === step);
  const last = inner[inner.length - 1]!, before = inner[inner.length - 2];
  const form = lieApart(1, last) && sizes[last]! > 2
    ? { symbol: last, pair: null }
    : before !== undefined && sizes[last] === 2 && lieApart(1, last) && lieApart(2, before)
    ? { symbol: before, pair: last }
    : null;
  if (form === null || sizes[form.symbol]! < MIN_SIDE_BY_SIDE) return null;
  const alongLanes = variesWith(kernel, [form.symbol]);
  const areJoined = kernel.reductions.length > 0 &&
    kernel.reductions.every((r) => alongLanes[r.expr] && joinsLanes(kernel, r));
  return areJoined && canCompute(kernel, form.symbol, windowReads) ? form : null;
}

/** Neighbours or every second element, within bounds that grow along the lanes. */
const windowReads: LaneReads = {
  load: ({ index, bounds }, lane) =>
    [1, 2].includes(coefficient(index, lane)) && windowReads.inside(bounds, lane),
  inside: (bounds, lane) =>
    bounds.every(({ index }) => [0, 1, 2].includes(coefficient(index, lane))),
};

/** Reader of lanes that lie as {@linkcode windowForm} and {@linkcode apartRows} allow. */
export function windowReader(emitter: Emitter, lane: number): LaneReader {
  return (e, id, lanes) => {
    if (e.op === "load") {
      const load = emitter.kernel.loads[e.load]!;
      const range = declareRange(emitter, load.bounds, lane, id, lanes);
      const pointer = `a${load.input} + ${shifted(emitter, load.index, lane, lanes)}`;
      const step = coefficient(load.index, lane) as 1 | 2;
      return loadBetween(load.dtype, pointer, step, ...range);
    }
    if (e.op !== "inside") return null;
    const [low, high] = declareRange(emitter, e.bounds, lane, id, lanes);
    return `((lanes16() >= ${low}) & (lanes16() < ${high}))`;
  };
}

/** An index at the first of some lanes. */
function shifted(emitter: Emitter, index: AffineExpr, lane: number, { shift = 0 }: Lanes): string {
  const text = emitter.affine(index);
  return shift === 0 ? text : `${text} + ${shift * coefficient(index, lane)}`;
}

/**
 * Declares which lanes are inside of all bounds: those from the first number to before the second.
 */
function declareRange(
  emitter: Emitter,
  bounds: readonly Bound[],
  lane: number,
  id: number,
  lanes: Lanes,
): [low: string, high: string] {
  const { tag = "", left = "" } = lanes;
  const along = bounds.filter((bound) => coefficient(bound.index, lane) > 0);
  const around = bounds.filter((bound) => !along.includes(bound));
  const all = left || String(LANES);
  if (bounds.length === 0) return ["0", all];
  let low = "(Index)0", high = `(Index)${all}`;
  for (const { index, size } of along) {
    const step = coefficient(index, lane), text = shifted(emitter, index, lane, lanes);
    low = `max(${low}, ${upTo(`-(${text})`, step)})`;
    high = `min(${high}, ${upTo(`${emitter.index(size)} - (${text})`, step)})`;
  }
  if (around.length > 0) high = `(${emitter.maskText(around)} ? ${high} : 0)`;
  emitter.line(`const int low${id}${tag} = (int)${low}, high${id}${tag} = (int)${high};`);
  return [`low${id}${tag}`, `high${id}${tag}`];
}

/** A number divided by a step of 1 or 2, rounded up. */
function upTo(text: string, step: number): string {
  return step === 1 ? `(Index)(${text})` : `(((Index)(${text}) + 1) >> 1)`;
}
