/** The tiles of products by warpgroups: which are chosen, and what fits into local memory. */
import type { Target } from "../../../kernel/target.ts";
import { type ContractionSize, FLOAT, product, type TileRule } from "../parts/tiling.ts";

/** Rows of a warpgroup, and bytes of a row of an operand in local memory: the width of the swizzle. */
export const GROUP_ROWS = 64, ROW_BYTES = 128;
/** Work-items of a warpgroup. */
export const WARPGROUP = 128;
/** Columns of the sums of a warp that leave together. */
export const SLAB_COLUMNS = 64;
/** Rows of a warp. */
export const WARP_ROWS = 16;
/** Bytes of local memory that a work-group of Hopper has, more than the device says, but for the alignment. */
export const HOPPER_LOCAL_MEMORY = 232_448 - 1024;
/** Bytes of the two barriers of a stage. */
export const STAGE_BARRIERS = 16;

/**
 * The tile of a work-group (bm x bn, a row of 128 bytes of terms a stage), and how many stages are in local
 * memory. Each 64 rows have a warpgroup that multiplies; one more warp copies.
 */
export interface WgmmaTile {
  readonly bm: number;
  readonly bn: number;
  readonly stages: number;
}

/**
 * In how many numbers of a half type an element is multiplied: one where it is of such a type. A float is the
 * sum of three bfloat16 numbers, of which two have 16 bits.
 */
export type PartCount = 1 | 2 | 3;

/** A tile with its speed, relative to the others of its parts. */
interface Choice {
  readonly speed: number;
  readonly tile: WgmmaTile;
}

/**
 * Measured on an H100, products of 8192 and 4096: 744 and 713 TFLOP/s in float16 with the largest tile, 122 and
 * 120 in float32 by three parts.
 */
const choices: Readonly<Record<PartCount, readonly Choice[]>> = {
  1: [
    { speed: 1, tile: { bm: 128, bn: 256, stages: 4 } },
    { speed: 0.97, tile: { bm: 128, bn: 192, stages: 4 } },
    { speed: 0.94, tile: { bm: 128, bn: 128, stages: 6 } },
    { speed: 0.87, tile: { bm: 64, bn: 256, stages: 4 } },
    { speed: 0.57, tile: { bm: 64, bn: 128, stages: 4 } },
    { speed: 0.45, tile: { bm: 64, bn: 64, stages: 5 } },
  ],
  2: [
    { speed: 1, tile: { bm: 128, bn: 128, stages: 3 } },
    { speed: 0.8, tile: { bm: 64, bn: 128, stages: 4 } },
    { speed: 0.5, tile: { bm: 64, bn: 64, stages: 5 } },
  ],
  3: [
    { speed: 1, tile: { bm: 128, bn: 128, stages: 2 } },
    { speed: 0.87, tile: { bm: 64, bn: 128, stages: 2 } },
    { speed: 0.62, tile: { bm: 64, bn: 64, stages: 4 } },
  ],
};

/** Sums of parts are added up apart, by instructions that round: the units truncate. */
export const isRounded = (parts: PartCount): boolean => parts === 3;

/** Bytes of local memory of a tile. */
export function localBytes(tile: WgmmaTile, parts: PartCount): number {
  const { bm, stages } = tile;
  return stages * (stageBytes(tile, parts) + STAGE_BARRIERS) + bm / WARP_ROWS * slabBytes();
}

/** Bytes of both operands of one stage. */
export function stageBytes({ bm, bn }: WgmmaTile, parts: PartCount): number {
  return parts * (bm + bn) * ROW_BYTES;
}

/** Bytes through which the sums of a warp leave. */
export const slabBytes = (): number => WARP_ROWS * SLAB_COLUMNS * FLOAT;

/** Work-items of a group: those that multiply, and the warp that copies. */
export const workItemsOf = ({ bm }: WgmmaTile): number => bm / GROUP_ROWS * WARPGROUP + 32;

/** Groups that share a multiprocessor. */
export function residentGroups(tile: WgmmaTile, parts: PartCount): number {
  return Math.max(1, Math.min(2, Math.floor(HOPPER_LOCAL_MEMORY / localBytes(tile, parts))));
}

/** Operations of a compute unit in a microsecond, by tiles of speed 1, and bytes that it stores. */
const OPERATIONS = 5.3e6, STORED_BYTES = 15e3;
/** Microseconds that a group needs before its first product, and that one more launch takes. */
const START = 2, LAUNCH = 3;
/** Into how many parts sums are divided at most, and terms of the shortest. */
const MAX_SPLITS = 64, MIN_TERMS = 256;

/** About how many microseconds a product takes whose sums are divided into so many. */
function timeOf(
  { speed, tile }: Choice,
  parts: PartCount,
  splits: number,
  { m, n, k, batch }: ContractionSize,
  { computeUnits }: Target,
): number {
  const { bm, bn } = tile, resident = residentGroups(tile, parts);
  const groups = Math.ceil(m / bm) * Math.ceil(n / bn) * batch * splits;
  // Groups that share a compute unit share its time.
  const turns = Math.ceil(groups / (computeUnits * resident)) *
    Math.min(resident, Math.ceil(groups / computeUnits));
  const operations = bm * bn * (product(k) / splits) * parts * (parts + 1);
  const one = operations / (OPERATIONS * speed) + bm * bn * FLOAT / STORED_BYTES;
  const join = 2 * splits * batch * m * n * FLOAT / (STORED_BYTES * computeUnits) + LAUNCH;
  return START + turns * one + (splits > 1 ? join : 0);
}

/** The tile, of some, that takes the least time, with the number of parts of the sum. */
function fastest(
  tiles: readonly Choice[],
  parts: PartCount,
  shape: ContractionSize,
  target: Target,
  maxSplits: number,
): { readonly tile: WgmmaTile; readonly splits: number; readonly time: number } {
  let best = { tile: tiles[0]!.tile, splits: 1, time: Infinity };
  const most = Math.min(maxSplits, MAX_SPLITS, product(shape.k) / MIN_TERMS);
  for (const choice of tiles) {
    for (let splits = 1; splits <= Math.max(1, most); splits *= 2) {
      const time = timeOf(choice, parts, splits, shape, target);
      if (time < best.time) best = { tile: choice.tile, splits, time };
    }
  }
  return best;
}

/** The tiles that products are computed in, if nothing was tuned. */
export function tilesFor(parts: PartCount): readonly WgmmaTile[] {
  return choices[parts].map(({ tile }) => tile);
}

/**
 * The least time that a product takes in a tile, in microseconds, and into how many parts its sum is divided: at
 * most `maxSplits`.
 */
export function estimateOf(
  tile: WgmmaTile,
  parts: PartCount,
  shape: ContractionSize,
  target: Target,
  maxSplits: number = Infinity,
): { readonly time: number; readonly splits: number } {
  const { bm, bn } = tile;
  const known = choices[parts].find(({ tile: t }) => t.bm === bm && t.bn === bn);
  return fastest([{ speed: known?.speed ?? 1, tile }], parts, shape, target, maxSplits);
}

function rule(parts: PartCount): TileRule<WgmmaTile> {
  return {
    kind: parts === 1 ? "warpgroups" : `warpgroups of ${parts} parts`,
    choose: (shape, target) => fastest(choices[parts], parts, shape, target, Infinity).tile,
    counts: ["bm", "bn", "stages"],
    // Twice the sums would not leave registers for a wider tile.
    admits: (tile) =>
      [64, 128].includes(tile.bm) && tile.bn % 64 === 0 &&
      tile.bn <= (isRounded(parts) ? 128 : 256) &&
      tile.stages >= 2 && tile.stages <= 8 && localBytes(tile, parts) <= HOPPER_LOCAL_MEMORY,
  };
}

export const wgmmaTiles: Readonly<Record<PartCount, TileRule<WgmmaTile>>> = {
  1: rule(1),
  2: rule(2),
  3: rule(3),
};
