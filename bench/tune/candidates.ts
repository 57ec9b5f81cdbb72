/** The tiles that are tried, for each kind of contraction kernel. */
import type { Target } from "../../backend/kernel/target.ts";
import { directTiles } from "../../backend/opencl/templates/convolution/direct_convolution.ts";
import {
  type InnerProductTile,
  innerProductTiles,
} from "../../backend/opencl/templates/gemm/inner_product_gemm.ts";
import { localMemoryTiles } from "../../backend/opencl/templates/gemm/local_memory_gemm.ts";
import {
  type RegisterGemmTile,
  registerTiles,
} from "../../backend/opencl/templates/gemm/register_tiled_gemm.ts";
import { mmaTiles } from "../../backend/opencl/templates/mma/mma_tile.ts";
import type { RegisterTile } from "../../backend/opencl/templates/parts/register_tile.ts";
import {
  type ContractionSize,
  isTile,
  tileOf,
  type TileRule,
} from "../../backend/opencl/templates/parts/tiling.ts";

import { type WgmmaTile, wgmmaTiles } from "../../backend/opencl/templates/wgmma/wgmma_tile.ts";
import type { GemmTile } from "../../backend/tile/programs/gemm.ts";
import type { MmaTile } from "../../backend/tile/programs/matrix_gemm.ts";

/** The tile of any template. */
export type Tile =
  | RegisterGemmTile
  | RegisterTile
  | InnerProductTile
  | GemmTile
  | MmaTile
  | WgmmaTile;

/** All combinations of one value each. */
function combinations<T extends Record<string, readonly unknown[]>>(
  choices: T,
): { [K in keyof T]: T[K][number] }[] {
  return Object.entries(choices).reduce<Record<string, unknown>[]>(
    (found, [name, values]) =>
      found.flatMap((f) => values.map((value) => ({ ...f, [name]: value }))),
    [{}],
  ) as { [K in keyof T]: T[K][number] }[];
}

/** Sums that fill registers without spilling: beyond that no tile has ever won. */
const FEWEST = 4, MOST = 28;

function registerGemmTiles({ n }: ContractionSize): RegisterGemmTile[] {
  const columns = [16, 32, 48, 64, ...n <= 64 ? [n] : []];
  const all = combinations({
    rows: [1, 2, 4, 6, 8, 12, 16, 24],
    columns: [...new Set(columns)],
    packed: [false, true],
  });
  return all.filter(({ rows, columns }) => {
    const vectors = rows * Math.ceil(columns / 16);
    return vectors >= FEWEST && vectors <= MOST;
  });
}

/** A window is packed anyway. */
function convolutionTiles(shape: ContractionSize): RegisterTile[] {
  return registerGemmTiles(shape).flatMap(({ packed, ...tile }) => packed ? [] : [tile]);
}

function dotTiles(): InnerProductTile[] {
  const all = combinations({ rows: [1, 2, 4, 6, 8], columns: [1, 2, 3, 4, 5, 6, 8] });
  return all.filter(({ rows, columns }) => rows * columns >= FEWEST && rows * columns <= MOST);
}

function groupTiles(): GemmTile[] {
  const sides = [32, 64, 128, 256], pieces = [2, 4, 8, 16];
  const all = combinations({ bm: sides, bn: sides, bk: [8, 16, 32], tm: pieces, tn: pieces });
  return all.filter(({ bm, bn, bk, tm, tn }) => {
    const items = bm / tm * (bn / tn), sums = tm * tn, copied = (bm + bn) * bk;
    const isEven = Math.max(bm / bn, bn / bm) <= 4 && Math.max(tm / tn, tn / tm) <= 2;
    // Enough sums an item to pay for its loads, enough terms a tile to pay for the barrier.
    const isWorth = (tm === tn || sums >= 32) && items >= 64 && copied >= 1024;
    return isEven && isWorth && sums <= 128 && copied <= 4096;
  });
}

function matrixUnitTiles(): MmaTile[] {
  const sides = [32, 64, 128, 256], pieces = [16, 32, 64];
  const all = combinations({
    bm: sides,
    bn: sides,
    bk: [16, 32, 64],
    wm: pieces,
    wn: pieces,
    stages: [2, 3, 4],
  });
  return all.filter(({ bm, bn, wm, wn }) => {
    const warps = bm / wm * (bn / wn);
    return warps >= 2 && warps <= 8 && Math.max(wm / wn, wn / wm) <= 2;
  });
}

function warpgroupTiles(): WgmmaTile[] {
  return combinations({ bm: [64, 128], bn: [64, 128, 192, 256], stages: [2, 3, 4, 5, 6, 8] });
}

/** The tiles of one template. */
interface Family {
  readonly candidates: (shape: ContractionSize, target: Target) => Tile[];
  readonly current: (shape: ContractionSize, target: Target) => Tile;
}

function family<T extends Tile>(
  rule: TileRule<T>,
  list: (shape: ContractionSize) => T[],
): readonly [kind: string, family: Family] {
  return [rule.kind, {
    candidates: (shape, target) => list(shape).filter((tile) => isTile(rule, tile, shape, target)),
    current: (shape, target) => tileOf(rule, shape, target),
  }];
}

const families: ReadonlyMap<string, Family> = new Map([
  family(registerTiles, registerGemmTiles),
  family(directTiles, convolutionTiles),
  family(innerProductTiles, dotTiles),
  family(localMemoryTiles, groupTiles),
  family(mmaTiles, matrixUnitTiles),
  ...Object.values(wgmmaTiles).map((rule) => family(rule, warpgroupTiles)),
]);

/** The tiles to try for a shape. */
export function candidateTiles(shape: ContractionSize, target: Target): Tile[] {
  return families.get(shape.kind)!.candidates(shape, target);
}

/** The tile that a shape is computed in today. */
export function currentTile(shape: ContractionSize, target: Target): Tile {
  return families.get(shape.kind)!.current(shape, target);
}

/** A part of a sum is never shorter than this, and there are never more groups or tiles a core. */
const MIN_PART_LENGTH = 64, MAX_PARTS_PER_UNIT = 16;

/** The numbers of parts to try for a sum that is computed in so many tiles; 1 is always one. */
export function candidateParts(length: number, tiles: number, units: number): number[] {
  return [1, 2, 4, 8, 16, 32, 64].filter((parts) =>
    parts === 1 || length / parts >= MIN_PART_LENGTH && tiles * parts <= units * MAX_PARTS_PER_UNIT
  );
}

/** A tile in few words. */
export function tileText(tile: Tile): string {
  if ("wm" in tile) {
    return `${tile.bm}x${tile.bn}x${tile.bk} of ${tile.wm}x${tile.wn} in ${tile.stages} stages`;
  }
  if ("stages" in tile) return `${tile.bm}x${tile.bn} in ${tile.stages} stages`;
  if ("bm" in tile) return `${tile.bm}x${tile.bn}x${tile.bk} of ${tile.tm}x${tile.tn}`;
  return `${tile.rows}x${tile.columns}${"packed" in tile && tile.packed ? " packed" : ""}`;
}
