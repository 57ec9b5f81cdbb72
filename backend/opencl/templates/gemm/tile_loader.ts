/**
 * The loader of a tile: a work-group copies a piece of an operand to local memory. Every work-item holds its
 * share of the next piece in registers while the one before is multiplied.
 *
 * Where an operand has several loops (convolutions), work-items keep what follows from their rows or columns,
 * and the group keeps a table of what follows from the terms of the next piece.
 */
import type { Emitter } from "../../../codegen/emit.ts";
import { type Contraction, extent, type Load } from "../../../kernel/kernel.ts";
import { loadText } from "../../codegen/types.ts";
import { isFlat, liesAlongSum, OperandAddress } from "../parts/operand_address.ts";
import { last } from "../parts/contraction_shape.ts";
import { decomposeInto, step, without } from "../parts/tile_text.ts";

/** One operand of a tiled contraction. */
export interface TileOperand {
  readonly load: Load;
  /** The loops of its rows or columns. */
  readonly symbols: readonly number[];
  /** Its tile in local memory, and what each work-item holds of the next one. */
  readonly tile: string;
  readonly next: string;
  readonly origin: string;
  readonly size: string;
  readonly extent: number;
}

/** Copies one operand's tiles, `bk` terms at a time, by so many work-items. */
export class TileLoader {
  readonly #emitter: Emitter;
  readonly #c: Contraction;
  readonly #operand: TileOperand;
  readonly #bk: number;
  readonly #threads: number;
  readonly #turns: number;
  /** Neighbours that are copied together are neighbours along the sum. */
  readonly #alongK: boolean;
  readonly #isWhole: { readonly p: boolean; readonly k: boolean };
  /** Null where each part of an index is one product. */
  readonly #address: OperandAddress | null;

  constructor(emitter: Emitter, c: Contraction, operand: TileOperand, bk: number, threads: number) {
    const { kernel } = emitter, { load, symbols, next } = operand;
    this.#emitter = emitter;
    this.#c = c;
    this.#operand = operand;
    this.#bk = bk;
    this.#threads = threads;
    this.#turns = operand.extent * bk / threads;
    this.#alongK = liesAlongSum(kernel, load.index, symbols, c.k);
    this.#isWhole = {
      p: extent(kernel, symbols) % operand.extent === 0,
      k: extent(kernel, c.k) % bk === 0,
    };
    const isPlain = load.bounds.length === 0 && isFlat(kernel, load.index, symbols) &&
      isFlat(kernel, load.index, c.k);
    this.#address = isPlain ? null : new OperandAddress(emitter, load, next, symbols, c.k);
  }

  /** True when {@linkcode prepare} writes a table that all work-items read. */
  get hasTable(): boolean {
    return this.#address !== null;
  }

  /** Before all tiles: what follows from rows or columns. */
  declare(type: string): void {
    const emitter = this.#emitter, { next, origin, size } = this.#operand;
    emitter.line(`${type} ${next}[${this.#turns}];`);
    if (this.#address === null) return;
    const places = this.#isSameRow ? 1 : this.#turns;
    this.#address.declare("p", places);
    this.#address.declare("k", this.#bk, "local ");
    if (this.#needsFlag) emitter.line(`int in_${next}[${places}];`);
    emitter.line("#pragma unroll");
    emitter.open(`for (int u = 0; u < ${places}; ++u) {`);
    emitter.line(this.#element());
    emitter.line(`const Index p = ${origin} + at;`);
    const isInside = this.#isWhole.p ? null : `p < ${size}`;
    if (this.#needsFlag) emitter.line(`in_${next}[u] = ${isInside};`);
    this.#address.compute("p", "p", "u", isInside);
    emitter.close();
  }

  /** A row behind the last one fails its mask, or else a flag of its own. */
  get #needsFlag(): boolean {
    return !this.#isWhole.p && this.#operand.load.bounds.length === 0;
  }

  /** All elements that a work-item copies are of one row or column. */
  get #isSameRow(): boolean {
    return !this.#alongK && this.#threads % this.#operand.extent === 0;
  }

  /** Writes the table of the tile whose terms begin at `origin`; a barrier must follow. */
  prepare(origin: string): void {
    if (this.#address === null) return;
    const emitter = this.#emitter;
    emitter.open(`for (int kk = lid; kk < ${this.#bk}; kk += ${this.#threads}) {`);
    this.#address.compute("k", `(${origin} + kk)`, "kk");
    emitter.close();
  }

  /** Element of a tile that a work-item copies in turn `u`. */
  #element(): string {
    const e = `(lid + u * ${this.#threads})`, { extent } = this.#operand;
    const [at, kk] = this.#alongK
      ? [`${e} / ${this.#bk}`, `${e} % ${this.#bk}`]
      : [`${e} % ${extent}`, `${e} / ${extent}`];
    return `const int at = ${at}, kk = ${kk};`;
  }

  /** Reads the tile whose terms begin at `origin` into registers. */
  fetch(origin: string, sizeK: string): void {
    const emitter = this.#emitter, { load, next } = this.#operand;
    emitter.line("#pragma unroll");
    emitter.open(`for (int u = 0; u < ${this.#turns}; ++u) {`);
    emitter.line(this.#element());
    if (this.#address === null) this.#fetchPlain(origin, sizeK);
    else {
      const p = this.#isSameRow ? "0" : "u";
      const conditions = [
        this.#isWhole.k ? `${origin} < ${sizeK}` : `${origin} + kk < ${sizeK}`,
        ...this.#needsFlag ? [`in_${next}[${p}]`] : [],
        ...this.#address.conditions(p, "kk"),
      ];
      const value = loadText(`a${load.input}`, load.dtype, this.#address.index(p, "kk"));
      emitter.line(`${next}[u] = 0;`);
      emitter.line(`if (${conditions.join(" && ")}) ${next}[u] = ${value};`);
    }
    emitter.close();
  }

  #fetchPlain(origin: string, sizeK: string): void {
    const emitter = this.#emitter, { load, symbols, next, size } = this.#operand;
    emitter.line(`const Index p = ${this.#operand.origin} + at, k = ${origin} + kk;`);
    emitter.line(`${next}[u] = 0;`);
    // Where tiles divide the product, only the tile behind the last is not there: one test a tile. Tests of
    // every element take a fifth of the time at 4096.
    const isWhole = this.#isWhole.p && this.#isWhole.k;
    emitter.open(isWhole ? `if (${origin} < ${sizeK}) {` : `if (p < ${size} && k < ${sizeK}) {`);
    const { k } = this.#c;
    const index = symbols.length === 1 && k.length === 1 ? this.#indexOfTwo() : [
      without(emitter, load.index, [...symbols, ...k]),
      `p * ${step(emitter, load.index, last(symbols))}`,
      `k * ${step(emitter, load.index, last(k))}`,
    ].join(" + ");
    emitter.line(`${next}[u] = ${loadText(`a${load.input}`, load.dtype, index)};`);
    emitter.close();
  }

  /** The index of an element of a product of two loops. */
  #indexOfTwo(): string {
    const emitter = this.#emitter, { load, symbols } = this.#operand;
    decomposeInto(emitter, symbols, "p", "i");
    decomposeInto(emitter, this.#c.k, "k", "i");
    return emitter.affine(load.index);
  }

  /** Writes the registers to local memory. */
  put(): void {
    const emitter = this.#emitter, { tile, next } = this.#operand;
    emitter.line("#pragma unroll");
    emitter.open(`for (int u = 0; u < ${this.#turns}; ++u) {`);
    emitter.line(this.#element());
    emitter.line(`${tile}[kk][at] = ${next}[u];`);
    emitter.close();
  }
}
