/** Partial results of work-items that share a row, joined so that each of them has the result. */
import type { Emitter } from "../../../codegen/emit.ts";
import { isArgReduction, type JoinFn } from "../../../graph/reductions.ts";
import { accumulatorType } from "../../../kernel/kernel.ts";
import type { Target } from "../../../kernel/target.ts";
import { combineText } from "../../codegen/dialect.ts";
import { computeType } from "../../codegen/types.ts";

/** Work-items that read each other's registers. */
const WARP = 32;

/** Who shares a row: `items` neighbours in a group of `group`, both powers of two. */
export interface RowItems {
  readonly items: number;
  readonly group: number;
}

/** Joins the accumulators of a reduction, by registers within a warp where the device has those. */
export function joinItems(
  emitter: Emitter,
  target: Target,
  r: number,
  { items, group }: RowItems,
): void {
  const reduction = emitter.kernel.reductions[r]!, { fn } = reduction;
  if (isArgReduction(fn)) throw new Error(`Work-items cannot join ${fn}`);
  const dtype = accumulatorType(emitter.kernel, reduction), T = computeType(dtype);
  const join = (a: string, b: string): string => combineText(fn as JoinFn, dtype, a, b);
  const isShuffled = target.warps && (T === "float" || T === "int");
  if (!isShuffled) joinByHalves(emitter, `r${r}`, T, join, { items, group });
  else {
    for (let h = Math.min(items, WARP) / 2; h >= 1; h /= 2) {
      const other = `other${r}_${h}`;
      emitter.line(`${T} ${other}; WARP_XOR_${T}(${other}, r${r}, ${h});`);
      emitter.line(`r${r} = ${join(`r${r}`, other)};`);
    }
    if (items > WARP) joinWarps(emitter, `r${r}`, T, join, { items, group });
  }
}

type Join = (a: string, b: string) => string;

/** Joins the results of warps in their order. */
function joinWarps(
  emitter: Emitter,
  name: string,
  T: string,
  join: Join,
  { items, group }: RowItems,
): void {
  emitter.line(`local ${T} s${name}[${group / WARP}];`);
  emitter.line(`if ((lid & ${WARP - 1}) == 0) s${name}[lid / ${WARP}] = ${name};`);
  emitter.line("barrier(CLK_LOCAL_MEM_FENCE);");
  const first = group === items ? "0" : `lid / ${items} * ${items / WARP}`;
  emitter.line(`${name} = s${name}[${first}];`);
  for (let w = 1; w < items / WARP; w++) {
    emitter.line(`${name} = ${join(name, `s${name}[${first} + ${w}]`)};`);
  }
}

/** Joins results in local memory: the second half of a row's work-items to the first, and again. */
function joinByHalves(
  emitter: Emitter,
  name: string,
  T: string,
  join: Join,
  { items, group }: RowItems,
): void {
  emitter.line(`local ${T} s${name}[${group}]; s${name}[lid] = ${name};`);
  emitter.line("barrier(CLK_LOCAL_MEM_FENCE);");
  emitter.open(`for (int h = ${items / 2}; h > 0; h >>= 1) {`);
  emitter.line(`if (item < h) s${name}[lid] = ${join(`s${name}[lid]`, `s${name}[lid + h]`)};`);
  emitter.line("barrier(CLK_LOCAL_MEM_FENCE);");
  emitter.close();
  emitter.line(`${name} = s${name}[lid - item];`);
}
