/**
 * Register-tiled gemm on CPU devices: a work-item computes a tile of rows by vectors, along an axis that one
 * operand walks contiguously. PoCL's own work-item loops stay out of the way: on two cores it reaches
 * OpenBLAS's speed (measured on PoCL 3.1).
 *
 * This folder (`gemm/`) has the templates of products without matrix units; it imports `parts/`,
 * `opencl/codegen/`, `backend/codegen/`, `kernel/` and `graph/`. `lists.ts` asks it with
 * contractions and gets plans and OpenCL C.
 */
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import type { Target } from "../../../kernel/target.ts";
import {
  panelBox,
  transposedBox,
  windowBox,
  withCapacity,
} from "../../../tile/programs/lanes/box.ts";
import { type LaneMapping, over } from "../../../tile/programs/lanes/lane_mapping.ts";
import { canVectorize, isCostly, LANES } from "../../codegen/vectors/vector_types.ts";
import {
  type ContractionTemplate,
  isMasked,
  isTileable,
  type RowLoops,
  rowShape,
  type TiledPlan,
} from "../parts/contraction_shape.ts";
import {
  expectsMore,
  keeping,
  keptScratch,
  type LanePlan,
  lasts,
  writeLanes,
} from "../parts/lane_program.ts";
import { columnsOfResults, operandOrder } from "../parts/operand_order.ts";
import {
  columnsOf,
  countRegisterTiles,
  fitsRegisters,
  type RegisterTile,
  registerTile,
} from "../parts/register_tile.ts";
import { type ContractionSize, FLOAT, tileOf, type TileRule } from "../parts/tiling.ts";

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
 * So far apart, columns are packed where half of the second level of caches does not have them all (on one core
 * with PoCL 3.1 and 2 MiB: 128x1536x384 1.33 ms, 1.03; 1024x1536x384 12.0, 8.1).
 */
const MIN_PACKED_STEP_OF_MANY = 256;
/**
 * A work-item of packed columns writes all rows, each on a page of its own. Of short sums whose results are many
 * times the second level of caches that is what takes long (8 images of 112 x 112, 16 to 96 channels: 8.3 ms,
 * without packing 4.6; one image 0.36, 0.43).
 */
const MAX_WRITTEN_TERMS = 64, MAX_WRITTEN_CACHES = 8;
/**
 * Columns that lie along the sum are transposed as they are packed, for sums of at most so many terms a row:
 * beyond that dot products cost less, unless what follows them takes long, which vectors compute here
 * (PoCL 3.1, AVX-512: 768x128x512 takes 0.46 of their time and with gelu 0.09, 64x784x256 1.06 and 0.31).
 */
const MAX_TURNED_TERMS = 6;
/** Rows for which columns that are transposed once, for many runs, are better than dot products. */
const MIN_KEPT_ROWS = 8;

export const registerTiles: TileRule<RegisterGemmTile> = {
  kind: "register-tiled",
  choose: (shape, target) => {
    const tile = registerTile(shape, target);
    const [, ak, bk] = shape.steps.map(Math.abs) as [number, number, number];
    const areMany = bk * shape.k[0]! * FLOAT > target.localMemory / 2;
    const isFar = bk >= (areMany ? MIN_PACKED_STEP_OF_MANY : MIN_PACKED_STEP) &&
      shape.m >= MIN_PACKED_ROWS && !isWritten(shape, target) &&
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

/** True for short sums of more results than caches keep. */
function isWritten({ batch, m, n, k }: ContractionSize, { localMemory }: Target): boolean {
  return k[0]! < MAX_WRITTEN_TERMS && batch * m * n * FLOAT > MAX_WRITTEN_CACHES * localMemory;
}

type RegisterTiledPlan = LanePlan & TiledPlan<RegisterGemmTile>;

/**
 * Vectors are asked for so many terms before their turn: they lie apart, so that no prefetcher has them in
 * the first cache (128x768x512 with PoCL 3.1 on two AVX-512 cores: 470 us, 365).
 */
const PREFETCH_TERMS = 8;

/** A tile a work-item. */
export const registerTiledGemm: ContractionTemplate<RegisterTiledPlan> = {
  name: "register-tiled gemm",
  matches: (kernel, target) => {
    if (target.isGpu || !isTileable(kernel, target) || isMasked(kernel.contraction!)) return null;
    const loops = transposedLoops(kernel, target) ?? operandOrder(kernel).loops;
    if (loops === null) return null;
    const shape = rowShape(kernel, registerTiles.kind, loops);
    const tile = tileOf(registerTiles, shape, target);
    const mapping = mappingOf(kernel, target, tile, loops, shape);
    return { kernel, target, shape, tile, mapping };
  },
  emit: writeLanes,
  workItems: ({ shape }) => countRegisterTiles(shape),
  scratch: keptScratch,
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
  const isTurnedOnce = shape.m >= MIN_KEPT_ROWS && lasts(kernel, vectorOf(kernel, loops));
  const isWorth = terms <= MAX_TURNED_TERMS * shape.m || isCostly(kernel.exprs) || isTurnedOnce;
  const isWide = shape.n >= LANES && terms >= LANES;
  const { columns } = registerTile(shape, target);
  return isTransposed(shape) && isWorth && isWide && canPack(shape, columns, target) ? loops : null;
}

/** The operand whose columns are vectors. */
const vectorOf = ({ contraction }: LoopKernel, { vector }: RowLoops): "a" | "b" =>
  vector === contraction!.a ? "a" : "b";

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

/** The part of a work-item. */
function mappingOf(
  kernel: LoopKernel,
  target: Target,
  { packed, rows, columns }: RegisterGemmTile,
  loops: RowLoops,
  shape: ContractionSize,
): LaneMapping {
  const { row, column, scalar, vector } = loops, { sizes, inner, outer } = kernel;
  const { width, starts } = columnsOf(columns);
  const others = outer.filter((s) => s !== row && s !== column), k = inner[0]!;
  const stores: LaneMapping["stores"] = width === LANES && canVectorize(kernel, column)
    ? "lanes"
    : "single";
  const common = {
    lane: column,
    ...{ width, starts, stores },
    rows: [[row, rows]],
    order: [column, row, ...others.toReversed()],
    expects: stores === "lanes" && expectsMore(kernel, [row]),
    isFixed: false,
  } as const;
  const share = (r: number, c: number) => new Map([[row, r], [column, c]]);
  if (packed) {
    const counts = new Map([[k, sizes[k]!], [column, columns]]);
    const box = isTransposed(shape)
      ? transposedBox(kernel, vector, counts, column)
      : windowBox(kernel, vector, counts, column);
    const strips = Math.ceil(sizes[column]! / columns) * extent(kernel, others);
    const operand = vectorOf(kernel, loops), capacity = packedCapacity(sizes[k]!);
    return keeping(kernel, {
      ...common,
      share: share(packedHeight(sizes[row]!, rows, strips), columns),
      steps: [{ do: "pack", operand }, over(row, rows)],
      boxes: { [operand]: lasts(kernel, operand) ? box! : withCapacity(box!, capacity) },
    }, operand);
  }
  if (!canPackRows(shape, { rows, columns }, target)) {
    return {
      ...common,
      share: share(rows, columns),
      steps: [],
      boxes: {},
      prefetch: PREFETCH_TERMS,
    };
  }
  const operand = vectorOf(kernel, loops) === "a" ? "b" : "a";
  const box = panelBox(kernel, scalar, new Map([[k, sizes[k]!], [row, PACKED_ROWS]]), row, rows);
  return {
    ...common,
    share: share(PACKED_ROWS, sizes[column]!),
    steps: [{ do: "pack", operand }, over(column, columns), over(row, rows)],
    boxes: { [operand]: withCapacity(box, packedCapacity(sizes[k]!)) },
    prefetch: PREFETCH_TERMS,
  };
}

/** Rows for which columns are packed: as few work-items as keep every core busy, since each of them packs. */
function packedHeight(rows: number, height: number, strips: number): number {
  const most = Math.max(1, Math.floor(rows / MIN_PACKED_ROWS));
  const blocks = Math.min(Math.ceil(8 / strips), most);
  return Math.ceil(rows / blocks / height) * height;
}
