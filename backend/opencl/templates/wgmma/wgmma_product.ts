/** A product as warpgroups compute it: its loops, its tile, its operands as maps. */
import type { Contraction, LoopKernel } from "../../../kernel/kernel.ts";
import type { Target } from "../../../kernel/target.ts";
import { groupShape, type TiledPlan, withoutFreeBatch } from "../parts/contraction_shape.ts";
import { unitOf } from "../mma/warp_tiling.ts";
import { type ContractionSize, keyOf, product, tileOf } from "../parts/tiling.ts";
import { type OperandMap, operandMapOf } from "./tensor_map.ts";
import { type PartCount, type WgmmaTile, wgmmaTiles } from "./wgmma_tile.ts";

/** Products with fewer rows, columns or terms leave most of a tile empty. */
const MIN_SIDE = 64, MIN_TERMS = 64;
/** An element that is split into parts costs as much time as so many operations of a product save. */
const PART_OPERATIONS = 290;
/** One more launch costs as much. */
const LAUNCH_OPERATIONS = 3e8;

/** What a kernel is written from. */
export interface WgmmaProduct {
  readonly c: Contraction;
  readonly tile: WgmmaTile;
  readonly parts: PartCount;
  readonly a: OperandMap;
  readonly b: OperandMap;
}

/** A product with the kernel that it is for. */
export interface WgmmaPlan extends TiledPlan<WgmmaTile> {
  readonly product: WgmmaProduct;
}

/** How a kernel is computed by warpgroups; null where it is not. */
export function wgmmaPlanOf(kernel: LoopKernel, target: Target): WgmmaPlan | null {
  const whole = kernel.contraction!, parts = partsOf(whole);
  if (parts === null) return null;
  const rule = wgmmaTiles[parts];
  for (const c of new Set([withoutFreeBatch(whole), whole])) {
    const shape = groupShape(kernel, rule.kind, c);
    if (!isWorthwhile(shape, parts) && !target.tuned.get(keyOf(shape))) continue;
    const tile = tileOf(rule, shape, target), { batch, m, n, k } = c;
    const a = operandMapOf(kernel, "a", c.a, { batch, p: m, k }, tile.bm, parts);
    const b = operandMapOf(kernel, "b", c.b, { batch, p: n, k }, tile.bn, parts);
    if (a && b) return { kernel, target, shape, tile, product: { c, tile, parts, a, b } };
  }
  return null;
}

/** In how many parts elements are multiplied; null for types that are not. */
function partsOf(c: Contraction): PartCount | null {
  const unit = unitOf(c);
  if (unit === null) return null;
  if (unit === "f16" || unit === "bf16") return 1;
  return unit === "3xtf32" ? 3 : 2;
}

/** Whether a product fills tiles, and pays for its operands' parts. */
function isWorthwhile({ m, n, k, batch }: ContractionSize, parts: PartCount): boolean {
  const terms = product(k);
  if (Math.min(m, n) < MIN_SIDE || terms < MIN_TERMS) return false;
  return parts === 1 ||
    2 * batch * m * n * terms > PART_OPERATIONS * batch * (m + n) * terms + LAUNCH_OPERATIONS;
}
