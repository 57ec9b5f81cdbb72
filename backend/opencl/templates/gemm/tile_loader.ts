/**
 * The loader of a tile: a work-group copies a piece of an operand to local memory. Every work-item holds its
 * share of the next piece in registers while the one before is multiplied.
 */
import type { Emitter } from "../../../codegen/emit.ts";
import { coefficient } from "../../../kernel/affine.ts";
import { type Contraction, extent, type Load } from "../../../kernel/kernel.ts";
import { loadText } from "../../codegen/types.ts";
import { last } from "../parts/contraction_shape.ts";
import { decomposeInto } from "../parts/tile_text.ts";

/** One operand of a tiled contraction. */
export interface TileOperand {
  readonly load: Load;
  readonly symbols: readonly number[];
  /** Its tile in local memory, and what each work-item holds of the next one. */
  readonly tile: string;
  readonly next: string;
  readonly origin: string;
  readonly size: string;
  readonly extent: number;
}

/** The element of a tile that a work-item copies in turn `u`: neighbours along what lies contiguous. */
function tileElement(
  c: Contraction,
  { load, extent }: TileOperand,
  bk: number,
  threads: number,
): string {
  const alongK = coefficient(load.form, last(c.k)) === 1;
  const e = `(lid + u * ${threads})`;
  const [at, kk] = alongK
    ? [`${e} / ${bk}`, `${e} % ${bk}`]
    : [`${e} % ${extent}`, `${e} / ${extent}`];
  return `const int at = ${at}, kk = ${kk};`;
}

/** Reads the tile that begins at `origin` into registers. */
export function fetchTile(
  emitter: Emitter,
  c: Contraction,
  operand: TileOperand,
  origin: string,
  sizeK: string,
  bk: number,
  threads: number,
): void {
  const { load, symbols, next, size } = operand;
  emitter.line("#pragma unroll");
  emitter.open(`for (int u = 0; u < ${operand.extent * bk / threads}; ++u) {`);
  emitter.line(tileElement(c, operand, bk, threads));
  emitter.line(`const Index p = ${operand.origin} + at, k = ${origin} + kk;`);
  emitter.line(`${next}[u] = 0;`);
  const { bounds } = load;
  const isWhole = extent(emitter.kernel, symbols) % operand.extent === 0 &&
    extent(emitter.kernel, c.k) % bk === 0;
  // Whole tiles are tested once, for the tile behind the last: tests of elements cost a fifth at 4096.
  emitter.open(isWhole ? `if (${origin} < ${sizeK}) {` : `if (p < ${size} && k < ${sizeK}) {`);
  decomposeInto(emitter, symbols, "p", "i");
  decomposeInto(emitter, c.k, "k", "i");
  if (bounds.length > 0) emitter.line(`if (${emitter.maskText(bounds)})`);
  emitter.line(`${next}[u] = ${loadText(`a${load.input}`, load.dtype, emitter.form(load.form))};`);
  emitter.close();
  emitter.close();
}

/** Writes the registers to local memory. */
export function putTile(
  emitter: Emitter,
  c: Contraction,
  operand: TileOperand,
  bk: number,
  threads: number,
): void {
  emitter.line("#pragma unroll");
  emitter.open(`for (int u = 0; u < ${operand.extent * bk / threads}; ++u) {`);
  emitter.line(tileElement(c, operand, bk, threads));
  emitter.line(`${operand.tile}[kk][at] = ${operand.next}[u];`);
  emitter.close();
}
