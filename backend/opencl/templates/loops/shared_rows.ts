/**
 * Rows that work-items of a GPU share: the tile program of rows in three mappings.
 *
 * In registers, rows of some hundred elements are read once however many reductions and stores walk them: few
 * work-items share a short row, of which a group has several; a whole group shares one of thousands. On an
 * H200 softmax of 65536 rows of 128 floats takes 27 us, a group a row 51; of 4096 rows of 4096 41 us, read
 * three times 61. By groups, rows of any length are read again in each walk. In columns, neighbouring rows lie
 * side by side and are few and long, and several work-items share each, so that enough of them are under way
 * to use the memory: the bias gradients of a GPT in bfloat16, 16384 rows of 384 to 1536, took 19 to 58 us on
 * an H200, an item a column.
 */
import { isArgReduction } from "../../../graph/reductions.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import { reducesInGroups, walksColumns } from "../../../kernel/row_order.ts";
import { rowProgram } from "../../../kernel/row_program.ts";
import type { Target } from "../../../kernel/target.ts";
import {
  areBlocked,
  isFull,
  keptExprs,
  rowGroups,
  type RowMapping,
  rows,
  sharedLength,
} from "../../../tile/programs/rows.ts";
import { columnUnit, itemUnit, type Unit } from "../../../tile/units.ts";
import { emitTile } from "../../codegen/tile_text.ts";
import { LANES, neighbourLoads, walksNeighbours } from "../parts/neighbours.ts";
import { emitting, type LoopTemplate, type Planned } from "../parts/template.ts";

/** Rows with the work-items that share them. */
export interface SharedRows extends Planned<LoopKernel> {
  readonly unit: Unit;
  readonly mapping: RowMapping;
}

type Mapped = Pick<SharedRows, "unit" | "mapping">;

/** A template of shared rows, by the mapping that it has for a kernel. */
function sharedRows(
  name: string,
  mapped: (kernel: LoopKernel, target: Target) => Mapped | null,
): LoopTemplate<SharedRows> {
  return {
    name,
    readsPacked: true,
    matches: (kernel, target) => {
      const found = target.isGpu && kernel.reductions.length > 0 && kernel.contraction === null
        ? mapped(kernel, target)
        : null;
      return found && { kernel, target, ...found };
    },
    emit: emitting((emitter, { kernel, unit, mapping }) => {
      const { contracts } = emitter.dialect;
      return emitTile(
        emitter,
        rows(kernel, unit, mapping, (number) => emitter.parameter(number), contracts),
      );
    }),
    workItems: ({ kernel, unit }) => rowGroups(kernel, unit) * unit.across * unit.down,
    variant: ({ kernel, unit, mapping }) => {
      const { held, lanes, unroll } = mapping, stages = kernel.reductions.length + 1;
      const facts = [unit.name, held, lanes, unroll];
      if (held > 0) facts.push(String(isFull(kernel, unit, mapping)));
      else facts.push(String(areBlocked(kernel, unit)));
      return { key: facts.join(), numbers: 4 + stages, copies: stages * lanes };
    },
  };
}

const ONE_BY_ONE = { held: 0, lanes: 1, vectors: new Set<number>() } as const;

/** Work-items of a group of columns, and those that share a column. */
const COLUMN_GROUP = 256, COLUMN_ITEMS = 8;
/** Shorter columns leave an item too little to do. */
const MIN_COLUMN = 4 * COLUMN_ITEMS;
/** More columns than this for each compute unit fill a device by themselves. */
const MAX_COLUMNS = 1024;

/** Several work-items a column. */
export const columnGroups = sharedRows("columns in groups", (kernel, { computeUnits }) => {
  const { inner, outer, reductions } = kernel, last = outer.at(-1);
  if (inner.length === 0 || last === undefined) return null;
  if (reductions.some(({ fn }) => isArgReduction(fn))) return null;
  const isFew = extent(kernel, outer) <= computeUnits * MAX_COLUMNS;
  if (!isFew || sharedLength(kernel) < MIN_COLUMN || !walksColumns(kernel, last)) return null;
  return {
    unit: columnUnit(COLUMN_ITEMS, COLUMN_GROUP / COLUMN_ITEMS),
    mapping: { ...ONE_BY_ONE, unroll: 8 },
  };
});

/** Work-items of a group of rows in registers, unless one row needs more. */
const REGISTER_GROUP = 128;
/** Work-items that share a row: at least, by how many neighbours they read at once, and at most. */
const MIN_ITEMS = { vectors: 16, elements: 32 }, MAX_ITEMS = { warps: 1024, groups: 256 };
/**
 * Elements that a work-item holds of all that it reads; twice as many where not even the most warps would hold a
 * row: 8,192 rows of 32,000 take logSoftmax 0.84 ms, read three times 1.18 (H200).
 */
const MAX_HELD = 16;
/** More expressions of an element fill the registers. */
const MAX_EXPRS = 64;

const crossingOf = ({ warps }: Target): "shuffle" | "local" => warps ? "shuffle" : "local";

/** Rows that the registers of a group hold. */
export const registerRows = sharedRows("rows in registers", (kernel, target) => {
  if (!reducesInGroups(kernel) || !holdsRows(kernel)) return null;
  const vectors = vectorsOf(kernel), lanes = vectors ? LANES : 1;
  const pieces = Math.ceil(extent(kernel, kernel.inner) / lanes);
  // One vector is held however many values are read: with more items than vectors the rest would be idle.
  const reads = readsOf(kernel), most = Math.max(lanes, Math.floor(MAX_HELD / reads));
  let items = vectors ? MIN_ITEMS.vectors : MIN_ITEMS.elements;
  const maxItems = target.warps ? MAX_ITEMS.warps : MAX_ITEMS.groups;
  while (items < maxItems && Math.ceil(pieces / items) * lanes > most) items *= 2;
  const held = Math.ceil(pieces / items) * lanes;
  if (held > most && !(target.warps && held * reads <= 2 * MAX_HELD)) return null;
  const down = Math.max(1, REGISTER_GROUP / items);
  return {
    unit: itemUnit(crossingOf(target), items, down),
    mapping: { held, lanes, vectors: vectors ?? new Set(), unroll: 1 },
  };
});

const holdsRows = ({ chunk, reductions, exprs }: LoopKernel): boolean =>
  !chunk && exprs.length <= MAX_EXPRS && !reductions.some(({ fn }) => isArgReduction(fn));

/** Values of each element read for several steps. */
function readsOf(kernel: LoopKernel): number {
  const kept = [...keptExprs(rowProgram(kernel))];
  return Math.max(kept.filter((id) => kernel.exprs[id]!.op === "load").length, 1);
}

/** The loads of neighbours, where all that is read and stored along a row can be vectors. */
function vectorsOf(kernel: LoopKernel): ReadonlySet<number> | null {
  const { inner, sizes, outputs } = kernel, along = inner.at(-1)!;
  const isEven = sizes[along]! % LANES === 0 &&
    outputs.every(({ index }) =>
      !index.terms.some(([s]) => inner.includes(s)) || walksNeighbours(index, along)
    );
  return isEven ? neighbourLoads(kernel, along) : null;
}

/** Work-items of a group that has one row, and of one whose row has few elements. */
const GROUP = 256, MIN_GROUP = 64;
/** Elements of a row for each work-item: with fewer, joining takes longer than summing. */
const MIN_ITEM_ELEMENTS = 4;
/** Work-items that walk so many elements ask for several before they wait for the first. */
const MIN_UNROLLED = 16;

/** One work-group a row. */
export const groupReduction = sharedRows("group reduction", (kernel, target) => {
  if (!reducesInGroups(kernel)) return null;
  const length = extent(kernel, kernel.inner);
  let items = GROUP;
  while (items > MIN_GROUP && items * MIN_ITEM_ELEMENTS > length) items /= 2;
  const unroll = sharedLength(kernel) >= items * MIN_UNROLLED ? 4 : 1;
  return {
    unit: itemUnit(crossingOf(target), items, 1),
    mapping: { ...ONE_BY_ONE, unroll },
  };
});
