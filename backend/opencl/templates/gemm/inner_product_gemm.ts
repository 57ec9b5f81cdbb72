/**
 * Inner-product gemm on CPU devices: both operands are contiguous along the summed axis, and a work-item
 * computes a small tile of dot products with vectors along that axis.
 */
import { coefficient } from "../../../kernel/affine.ts";
import type { LoopKernel } from "../../../kernel/kernel.ts";
import type { LaneMapping } from "../../../tile/programs/lanes/lane_mapping.ts";
import { LANES } from "../../codegen/vectors/vector_types.ts";
import {
  type ContractionTemplate,
  groupShape,
  isMasked,
  isTileable,
  last,
  type TiledPlan,
} from "../parts/contraction_shape.ts";
import { type LanePlan, writeLanes } from "../parts/lane_program.ts";
import { MIN_VECTOR, operandOrder } from "../parts/operand_order.ts";
import { countRegisterTiles, hasWideVectors } from "../parts/register_tile.ts";
import { largest, leastWork, tileOf, type TileRule } from "../parts/tiling.ts";

/** The tile of a work-item: so many rows by so many columns of dot products. */
export interface InnerProductTile {
  readonly rows: number;
  readonly columns: number;
}

/** Rows and columns, for vectors of 16 floats and for shorter ones. */
const tables = {
  wide: { rows: [4, 2, 1], columns: [6, 5, 4, 3, 2, 1] },
  narrow: { rows: [2, 1], columns: [3, 2, 1] },
} as const;

export const innerProductTiles: TileRule<InnerProductTile> = {
  kind: "inner-product",
  choose: ({ m, n }, target) => {
    const { rows, columns } = tables[hasWideVectors(target) ? "wide" : "narrow"];
    const tm = largest(m, rows);
    return { rows: tm, columns: leastWork(n, columns, (tn) => tn * tm + tn + tm) };
  },
  counts: ["rows", "columns"],
  admits: ({ rows, columns }, { m, n }) => rows <= Math.min(m, 16) && columns <= Math.min(n, 16),
};

/** A tile of dot products a work-item. */
export const innerProductGemm: ContractionTemplate<LanePlan & TiledPlan<InnerProductTile>> = {
  name: "inner-product gemm",
  matches: (kernel, target) => {
    if (target.isGpu || !isTileable(kernel, target)) return null;
    const c = kernel.contraction!, { isInner, loops } = operandOrder(kernel);
    if (isMasked(c) || loops !== null || !isInner && !isEverySecond(kernel)) return null;
    const shape = groupShape(kernel, innerProductTiles.kind, c);
    const tile = tileOf(innerProductTiles, shape, target);
    return { kernel, target, shape, tile, mapping: mappingOf(kernel, tile) };
  },
  emit: writeLanes,
  workItems: ({ shape }) => countRegisterTiles(shape),
};

/** True where the right operand has every second element of the summed axis: a strided convolution's image. */
function isEverySecond({ sizes, contraction }: LoopKernel): boolean {
  const { a, b, k } = contraction!, symbol = last(k);
  return coefficient(a.index, symbol) === 1 && coefficient(b.index, symbol) === 2 &&
    sizes[symbol]! >= MIN_VECTOR;
}

/** Rows and columns are those of the last loops of both operands. */
function mappingOf(
  { contraction, sizes, outer }: LoopKernel,
  { rows, columns }: InnerProductTile,
): LaneMapping {
  const c = contraction!, m = last(c.m), n = last(c.n);
  const tile = [[m, Math.min(rows, sizes[m]!)], [n, Math.min(columns, sizes[n]!)]] as const;
  const others = outer.filter((s) => s !== m && s !== n);
  return {
    lane: last(c.k),
    width: LANES,
    starts: [0],
    rows: tile,
    share: new Map(tile),
    order: [n, m, ...others.toReversed()],
    steps: [],
    boxes: {},
    stores: "single",
    isFixed: false,
  };
}
