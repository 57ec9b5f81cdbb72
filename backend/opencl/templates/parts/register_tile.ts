/** The register tile of a CPU's work-item: rows of scalars times columns in vectors. */
import { LANES } from "../../codegen/vectors/vector_types.ts";
import type { Target } from "../../../kernel/target.ts";
import { type ContractionSize, largest, leastWork, tileCount } from "./tiling.ts";

/** So many rows of so many columns in vectors. */
export interface RegisterTile {
  readonly rows: number;
  readonly columns: number;
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, k) => from + k);
}

const tables = {
  /**
   * A CPU whose vectors have 16 floats. From studies on PoCL 3.1, AVX-512: any of 96 to 512 sums in
   * registers is as good within 3 %.
   */
  wide: {
    /** Sums take so many registers of so many floats. */
    registers: { count: 24, width: 16 },
    rows: [16, 8, 4, 2, 1],
    /** All columns up to `whole`; else pieces that take the fewest vectors, the first of equals. */
    columns: { whole: 48, pieces: [32, 48, 16, ...range(24, 31), ...range(33, 47)] },
  },
  /**
   * A CPU of shorter vectors, with 16 registers of 8 floats. PoCL 3.1 with AVX2 has 230 GFLOP/s of
   * 250 at 512x512x512, and 167 with the tiles above.
   */
  narrow: {
    registers: { count: 12, width: 8 },
    rows: [12, 6, 4, 2, 1],
    columns: { whole: 32, pieces: [16, 32, ...range(17, 31)] },
  },
} as const;

/** Cost of a vector where tiles do not divide the columns: the last one is stored by way of memory. */
const RAGGED_COST = 1.08;

/** True for CPUs whose vectors are as wide as those of the kernels. */
export function hasWideVectors({ vectorWidth }: Target): boolean {
  return vectorWidth >= LANES;
}

/** The tile that fills the registers; `widthOf` gives the width of the vectors of some columns. */
export function registerTile(
  { m, n }: ContractionSize,
  target: Target,
  widthOf: (columns: number) => number = vectorWidth,
): RegisterTile {
  const { registers, rows, columns: { whole, pieces } } =
    tables[hasWideVectors(target) ? "wide" : "narrow"];
  const cost = (c: number): number => Math.ceil(c / LANES) * (n % c === 0 ? 1 : RAGGED_COST);
  const columns = n <= whole ? n : leastWork(n, pieces, cost);
  const width = widthOf(columns);
  const across = Math.ceil(columns / width) * Math.ceil(width / registers.width);
  const heights = rows.filter((r) => r === 1 || r * across <= registers.count);
  // Each row more of a tile shares the reading of its columns.
  return { rows: leastWork(m, heights, (r) => r + 1.5), columns };
}

/** True when code can be written for a tile of a shape. */
export function fitsRegisters({ rows, columns }: RegisterTile, { m, n }: ContractionSize): boolean {
  return rows <= Math.min(m, 32) && columns >= 4 && columns <= Math.min(n, 128);
}

/** The width of the vectors that so many columns are computed in. */
export function vectorWidth(columns: number): number {
  return largest(columns, [16, 8, 4]);
}

/** The same where vectors may read more columns than count. */
export function paddedVectorWidth(columns: number): number {
  return columns > LANES ? LANES : [4, 8, LANES].find((width) => columns <= width)!;
}

/**
 * Pieces of work of a product on a CPU. They are counted in tiles of 8 rows by one vector whatever tile is
 * chosen, so that a sum is split alike on devices of different registers.
 */
export function countRegisterTiles(shape: ContractionSize): number {
  return tileCount(shape, 8, LANES);
}

/** Vectors of a tile's columns: the last one is moved back to end with the tile. */
export function columnsOf(count: number): { readonly width: number; readonly starts: number[] } {
  const width = vectorWidth(count);
  const starts = Array.from(
    { length: Math.ceil(count / width) },
    (_, v) => Math.max(0, Math.min(v * width, count - width)),
  );
  return { width, starts };
}
