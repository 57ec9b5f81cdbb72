/** The tiles of matrix units: which are chosen, and what fits into local memory. */
import type { MatrixUnits, Target } from "../../../kernel/target.ts";
import { unitOfBytes } from "../../../tile/matrix_units.ts";
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

/** Tiles by the bytes of an element. */
type Choices = Readonly<Partial<Record<2 | 4, readonly Choice[]>>>;

/** A tile whose rows and columns are divided among warps, with stages of `bk` terms. */
const piece = (
  speed: number,
  [bm, bn, bk]: readonly number[],
  [wm, wn]: readonly number[],
  stages = 2,
): Choice => ({ speed, tile: { bm: bm!, bn: bn!, bk: bk!, wm: wm!, wn: wn!, stages } });

/** Speeds and sizes of the tiles of halves. */
const sizes = [
  [1, [128, 128, 32]],
  [0.8, [128, 64, 32]],
  [0.8, [64, 128, 32]],
  [0.65, [64, 64, 64]],
  [0.4, [64, 32, 64]],
  [0.4, [32, 64, 64]],
] as const;

/** These by the parts of their warps. */
const halves = (parts: readonly (readonly number[])[], stages: readonly number[] = []): Choice[] =>
  sizes.map(([speed, size], k) => piece(speed, size, parts[k]!, stages[k]));

/**
 * NVIDIA's. On an H100 128x128 reaches 302 TFLOP/s in bfloat16 at 4096, 64x64 241; float32
 * by three products 44 to 48, 40. On an H200 the smallest of float32 takes 16 us for 64 x 512 times 512 x 2048,
 * where there are too few of 64x64 for the device (25 us); 18 for 512 x 512 x 512 (24), 29 for 1000 x 512 x 512 (27).
 */
const mma: Choices = {
  2: halves(
    [[64, 64], [64, 32], [32, 64], [32, 32], [32, 16], [16, 32]],
    [3, 4, 4, 3, 3, 3],
  ),
  4: [
    piece(1, [128, 128, 16], [64, 32], 3),
    piece(0.85, [128, 64, 16], [64, 32], 4),
    piece(0.85, [64, 128, 16], [32, 64], 4),
    piece(0.7, [64, 64, 32], [32, 32], 3),
    piece(0.34, [32, 32, 64], [16, 16]),
  ],
};

/**
 * Choices for halves on wavefronts of 32 and of 64, in groups of at most 256 work-items. Nobody measured them:
 * speeds are those of equal tiles on an H100.
 */
const wavefronts: Readonly<Record<32 | 64, readonly Choice[]>> = {
  32: halves([[32, 64], [32, 32], [32, 32], [32, 32], [32, 16], [16, 32]]),
  64: halves([[64, 64], [64, 32], [32, 64], [32, 32], [32, 16], [16, 32]]),
};

/** The same on Intel's sub-groups: a thread's 128 registers hold the sums of few rows and columns. */
const subgroups = (columns: number): Choice[] => [
  piece(1, [128, 64, 32], [16, columns]),
  piece(1, [64, 128, 32], [16, columns]),
  piece(0.8, [64, 64, 32], [16, columns]),
  piece(0.5, [32, 64, 32], [16, columns]),
];

/** The tiles of a device's units. */
const choices: Readonly<Record<MatrixUnits, Choices>> = {
  mma,
  wmma: { 2: wavefronts[32] },
  wmma12: { 2: wavefronts[32] },
  mfma: { 2: wavefronts[64] },
  dpas8: { 2: subgroups(16) },
  dpas16: { 2: subgroups(32) },
};

/** Most work-items of a group, and most sums of one. */
const MAX_ITEMS = 256, MAX_SUMS = 128;
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
    const candidates = choices[target.matrixUnits!][shape.elementBytes === 2 ? 2 : 4]!;
    return candidates.reduce((a, b) => cost(b, shape, target) < cost(a, shape, target) ? b : a)
      .tile;
  },
  counts: ["bm", "bn", "bk", "wm", "wn", "stages"],
  admits: (tile, { elementBytes = FLOAT }, { localMemory, matrixUnits }) => {
    const { bm, bn, bk, wm, wn, stages } = tile, unit = unitOfBytes(matrixUnits!, elementBytes);
    if (unit === null) return false;
    const warps = bm / wm * (bn / wn), chunk = 16 / elementBytes;
    const bytes = stages * stageBytesOf(tile, elementBytes);
    // A warp multiplies 16 rows by 16 columns at a time; rows of local memory hold 4, 8, ... pieces.
    return bm % wm === 0 && bn % wn === 0 && wm % 16 === 0 && wn % 16 === 0 &&
      warps * unit.lanes <= MAX_ITEMS && wm * wn <= MAX_SUMS * unit.lanes &&
      bk % unit.terms === 0 && stages >= 2 && stages <= 8 && isPower(bk) && bk / chunk >= 4 &&
      isPower(bm) && isPower(bn) && bm >= 32 && bn >= 32 &&
      bytes <= localMemory && slabPieces(tile, unit, bytes) !== null;
  },
};

const isPower = (n: number): boolean => (n & (n - 1)) === 0;
