/** The tiles that are tried, for each kind of contraction kernel. */
import type { Target } from "../../backend/opencl/templates/codegen.ts";
import {
  type DotTile,
  type GroupTile,
  isTile,
  type Kind,
  type MmaTile,
  type RowTile,
  type Shape,
  type Tiles,
  type WindowTile,
} from "../../backend/opencl/templates/tile_choices.ts";

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

function rowTiles({ n }: Shape): RowTile[] {
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
function windowTiles(shape: Shape): WindowTile[] {
  return rowTiles(shape).flatMap(({ packed, ...tile }) => packed ? [] : [tile]);
}

function dotTiles(): DotTile[] {
  const all = combinations({ rows: [1, 2, 4, 6, 8], columns: [1, 2, 3, 4, 5, 6, 8] });
  return all.filter(({ rows, columns }) => rows * columns >= FEWEST && rows * columns <= MOST);
}

function groupTiles(): GroupTile[] {
  const sides = [32, 64, 128, 256], pieces = [2, 4, 8, 16];
  const all = combinations({ bm: sides, bn: sides, bk: [8, 16, 32], tm: pieces, tn: pieces });
  return all.filter(({ bm, bn, bk, tm, tn }) => {
    const items = bm / tm * (bn / tn), sums = tm * tn, copied = (bm + bn) * bk;
    const isEven = Math.max(bm / bn, bn / bm) <= 4 && Math.max(tm / tn, tn / tm) <= 2;
    // A work-item's piece is worth its reads, the group's terms are worth a barrier.
    const isWorth = (tm === tn || sums >= 32) && items >= 64 && copied >= 1024;
    return isEven && isWorth && sums <= 128 && copied <= 4096;
  });
}

function mmaTiles(): MmaTile[] {
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

const lists: { readonly [K in Kind]: (shape: Shape<K>) => Tiles[K][] } = {
  rows: rowTiles,
  window: windowTiles,
  dots: dotTiles,
  tiles: groupTiles,
  mma: mmaTiles,
};

/** The tiles to try for a shape. */
export function candidateTiles<K extends Kind>(shape: Shape<K>, target: Target): Tiles[K][] {
  return lists[shape.kind](shape).filter((tile) => isTile(tile, shape, target));
}

/** A part of a sum is never shorter than this, and there are never more groups or tiles a core. */
const SHORTEST = 64, MOST_PER_UNIT = 16;

/** The numbers of parts to try for a sum that is computed in so many tiles; 1 is always one. */
export function candidateParts(length: number, tiles: number, units: number): number[] {
  return [1, 2, 4, 8, 16, 32, 64].filter((parts) =>
    parts === 1 || length / parts >= SHORTEST && tiles * parts <= units * MOST_PER_UNIT
  );
}

/** A tile in few words. */
export function tileText(tile: Tiles[Kind]): string {
  if ("wm" in tile) {
    return `${tile.bm}x${tile.bn}x${tile.bk} of ${tile.wm}x${tile.wn} in ${tile.stages} stages`;
  }
  if ("bm" in tile) return `${tile.bm}x${tile.bn}x${tile.bk} of ${tile.tm}x${tile.tn}`;
  return `${tile.rows}x${tile.columns}${"packed" in tile && tile.packed ? " packed" : ""}`;
}
