/**
 * Register-tiled gemm on CPU devices: a work-item computes a tile of rows by vectors, along an axis that one
 * operand walks contiguously. PoCL's own work-item loops stay out of the way: on two cores it reaches
 * OpenBLAS's speed (measured on PoCL 3.1).
 *
 * This folder (`gemm/`) has the templates of products without matrix units; it imports `parts/`,
 * `opencl/codegen/`, `backend/codegen/`, `kernel/` and `graph/`. `lists.ts` asks it with
 * contractions and gets plans and OpenCL C.
 */
import type { Dialect, Emitter } from "../../../codegen/emit.ts";
import { extent, type Load, type LoopKernel } from "../../../kernel/kernel.ts";
import { boundsOf, openLoop } from "../../../codegen/loops.ts";
import { generatedLoop, type WorkSize } from "../../codegen/generated.ts";
import type { Target } from "../../../kernel/target.ts";
import { isCostly, LANES } from "../../codegen/vectors/vector_types.ts";
import {
  type ContractionTemplate,
  isMasked,
  isTileable,
  last,
  type RowLoops,
  rowShape,
  type TiledPlan,
} from "../parts/contraction_shape.ts";
import { columnsOfResults, operandOrder } from "../parts/operand_order.ts";
import {
  countRegisterTiles,
  fitsRegisters,
  type RegisterTile,
  registerTile,
} from "../parts/register_tile.ts";
import { single } from "../parts/template.ts";
import { declareStart, decomposeInto, step, without } from "../parts/tile_text.ts";
import { type ContractionSize, FLOAT, tileOf, type TileRule } from "../parts/tiling.ts";
import {
  type Columns,
  columnsOf,
  emitBlock,
  placeTile,
  type TermSources,
} from "../parts/vector_block.ts";

/** The tile of a work-item. */
export interface RegisterGemmTile extends RegisterTile {
  /** The columns are copied side by side first, for all rows of a work-item. */
  readonly packed: boolean;
}

/**
 * Columns further apart than this are packed (each is on a page of its own), for at least so many rows; not
 * where the rows' terms are as far apart: packed rows gain more (512x512x512 on two cores with PoCL 3.1: 249
 * GFLOP/s with packed columns, 307 with packed rows; 2048: 84, 120).
 */
const MIN_PACKED_STEP = 512, MIN_PACKED_ROWS = 64;
/**
 * Columns that lie along the sum are transposed as they are packed, for sums of at most so many terms a row:
 * beyond that dot products cost less, unless what follows them takes long, which vectors compute here
 * (PoCL 3.1, AVX-512: 768x128x512 takes 0.46 of their time and with gelu 0.09, 64x784x256 1.06 and 0.31).
 */
const MAX_TURNED_TERMS = 6;

export const registerTiles: TileRule<RegisterGemmTile> = {
  kind: "register-tiled",
  choose: (shape, target) => {
    const tile = registerTile(shape, target);
    const [, ak, bk] = shape.steps.map(Math.abs) as [number, number, number];
    const isFar = bk >= MIN_PACKED_STEP && shape.m >= MIN_PACKED_ROWS &&
      !(ak >= MIN_PACKED_STEP && canPackRows(shape, tile, target));
    const packs = isTransposed(shape) || isFar && canPack(shape, tile.columns, target);
    return { ...tile, packed: packs };
  },
  counts: ["rows", "columns"],
  admits: ({ packed, ...tile }, shape, target) =>
    fitsRegisters(tile, shape) && (!isTransposed(shape) || packed && tile.columns >= LANES) &&
    (packed === false || packed === true && canPack(shape, tile.columns, target)),
};

/** True for columns that lie along the sum: they are read in vectors only after they were transposed. */
function isTransposed({ steps: [, , bk, bn] }: ContractionSize): boolean {
  return bk === 1 && bn !== 1;
}

interface RegisterTiledPlan extends TiledPlan<RegisterGemmTile> {
  readonly loops: RowLoops;
}

/** A tile a work-item. */
export const registerTiledGemm: ContractionTemplate<RegisterTiledPlan> = {
  name: "register-tiled gemm",
  matches: (kernel, target) => {
    if (target.isGpu || !isTileable(kernel, target) || isMasked(kernel.contraction!)) return null;
    const loops = transposedLoops(kernel, target) ?? operandOrder(kernel).loops;
    if (loops === null) return null;
    const shape = rowShape(kernel, registerTiles.kind, loops);
    return { kernel, target, shape, tile: tileOf(registerTiles, shape, target), loops };
  },
  emit: (plan) =>
    single(
      generatedLoop(
        plan.kernel,
        plan.target,
        (e, dialect) => (packsRows(plan) ? writeRows : writeTile)(e, dialect, plan),
      ),
    ),
  workItems: ({ shape }) => countRegisterTiles(shape),
};

/**
 * The loops of a tile whose columns lie along the sum, where results lie along them; null where turning
 * them does not pay.
 */
function transposedLoops(kernel: LoopKernel, target: Target): RowLoops | null {
  const { loops: found, isLongInner } = operandOrder(kernel);
  const loops = columnsOfResults(kernel);
  if (loops === null || found?.column === loops.column || !found && !isLongInner) return null;
  const shape = rowShape(kernel, registerTiles.kind, loops);
  const terms = extent(kernel, kernel.inner);
  const isWorth = terms <= MAX_TURNED_TERMS * shape.m || isCostly(kernel.exprs);
  const isWide = shape.n >= LANES && terms >= LANES;
  const { columns } = registerTile(shape, target);
  return isTransposed(shape) && isWorth && isWide && canPack(shape, columns, target) ? loops : null;
}

/** Columns are packed for sums of one loop, in half of the local memory. */
function canPack({ k }: ContractionSize, columns: number, { localMemory }: Target): boolean {
  return k.length === 1 && packedCapacity(k[0]!) * columns * FLOAT <= localMemory / 2;
}

/** Terms of a sum for which a work-item's packed columns have room: alike for similar sizes. */
function packedCapacity(terms: number): number {
  return Math.max(64, 2 ** Math.ceil(Math.log2(terms)));
}

/** Rows whose scalars are packed by a work-item, for all columns; terms, and a step, for which that pays. */
const PACKED_ROWS = 32, MIN_PACKED_TERMS = 64, MIN_PACKED_ROW_STEP = 64;

/**
 * True for rows that lie side by side while the terms of their sums are apart (a weight's gradient): a tile
 * would read a part of each of many cache lines, again for all columns. With operands that no cache has, on
 * two cores with PoCL 3.1: 512x768x128 0.49 ms, 0.34 with packed rows; 384x768x128 0.30, 0.24.
 */
function packsRows({ tile, shape, target }: RegisterTiledPlan): boolean {
  return !tile.packed && canPackRows(shape, tile, target);
}

function canPackRows(
  { m, n, k, steps: [am, ak] }: ContractionSize,
  { rows, columns }: RegisterTile,
  { localMemory }: Target,
): boolean {
  return am === 1 && Math.abs(ak) >= MIN_PACKED_ROW_STEP && m >= PACKED_ROWS &&
    n >= 2 * columns && PACKED_ROWS % rows === 0 && rows > 1 &&
    k.length === 1 && k[0]! >= MIN_PACKED_TERMS &&
    packedCapacity(k[0]!) * PACKED_ROWS * FLOAT <= localMemory / 2;
}

/** A work-item that packs rows, and goes over the columns. */
function writeRows(
  emitter: Emitter,
  dialect: Dialect,
  { tile: chosen, loops, shape }: RegisterTiledPlan,
): WorkSize {
  const { kernel } = emitter, { sizes } = kernel, { row, column, scalar, vector } = loops;
  const tile = placeTile(chosen, loops, columnsOf(chosen.columns));
  const { columns: { count: tn }, height: tm } = tile;
  const others = kernel.outer.filter((s) => s !== row && s !== column);
  const k = kernel.inner[0]!, capacity = packedCapacity(shape.k[0]!);
  emitter.line(`local float packed[${capacity * PACKED_ROWS}];`);
  decomposeInto(emitter, others, "(Index)get_global_id(2)", "i");
  emitter.line(`const Index block = (Index)get_global_id(1) * ${PACKED_ROWS};`);
  const from = `a${scalar.input} + ${without(emitter, scalar.index, [row])}`;
  openLoop(emitter, dialect, k);
  for (let r = 0; r < PACKED_ROWS; r += tm) {
    const start = `min(block + ${r}, ${emitter.size(row)} - ${tm})`;
    const to = `packed + ${r * capacity} + i${k} * ${tm}`;
    emitter.line(`vstore${tm}(vload${tm}(0, ${from} + ${start}), 0, ${to});`);
  }
  emitter.close();
  emitter.open(`for (Index over = 0; over < ${emitter.size(column)}; over += ${tn}) {`);
  declareStart(emitter, "column", "over", tn, emitter.size(column));
  const end = `min(block + ${PACKED_ROWS}, ${emitter.size(row)})`;
  emitter.open(`for (Index at = block; at < ${end}; at += ${tm}) {`);
  declareStart(emitter, "row", "at", tm, emitter.size(row));
  emitBlock(
    emitter,
    dialect,
    tile,
    "1",
    () => inPlace(emitter, vector, column),
    () => `packed + (at - block) * ${capacity} + i${k} * ${tm}`,
  );
  emitter.close();
  emitter.close();
  return {
    global: [1, Math.ceil(sizes[row]! / PACKED_ROWS), extent(kernel, others)],
    local: [1, 1, 1],
  };
}

function writeTile(
  emitter: Emitter,
  dialect: Dialect,
  { tile: chosen, loops, shape }: RegisterTiledPlan,
): WorkSize {
  const { kernel } = emitter;
  const { sizes } = kernel;
  const { row, column, scalar, vector } = loops;
  const tile = placeTile(chosen, loops, columnsOf(chosen.columns));
  const { columns, height: tm } = tile;
  const tn = columns.count;
  const others = kernel.outer.filter((s) => s !== row && s !== column);
  const strips = Math.ceil(sizes[column]! / tn) * extent(kernel, others);
  const packing = chosen.packed ? packingFor(kernel, row, tm, strips) : null;
  if (packing) emitter.line(`local float packed[${packing.capacity * tn}];`);
  decomposeInto(emitter, others, "(Index)get_global_id(2)", "i");
  declareStart(emitter, "column", `(Index)get_global_id(0) * ${tn}`, tn, emitter.size(column));
  if (packing && isTransposed(shape)) transposeColumns(emitter, dialect, vector, column, columns);
  else if (packing) packColumns(emitter, dialect, vector, column, columns);
  const height = packing?.rows ?? tm;
  if (packing) {
    const end = `min(((Index)get_global_id(1) + 1) * ${height}, ${emitter.size(row)})`;
    const first = `(Index)get_global_id(1) * ${height}`;
    emitter.open(`for (Index at = ${first}; at < ${end}; at += ${tm}) {`);
  }
  const from = packing ? "at" : `(Index)get_global_id(1) * ${tm}`;
  declareStart(emitter, "row", from, tm, emitter.size(row));
  emitBlock(
    emitter,
    dialect,
    tile,
    step(emitter, scalar.index, row),
    () =>
      packing
        ? { vectors: `packed + i${kernel.inner[0]} * ${tn}` }
        : inPlace(emitter, vector, column),
  );
  if (packing) emitter.close();
  return {
    global: [
      Math.ceil(sizes[column]! / tn),
      Math.ceil(sizes[row]! / height),
      extent(kernel, others),
    ],
    local: [1, 1, 1],
  };
}

/** A term's vectors, read where they lie. */
function inPlace(
  emitter: Emitter,
  vector: Load,
  column: number,
): Pick<TermSources, "vectors" | "stride"> {
  return {
    vectors: `a${vector.input} + ${without(emitter, vector.index, [column])} + column`,
    stride: step(emitter, vector.index, last(emitter.kernel.inner)),
  };
}

/** Packed columns of a work-item: room for so many terms of the sum, used for so many rows. */
interface Packing {
  readonly capacity: number;
  readonly rows: number;
}

/** As few work-items as keep every core busy, since each of them packs. */
function packingFor(
  { sizes, inner }: LoopKernel,
  row: number,
  tm: number,
  strips: number,
): Packing {
  const most = Math.max(1, Math.floor(sizes[row]! / MIN_PACKED_ROWS));
  const blocks = Math.min(Math.ceil(8 / strips), most);
  const rows = Math.ceil(sizes[row]! / blocks / tm) * tm;
  return { capacity: packedCapacity(sizes[inner[0]!]!), rows };
}

function packColumns(
  emitter: Emitter,
  dialect: Dialect,
  vector: Load,
  column: number,
  { count, width, starts }: Columns,
): void {
  const k = emitter.kernel.inner[0]!;
  openLoop(emitter, dialect, k);
  const from = `a${vector.input} + ${without(emitter, vector.index, [column])} + column`;
  for (const start of starts) {
    const value = `vload${width}(0, ${from} + ${start})`;
    emitter.line(`vstore${width}(${value}, 0, packed + i${k} * ${count} + ${start});`);
  }
  emitter.close();
}

/** The same for columns that lie along the sum, square by square; the last ones end with the columns. */
function transposeColumns(
  emitter: Emitter,
  dialect: Dialect,
  vector: Load,
  column: number,
  { count, starts }: Columns,
): void {
  const k = emitter.kernel.inner[0]!;
  const [start, end] = boundsOf(emitter, dialect, k);
  emitter.line(`const Index end = ${end};`);
  emitter.open(dialect.loopHead("transposed", start, "end", String(LANES)));
  emitter.line(`const Index i${k} = min(transposed, end - ${LANES});`);
  const apart = step(emitter, vector.index, column);
  const from = `a${vector.input} + ${without(emitter, vector.index, [column])}`;
  for (const start of starts) {
    const to = `packed + i${k} * ${count} + ${start}`;
    emitter.line(
      `load_transposed_16(${from} + (column + ${start}) * ${apart}, ${apart}, ${to}, ${count});`,
    );
  }
  emitter.close();
}
