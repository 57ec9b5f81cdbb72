/** A tile on matrix units laid out for warps: how each operand lies in global and in local memory. */
import { coefficient } from "../../../kernel/affine.ts";
import type { Emitter } from "../../../codegen/emit.ts";
import { type Contraction, extent, type Load, type LoopKernel } from "../../../kernel/kernel.ts";
import { last } from "../parts/contraction_shape.ts";
import { isFlat, liesAlongSum } from "../../../kernel/row_order.ts";
import { type MmaTile, stageBytesOf } from "./mma_tile.ts";

/** Bytes that one asynchronous copy moves at most. */
export const CHUNK_BYTES = 16;
/** Work-items that make a matrix instruction together. */
const WARP = 32;

/** Unit that multiplies elements. */
export type Unit = "f16" | "bf16" | "tf32" | "3xtf32";

/** One operand, as it is copied to local memory. */
export interface StagedOperand {
  readonly load: Load;
  /** The loops of its rows (m) or columns (n). */
  readonly symbols: readonly number[];
  readonly name: "a" | "b";
  /** Start of the tile along `symbols`, and length of that axis. */
  readonly origin: string;
  readonly size: string;
  /** True where neighbours along the summed axis lie side by side. */
  readonly alongK: boolean;
  /** Rows of the tile in local memory, and elements of each. */
  readonly rows: number;
  readonly columns: number;
  /** Elements that are copied at once; 0: one by one, through registers. */
  readonly vector: number;
}

/** One kernel: its tile, and how its operands are staged. */
export interface WarpTiling {
  readonly c: Contraction;
  readonly tile: MmaTile;
  readonly unit: Unit;
  /** Bytes of an element in local memory, and elements of a piece of 16 bytes. */
  readonly bytes: number;
  readonly chunk: number;
  readonly threads: number;
  readonly stageBytes: number;
  readonly a: StagedOperand;
  readonly b: StagedOperand;
}

/** The matrix unit that multiplies elements of a contraction; null where there is none. */
export function unitOf(c: Contraction): Unit | null {
  const { dtype, a, b } = c;
  if (a.dtype !== b.dtype || a.dtype !== dtype) return null;
  if (dtype === "float16") return "f16";
  if (dtype === "bfloat16") return "bf16";
  if (dtype !== "float32") return null;
  return (c.precision ?? "highest") === "highest" ? "3xtf32" : "tf32";
}

export function warpTilingOf(emitter: Emitter, c: Contraction, tile: MmaTile): WarpTiling {
  const { kernel } = emitter;
  const unit = unitOf(c)!;
  const bytes = unit === "f16" || unit === "bf16" ? 2 : 4;
  const chunk = CHUNK_BYTES / bytes;
  const operand = (
    name: "a" | "b",
    load: Load,
    symbols: readonly number[],
    length: number,
  ): StagedOperand => {
    const alongK = isAlongK(kernel, c, load, symbols);
    return {
      load,
      symbols,
      name,
      origin: name === "a" ? "row0" : "column0",
      size: emitter.index(extent(kernel, symbols)),
      alongK,
      rows: alongK ? length : tile.bk,
      columns: alongK ? tile.bk : length,
      vector: vectorOf(kernel, load, alongK ? c.k : symbols, bytes),
    };
  };
  return {
    c,
    tile,
    unit,
    bytes,
    chunk,
    threads: WARP * (tile.bm / tile.wm) * (tile.bn / tile.wn),
    stageBytes: stageBytesOf(tile, bytes),
    a: operand("a", c.a, c.m, tile.bm),
    b: operand("b", c.b, c.n, tile.bn),
  };
}

/**
 * Tiles lie along the axis whose neighbours are contiguous in memory; along the sum where none is. Where both
 * are nearly so, as in the image of a convolution, along the longer one.
 */
function isAlongK(
  kernel: LoopKernel,
  c: Contraction,
  { index, bounds }: Load,
  symbols: readonly number[],
): boolean {
  const along = coefficient(index, last(c.k)) === 1;
  const across = coefficient(index, last(symbols)) === 1;
  // What is masked is copied one by one: neighbours in steps of a few elements are near enough.
  if (bounds.length > 0 || along && across) return liesAlongSum(kernel, index, symbols, c.k);
  return along || !across;
}

/**
 * Neighbours along `symbols` that may be copied at once: as many as 16 or 4 bytes hold where all
 * of them begin at multiples of that and none crosses the end of the innermost loop.
 */
function vectorOf(
  kernel: LoopKernel,
  { index, bounds }: Load,
  symbols: readonly number[],
  bytes: number,
): number {
  const inner = last(symbols);
  const isPlain = bounds.length === 0 && coefficient(index, inner) === 1;
  const isWhole = isFlat(kernel, index, symbols);
  const divides = (by: number): boolean =>
    index.offset % by === 0 &&
    (isWhole || kernel.sizes[inner]! % by === 0) &&
    index.terms.every(([s, step]) =>
      (isWhole ? symbols.includes(s) : s === inner) || step % by === 0
    );
  const whole = CHUNK_BYTES / bytes, word = 4 / bytes;
  if (isPlain && divides(whole)) return whole;
  // A float fills four bytes by itself: bounds only say how many of them are read.
  if (word === 1) return 1;
  return isPlain && divides(word) ? word : 0;
}

/** Pieces of 16 bytes of an operand that a work-item copies in each stage. */
export function turnsOf({ chunk, threads }: WarpTiling, { rows, columns }: StagedOperand): number {
  return Math.ceil(rows * columns / chunk / threads);
}

/** Place of a piece in its row: no two rows that are read together meet in a bank. */
export function swizzled(
  tiling: WarpTiling,
  operand: StagedOperand,
  row: string,
  chunk: string,
): string {
  const perRow = operand.columns / tiling.chunk;
  // Floats that lie along m or n are read four bytes at a time, four rows together.
  if (tiling.bytes === 4 && !operand.alongK) return `${chunk} ^ ((${row} & 3) << 1)`;
  if (perRow >= 8) return `${chunk} ^ (${row} & 7)`;
  if (perRow === 4) return `${chunk} ^ ((${row} >> 1) & 3)`;
  return `${chunk} ^ ((${row} >> 2) & 1)`;
}
