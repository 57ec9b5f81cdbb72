/**
 * One side of the tiles of a product: its rows, its columns, or the terms of a stage. Where an operand has one
 * axis for all loops of a side, tiles are pieces of that; else a tile is a box over the loops.
 */
import type { Emitter } from "../../../codegen/emit.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import { decomposeInto } from "../parts/tile_text.ts";

/** A loop, and how many of its iterations a tile has. */
export interface BoxLoop {
  readonly symbol: number;
  readonly box: number;
}

/** A side whose tiles are pieces of one axis. */
export interface FlatSide {
  readonly kind: "flat";
  readonly name: "row" | "column" | "term";
  /** Rows, columns or terms of a tile. */
  readonly length: number;
  readonly symbols: readonly number[];
}

/** A side whose tiles are boxes; loops from the outermost on. */
export interface BoxedSide {
  readonly kind: "boxed";
  readonly loops: readonly BoxLoop[];
}

/** A side of a tile. */
export type TileSide = FlatSide | BoxedSide;

/** Number of tiles along a side. */
export function tilesAlong(kernel: LoopKernel, side: TileSide): number {
  if (side.kind === "flat") return Math.ceil(extent(kernel, side.symbols) / side.length);
  return side.loops.reduce((all, { symbol, box }) => all * boxesOf(kernel, symbol, box), 1);
}

/** The share of a side's tiles that is not empty. */
export function filledShare(kernel: LoopKernel, { loops }: BoxedSide): number {
  return loops.reduce(
    (all, { symbol, box }) => all * kernel.sizes[symbol]! / (boxesOf(kernel, symbol, box) * box),
    1,
  );
}

function boxesOf({ sizes }: LoopKernel, symbol: number, box: number): number {
  return Math.ceil(sizes[symbol]! / box);
}

/** Declares where the tile number `index` begins: `row0`, or `f2`, `f3` for loops 2 and 3. */
export function declareOrigin(emitter: Emitter, side: TileSide, index: string): void {
  if (side.kind === "flat") {
    emitter.line(`const Index ${side.name}0 = (${index}) * ${side.length};`);
    return;
  }
  let rest = index;
  side.loops.toReversed().forEach(({ symbol, box }, at) => {
    const boxes = boxesOf(emitter.kernel, symbol, box), isLast = at === side.loops.length - 1;
    if (isLast || boxes === 1) {
      emitter.line(`const Index f${symbol} = ${isLast ? `(${rest}) * ${box}` : "0"};`);
      return;
    }
    const count = emitter.index(boxes);
    emitter.line(`const Index f${symbol} = (${rest}) % ${count} * ${box};`);
    emitter.line(`const Index fq${symbol} = (${rest}) / ${count};`);
    rest = `fq${symbol}`;
  });
}

/** Declares the indices of the row, column or term number `local` of a tile; the condition that it exists. */
export function declarePlace(emitter: Emitter, side: TileSide, local: string): string {
  const { kernel } = emitter;
  if (side.kind === "flat") {
    const { name, symbols } = side;
    emitter.line(`const Index ${name} = ${name}0 + ${local};`);
    decomposeInto(emitter, symbols, name, "i");
    return `${name} < ${emitter.index(extent(kernel, symbols))}`;
  }
  const conditions: string[] = [];
  let inner = 1;
  for (const { symbol, box } of side.loops.toReversed()) {
    emitter.line(`const Index i${symbol} = f${symbol} + (${local}) / ${inner} % ${box};`);
    if (kernel.sizes[symbol]! % box !== 0) {
      conditions.push(`i${symbol} < ${emitter.index(kernel.sizes[symbol]!)}`);
    }
    inner *= box;
  }
  return conditions.join(" && ") || "1";
}

/** The loop along which neighbours of a side are neighbours. */
export function innermost(side: TileSide): number {
  return side.kind === "flat" ? side.symbols.at(-1)! : side.loops.at(-1)!.symbol;
}
