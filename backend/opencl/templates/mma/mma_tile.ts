/** The tiles of matrix units: which are chosen, and what fits into local memory. */
import type { Target } from "../../../kernel/target.ts";
import { type MmaTile, slabPieces, stageBytesOf } from "../../../tile/programs/matrix_gemm.ts";
import {
  type ContractionSize,
  FLOAT,
  MIN_GPU_PART,
  product,
  tileCount,
  type TileRule,
} from "../parts/tiling.ts";

/** A tile with its speed, relative to the others of its type. */
interface Choice {
  readonly speed: number;
  readonly tile: MmaTile;
}

/**
 * By the bytes of an element. On an H100 128x128 reaches 302 TFLOP/s in bfloat16 at 4096, 64x64 241; float32
 * by three products 44 to 48, 40. On an H200 the smallest of float32 takes 16 us for 64 x 512 times 512 x 2048,
 * where there are too few of 64x64 for the device (25 us); 18 for 512 x 512 x 512 (24), 29 for 1000 x 512 x 512 (27).
 */
const choices: Readonly<Record<2 | 4, readonly Choice[]>> = {
  2: [
    { speed: 1, tile: { bm: 128, bn: 128, bk: 32, wm: 64, wn: 64, stages: 3 } },
    { speed: 0.8, tile: { bm: 128, bn: 64, bk: 32, wm: 64, wn: 32, stages: 4 } },
    { speed: 0.8, tile: { bm: 64, bn: 128, bk: 32, wm: 32, wn: 64, stages: 4 } },
    { speed: 0.65, tile: { bm: 64, bn: 64, bk: 64, wm: 32, wn: 32, stages: 3 } },
    { speed: 0.4, tile: { bm: 64, bn: 32, bk: 64, wm: 32, wn: 16, stages: 3 } },
    { speed: 0.4, tile: { bm: 32, bn: 64, bk: 64, wm: 16, wn: 32, stages: 3 } },
  ],
  4: [
    { speed: 1, tile: { bm: 128, bn: 128, bk: 16, wm: 64, wn: 32, stages: 3 } },
    { speed: 0.85, tile: { bm: 128, bn: 64, bk: 16, wm: 64, wn: 32, stages: 4 } },
    { speed: 0.85, tile: { bm: 64, bn: 128, bk: 16, wm: 32, wn: 64, stages: 4 } },
    { speed: 0.7, tile: { bm: 64, bn: 64, bk: 32, wm: 32, wn: 32, stages: 3 } },
    { speed: 0.34, tile: { bm: 32, bn: 32, bk: 64, wm: 16, wn: 16, stages: 2 } },
  ],
};
/** Groups of a tile that share a multiprocessor. */
const RESIDENT_GROUPS = 2;

/** Turns in which the device computes all groups, whose sums may be divided, times the time of one. */
function cost({ speed, tile }: Choice, shape: ContractionSize, { computeUnits }: Target): number {
  const splits = Math.max(1, Math.floor(product(shape.k) / (8 * MIN_GPU_PART)));
  const groups = tileCount(shape, tile.bm, tile.bn), room = computeUnits * RESIDENT_GROUPS;
  const turns = groups >= room ? Math.ceil(groups / room) : 1 / Math.min(splits, room / groups);
  return turns * tile.bm * tile.bn / speed;
}

export const mmaTiles: TileRule<MmaTile> = {
  kind: "matrix-units",
  choose: (shape, target) => {
    const candidates = choices[shape.elementBytes === 2 ? 2 : 4];
    return candidates.reduce((a, b) => cost(b, shape, target) < cost(a, shape, target) ? b : a)
      .tile;
  },
  counts: ["bm", "bn", "bk", "wm", "wn", "stages"],
  admits: (tile, { elementBytes = FLOAT }, { localMemory }) => {
    const { bm, bn, bk, wm, wn, stages } = tile;
    const warps = bm / wm * (bn / wn), chunk = 16 / elementBytes;
    const bytes = stages * stageBytesOf(tile, elementBytes);
    // A warp multiplies 16 rows by 16 columns at a time; rows of local memory hold 4, 8, ... pieces.
    return bm % wm === 0 && bn % wn === 0 && wm % 16 === 0 && wn % 16 === 0 && warps <= 8 &&
      wm * wn <= 4096 && stages >= 2 && stages <= 8 && isPower(bk) && bk / chunk >= 4 &&
      isPower(bm) && isPower(bn) && bm >= 32 && bn >= 32 &&
      bytes <= localMemory && slabPieces(tile, bytes) !== null;
  },
};

function isPower(n: number): boolean {
  return (n & (n - 1)) === 0;
}
