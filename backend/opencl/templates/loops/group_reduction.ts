/**
 * Long contiguous rows on GPUs: a work-group walks a row together, and its work-items join their partial
 * results in local memory.
 */
import type { Dialect, Emitter } from "../../../codegen/emit.ts";
import { type RowMapping, ScalarRow } from "../../../codegen/rows.ts";
import type { StageSums } from "../../../codegen/stage_sums.ts";
import { inGroups } from "../../../kernel/row_mappings.ts";
import { rowProgram, writeRow } from "../../../kernel/row_program.ts";
import { isArgReduction } from "../../../graph/reductions.ts";
import { flatBlocks, isBlocked } from "../../../kernel/accumulation.ts";
import { accumulatorType, extent, type LoopKernel } from "../../../kernel/kernel.ts";
import { combineText, prefersText } from "../../codegen/dialect.ts";
import { generatedLoop, type WorkSize } from "../../codegen/generated.ts";
import { decompose } from "../../codegen/indices.ts";
import { computeType } from "../../codegen/types.ts";
import { reducesInGroups } from "../../../kernel/row_order.ts";
import { type LoopTemplate, type Planned, single } from "../parts/template.ts";

/** Work-items of a group, and of one that reduces a row of few elements. */
const GROUP = 256, MIN_GROUP = 64;
/** Elements of a row for each work-item: with fewer, joining takes longer than summing. */
const MIN_ITEM_ELEMENTS = 4;
/** Work-items that walk so many elements have their loops unrolled. */
const MIN_UNROLLED = 16;

/** One work-group a row. */
export const groupReduction: LoopTemplate<Planned<LoopKernel>> = {
  name: "group reduction",
  matches: (kernel, target) => target.isGpu && reducesInGroups(kernel) ? { kernel, target } : null,
  emit: ({ kernel, target }) => single(generatedLoop(kernel, target, writeGroup)),
  workItems: ({ kernel }) => extent(kernel, kernel.outer) * groupSize(rowLength(kernel)),
  variant: ({ kernel }) => {
    const length = rowLength(kernel), items = groupSize(length);
    const isCut = flatBlocks(Math.ceil(length / items)) !== null &&
      kernel.reductions.some(isBlocked);
    const stages = kernel.reductions.length + 1;
    const isLong = length >= items * MIN_UNROLLED;
    const key = `${items}${isCut ? " in blocks" : ""}${isLong ? " unrolled" : ""}`;
    return { key, numbers: 1 + stages, copies: stages };
  },
};

function rowLength(kernel: LoopKernel): number {
  return extent(kernel, kernel.inner);
}

/** Work-items that share a row of so many elements. */
function groupSize(length: number): number {
  let size = GROUP;
  while (size > MIN_GROUP && size * MIN_ITEM_ELEMENTS > length) size /= 2;
  return size;
}

/** One work-group a row: its items walk the row together and join their results in local memory. */
function writeGroup(emitter: Emitter, dialect: Dialect): WorkSize {
  const { kernel } = emitter;
  const rows = extent(kernel, kernel.outer);
  const items = groupSize(rowLength(kernel));
  emitter.line("const int lid = get_local_id(0);");
  if (kernel.outer.length > 0) decompose(emitter, kernel.outer, "get_group_id(0)");
  const program = inGroups(kernel, rowProgram(kernel), groupLength(kernel), items);
  writeRow(program, new ScalarRow(emitter, dialect, groupMapping(emitter, dialect, items)));
  return { global: [rows * items], local: [items] };
}

/** The items of a group walk a row together: item `lid` takes every `items`-th element. */
function groupMapping(emitter: Emitter, dialect: Dialect, items: number): RowMapping {
  const [start, end] = groupBounds(emitter);
  return {
    walk: (sums, body) => {
      // A work-item asks for several elements before it waits for the first.
      const isLong = groupLength(emitter.kernel) >= items * MIN_UNROLLED;
      const unrolled = isLong ? 4 : 1;
      walkShared(emitter, dialect, { start, end, item: "lid", items, unrolled }, sums, body);
    },
    join: (r) => joinInLocalMemory(emitter, r, items),
    once: (stores) => {
      emitter.open("if (lid == 0) {");
      stores();
      emitter.close();
    },
  };
}

/** Elements that work-items share: number `item` of so many takes every `items`-th of them. */
export interface SharedElements {
  readonly start: string;
  readonly end: string;
  readonly item: string;
  readonly items: number;
  /** Elements that a loop is unrolled by. */
  readonly unrolled: number;
}

/** Writes a body for each element of a work-item, in blocks where sums are added up so. */
export function walkShared(
  emitter: Emitter,
  dialect: Dialect,
  { start, end, item, items, unrolled }: SharedElements,
  sums: StageSums | null,
  body: () => void,
): void {
  let from = start, to = end;
  if (sums?.blocks) {
    const step = emitter.index(sums.blocks.length * items);
    emitter.open(dialect.loopHead("block", start, end, step));
    sums.begin();
    [from, to] = ["block", dialect.smaller(`block + ${step}`, end)];
  }
  const pragma = unrolled > 1 ? `#pragma unroll ${unrolled}\n` : "";
  emitter.open(pragma + dialect.loopHead("t", `${from} + ${item}`, to, `${items}`));
  decomposeInner(emitter);
  body();
  emitter.close();
  if (!sums?.blocks) return;
  sums.end();
  emitter.close();
}

/** Which of a row's elements a group walks: all, or the part that a split gave it. */
export function groupBounds(emitter: Emitter): [start: string, end: string] {
  const { kernel } = emitter;
  const { chunk } = kernel;
  const length = extent(kernel, kernel.inner);
  if (!chunk) return ["0", emitter.index(length)];
  const share = emitter.index(groupLength(kernel));
  if (chunk.symbol !== kernel.inner[0]) return ["0", share];
  emitter.line(`const Index first = i${chunk.part} * ${share};`);
  emitter.line(`const Index behind = min(first + ${share}, ${emitter.index(length)});`);
  return ["first", "behind"];
}

/** How many elements a group walks. */
export function groupLength(kernel: LoopKernel): number {
  const length = extent(kernel, kernel.inner), { chunk } = kernel;
  return chunk ? chunk.length * (length / kernel.sizes[chunk.symbol]!) : length;
}

/** Declares the indices of the inner loops from the number `t` of an element of a row, or of its part. */
function decomposeInner(emitter: Emitter): void {
  const { inner, chunk } = emitter.kernel;
  let rest = "t";
  for (let k = inner.length - 1; k > 0; k--) {
    const s = inner[k]!;
    const isCut = s === chunk?.symbol;
    const size = isCut ? emitter.index(chunk!.length) : emitter.size(s);
    const start = isCut ? ` + i${chunk!.part} * ${size}` : "";
    emitter.line(`const Index i${s} = ${rest} % ${size}${start}, q${s} = ${rest} / ${size};`);
    if (isCut) emitter.line(`if (i${s} >= ${emitter.size(s)}) continue;`);
    rest = `q${s}`;
  }
  if (inner.length > 0) emitter.line(`const Index i${inner[0]} = ${rest};`);
}

/** Joins the accumulators of a group's items; every item then has the result. */
function joinInLocalMemory(emitter: Emitter, r: number, items: number): void {
  const reduction = emitter.kernel.reductions[r]!;
  const dtype = accumulatorType(emitter.kernel, reduction);
  const T = computeType(dtype);
  const { fn } = reduction;
  const isArg = isArgReduction(fn), value = isArg ? `r${r}v` : `r${r}`;
  emitter.line(`local ${T} s${r}[${items}]; s${r}[lid] = ${value};`);
  if (isArg) emitter.line(`local Index j${r}[${items}]; j${r}[lid] = r${r}i;`);
  emitter.line("barrier(CLK_LOCAL_MEM_FENCE);");
  emitter.open(`for (int h = ${items / 2}; h > 0; h >>= 1) {`);
  emitter.open("if (lid < h) {");
  if (isArgReduction(fn)) {
    joinArgs(emitter, r, prefersText(fn, dtype, `s${r}[lid]`, `s${r}[lid + h]`));
  } else {
    const joined = combineText(fn, dtype, `s${r}[lid]`, `s${r}[lid + h]`);
    emitter.line(`s${r}[lid] = ${joined};`);
  }
  emitter.close();
  emitter.line("barrier(CLK_LOCAL_MEM_FENCE);");
  emitter.close();
  emitter.line(`${value} = s${r}[0];${isArg ? ` r${r}i = j${r}[0];` : ""}`);
}

/** Keeps the better of two candidates; among equals the one that comes first in the row. */
function joinArgs(emitter: Emitter, r: number, prefers: string): void {
  const [mine, other] = [`s${r}[lid]`, `s${r}[lid + h]`];
  const tie =
    `(!(${mine} < ${other}) && !(${mine} > ${other}) && (${mine} == ${mine}) == (${other} == ${other}) && j${r}[lid + h] < j${r}[lid])`;
  emitter.open(`if (j${r}[lid + h] >= 0 && (j${r}[lid] < 0 || ${prefers} || ${tie})) {`);
  emitter.line(`${mine} = ${other}; j${r}[lid] = j${r}[lid + h];`);
  emitter.close();
}
