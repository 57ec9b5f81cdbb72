/**
 * Table of reductions: the join of partial results, and their start. A further one is a name
 * in `ReduceFn` and a row here; type checking names the accumulators of the WebAssembly writer.
 */
import { type DType, dtypes } from "./dtype.ts";
import type { ReduceFn, ScatterMode } from "./op.ts";
import type { PrimitiveName } from "./primitives.ts";

/** Facts of a reduction, whatever language it is written in. */
type Reduction =
  /** Values are joined by a primitive. */
  | { readonly combine: PrimitiveName; readonly identity: number }
  /** The position of the first value that is `better` than those before it; NaN is better than a number. */
  | { readonly better: "gt" | "lt"; readonly identity: number };

const table = {
  sum: { combine: "add", identity: 0 },
  prod: { combine: "mul", identity: 1 },
  max: { combine: "maximum", identity: -Infinity },
  min: { combine: "minimum", identity: Infinity },
  argmax: { better: "gt", identity: -Infinity },
  argmin: { better: "lt", identity: Infinity },
} as const satisfies Readonly<Record<ReduceFn, Reduction>>;

/** Reductions that give a position. */
export type ArgReduceFn = "argmax" | "argmin";

/** Reductions that give a value; running ones are among them. */
export type JoinFn = Exclude<ReduceFn, ArgReduceFn>;

/** True for the reductions that give a position: their accumulators hold it beside the value. */
export const isArgReduction = (fn: ReduceFn): fn is ArgReduceFn => "better" in table[fn];

/** The primitive that joins two partial results. */
export const combinerOf = (fn: JoinFn): PrimitiveName => table[fn].combine;

const joins: Readonly<Record<ScatterMode, JoinFn | null>> = {
  add: "sum",
  max: "max",
  min: "min",
  set: null,
  write: null,
};

/** The primitive that joins an element with the one at its place; null where it is stored. */
export function scatterCombiner(mode: ScatterMode): PrimitiveName | null {
  const fn = joins[mode];
  return fn && combinerOf(fn);
}

/** True where an arg-reduction looks for the largest element. */
export const prefersLarger = (fn: ArgReduceFn): boolean => table[fn].better === "gt";

/** The element that a reduction starts from: infinities are the bounds of a type that has none. */
export function identityOf(fn: ReduceFn, dtype: DType): number | bigint {
  const { identity } = table[fn];
  const { lowest, highest } = dtypes[dtype];
  if (identity === -Infinity) return lowest;
  return identity === Infinity ? highest : typeof lowest === "bigint" ? BigInt(identity) : identity;
}
