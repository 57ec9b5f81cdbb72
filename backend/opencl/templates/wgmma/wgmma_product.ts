/** A product as warpgroups compute it: its loops, its tile, its operands as maps. */
import { type Contraction, extent, type LoopKernel } from "../../../kernel/kernel.ts";
import type { Target } from "../../../kernel/target.ts";
import { unitOf } from "../../../tile/matrix_units.ts";
import { groupShape, type TiledPlan, withoutFreeBatch } from "../parts/contraction_shape.ts";
import { type ContractionSize, keyOf, product, tileOf } from "../parts/tiling.ts";
import { writtenOperands } from "./operand_parts.ts";
import { packedProductOf } from "./packed_operand.ts";
import { type OperandMap, operandMapOf, ROW_TERMS } from "./tensor_map.ts";
import { type FlatSide, tilesAlong, type TileSide } from "./tile_side.ts";
import { estimateOf, type PartCount, tilesFor, type WgmmaTile, wgmmaTiles } from "./wgmma_tile.ts";

/** Products with fewer rows, columns or terms leave most of a tile empty. */
const MIN_SIDE = 64, MIN_TERMS = 64;
/** To write an element once more takes as long as so many operations of a product that are saved. */
const WRITE_OPERATIONS = 290;
/** One more launch takes as long. */
const LAUNCH_OPERATIONS = 3e8;

/** Product behind a kernel. */
export interface WgmmaProduct {
  readonly c: Contraction;
  readonly tile: WgmmaTile;
  readonly parts: PartCount;
  readonly rows: TileSide;
  readonly columns: TileSide;
  readonly terms: TileSide;
  readonly a: OperandMap;
  readonly b: OperandMap;
}

/** A product with the kernel that it is for. */
export interface WgmmaPlan extends TiledPlan<WgmmaTile> {
  readonly product: WgmmaProduct;
}

/** Plan of a kernel for warpgroups; null where they do not compute it. */
export function wgmmaPlanOf(kernel: LoopKernel, target: Target): WgmmaPlan | null {
  const whole = kernel.contraction!, parts = partsOf(whole);
  if (parts === null) return null;
  const { kind } = wgmmaTiles[parts], free = withoutFreeBatch(whole);
  for (const c of new Set([free, whole])) {
    const shape = groupShape(kernel, kind, c), tile = tileOf(wgmmaTiles[parts], shape, target);
    const plan = planIn(directProduct(kernel, c, tile, parts), kernel, shape, target);
    if (plan !== null) return plan;
  }
  return packedPlanOf(kernel, free, parts, target);
}

/** The plan in the tile that takes the least time: channels and windows fill some better than others. */
function packedPlanOf(
  kernel: LoopKernel,
  c: Contraction,
  parts: PartCount,
  target: Target,
): WgmmaPlan | null {
  const shape = groupShape(kernel, wgmmaTiles[parts].kind, c);
  const tiles = isTuned(shape, target)
    ? [tileOf(wgmmaTiles[parts], shape, target)]
    : tilesFor(parts);
  let best: WgmmaPlan | null = null, least = Infinity;
  for (const tile of tiles) {
    const packed = packedProductOf(kernel, c, tile, parts);
    const plan = planIn(packed && { ...packed, c, tile, parts }, kernel, shape, target);
    if (plan === null) continue;
    const { time } = estimateOf(tile, parts, filledShape(plan), target, maxSplitsOf(plan));
    if (time < least) [best, least] = [plan, time];
  }
  return best;
}

/** The plan of a product, where it is worth its tiles and what is written before it. */
function planIn(
  product: WgmmaProduct | null,
  kernel: LoopKernel,
  shape: ContractionSize,
  target: Target,
): WgmmaPlan | null {
  if (product === null || isThin(shape)) return null;
  if (!isTuned(shape, target) && !isWorthwhile(shape, product)) return null;
  return { kernel, target, shape, tile: product.tile, product };
}

function isTuned(shape: ContractionSize, { tuned }: Target): boolean {
  return tuned.get(keyOf(shape)) !== undefined;
}

function isThin({ m, n, k }: ContractionSize): boolean {
  return Math.min(m, n) < MIN_SIDE || product(k) < MIN_TERMS;
}

/** The shape with what fills up the last tiles of each side. */
function filledShape({ kernel, shape, tile, product }: WgmmaPlan): ContractionSize {
  const { rows, columns, terms } = product;
  return {
    ...shape,
    m: tilesAlong(kernel, rows) * tile.bm,
    n: tilesAlong(kernel, columns) * tile.bn,
    k: [tilesAlong(kernel, terms) * ROW_TERMS],
  };
}

/** In how many parts the sum of a plan is computed. */
export function splitsOf(plan: WgmmaPlan): number {
  const { tile, product, target } = plan;
  return estimateOf(tile, product.parts, filledShape(plan), target, maxSplitsOf(plan)).splits;
}

/** Sums are divided along their outermost loop, of which the box of a stage must be left. */
function maxSplitsOf({ kernel, product: { terms } }: WgmmaPlan): number {
  if (terms.kind === "flat") return Infinity;
  const { symbol, box } = terms.loops[0]!;
  return box === 1 ? Infinity : Math.max(1, Math.floor(kernel.sizes[symbol]! / box));
}

/** Operands as they lie, or their parts. */
function directProduct(
  kernel: LoopKernel,
  c: Contraction,
  tile: WgmmaTile,
  parts: PartCount,
): WgmmaProduct | null {
  const { batch, m, n, k } = c;
  const a = operandMapOf(kernel, "a", c.a, { batch, p: m, k }, tile.bm, parts);
  const b = operandMapOf(kernel, "b", c.b, { batch, p: n, k }, tile.bn, parts);
  if (a === null || b === null) return null;
  const side = (name: FlatSide["name"], symbols: readonly number[], length: number): FlatSide => ({
    kind: "flat",
    name,
    symbols,
    length,
  });
  return {
    c,
    tile,
    parts,
    a,
    b,
    rows: side("row", m, tile.bm),
    columns: side("column", n, tile.bn),
    terms: side("term", k, ROW_TERMS),
  };
}

/** In how many parts elements are multiplied; null for types that are not. */
function partsOf(c: Contraction): PartCount | null {
  const unit = unitOf(c, "mma");
  if (unit === null) return null;
  return unit.name !== "mma_tf32" ? 1 : unit.products === 3 ? 3 : 2;
}

/** True when a product pays for the operands that are written before it. */
function isWorthwhile({ m, n, k, batch }: ContractionSize, made: WgmmaProduct): boolean {
  const written = writtenOperands(made);
  if (written.length === 0) return true;
  const elements = written.reduce((all, { source }) => all + source.count, 0);
  return 2 * batch * m * n * product(k) > WRITE_OPERATIONS * elements + LAUNCH_OPERATIONS;
}

/** The tiles of all products of a plan. */
export function tilesOf({ kernel, product: { c, rows, columns } }: WgmmaPlan): number {
  return tilesAlong(kernel, rows) * tilesAlong(kernel, columns) * extent(kernel, c.batch);
}
