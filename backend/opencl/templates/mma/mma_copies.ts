/**
 * Copies of matrix units' operands from global to local memory: pieces of 16 bytes, of which a
 * work-item copies the same place of several rows in each stage.
 *
 * Where an operand has several loops (convolutions), work-items keep what follows from their rows or columns
 * for all stages, so that an element of a stage costs additions and comparisons, no divisions.
 */
import type { Emitter } from "../../../codegen/emit.ts";
import { coefficient } from "../../../kernel/affine.ts";
import { extent } from "../../../kernel/kernel.ts";
import { last } from "../parts/contraction_shape.ts";
import { isFlat } from "../../../kernel/row_order.ts";
import { OperandAddress } from "../parts/operand_address.ts";
import { step, without } from "../parts/tile_text.ts";
import {
  CHUNK_BYTES,
  type StagedOperand,
  swizzled,
  turnsOf,
  type WarpTiling,
} from "./warp_tiling.ts";

/** Copies the stages of one operand. */
export class OperandCopier {
  readonly #emitter: Emitter;
  readonly #tiling: WarpTiling;
  readonly #operand: StagedOperand;
  /** Pieces of a row, and of those the ones that a work-item copies. */
  readonly #perRow: number;
  readonly #turns: number;
  /** Elements that are copied at once, and how often for a piece. */
  readonly #vector: number;
  readonly #copies: number;
  readonly #isWhole: { readonly p: boolean; readonly k: boolean };
  /** Null where each part of an index is one product. */
  readonly #address: OperandAddress | null;

  constructor(emitter: Emitter, tiling: WarpTiling, operand: StagedOperand) {
    const { kernel } = emitter, { load, symbols, alongK, rows, columns } = operand;
    const { c, tile, chunk } = tiling;
    this.#emitter = emitter;
    this.#tiling = tiling;
    this.#operand = operand;
    this.#perRow = columns / chunk;
    this.#turns = turnsOf(tiling, operand);
    this.#vector = operand.vector || 1;
    this.#copies = chunk / this.#vector;
    this.#isWhole = {
      p: extent(kernel, symbols) % (alongK ? rows : columns) === 0,
      k: extent(kernel, c.k) % tile.bk === 0,
    };
    const isPlain = load.bounds.length === 0 && isFlat(kernel, load.index, symbols) &&
      isFlat(kernel, load.index, c.k);
    this.#address = isPlain ? null : new OperandAddress(emitter, load, operand.name, symbols, c.k);
  }

  /** Elements go through registers, since they are too small to be copied one by one. */
  get isHeld(): boolean {
    return this.#operand.vector === 0;
  }

  /** Before all stages: what is held in registers, and what follows from rows or columns. */
  declare(): void {
    const emitter = this.#emitter, { name, alongK, origin, size } = this.#operand;
    if (this.isHeld) emitter.line(`uint4 held_${name}[${this.#turns}];`);
    if (this.#address === null) return;
    const places = alongK ? this.#turns : this.#turns * this.#copies;
    this.#address.declare("p", places);
    if (this.#needsFlag) emitter.line(`int in_${name}[${places}];`);
    emitter.line("#pragma unroll");
    emitter.open(`for (int u = 0; u < ${this.#turns}; ++u) {`);
    emitter.line(this.#place());
    if (!alongK) {
      emitter.line("#pragma unroll");
      emitter.open(`for (int e = 0; e < ${this.#copies}; ++e) {`);
    }
    const at = alongK ? "u" : this.#at("u", "e");
    emitter.line(`const int p = ${origin} + ${alongK ? "r" : this.#along("e")};`);
    const isInside = this.#isWhole.p ? null : `p < ${size}`;
    if (this.#needsFlag) emitter.line(`in_${name}[${at}] = ${isInside};`);
    this.#address.compute("p", "p", at, isInside);
    if (!alongK) emitter.close();
    emitter.close();
  }

  /** A row behind the last one fails its mask, or else a flag of its own. */
  get #needsFlag(): boolean {
    return !this.#isWhole.p && this.#operand.load.bounds.length === 0;
  }

  /** Piece that a work-item copies in turn `u`: its row and its place there. */
  #place(): string {
    return `const int piece = lid + u * ${this.#tiling.threads}, r = piece / ${this.#perRow}, ` +
      `ch = piece % ${this.#perRow};`;
  }

  /** The place in its row of what is copied as number `e` of a piece. */
  #along(e: string): string {
    const first = `ch * ${this.#tiling.chunk}`;
    if (this.#copies === 1) return first;
    return `${first} + ${e}${this.#vector === 1 ? "" : ` * ${this.#vector}`}`;
  }

  #at(u: string, e: string): string {
    return this.#copies === 1 ? u : `${u} * ${this.#copies} + ${e}`;
  }

  /** Starts copying the stage of turn `ahead` to `into`, or holds it in registers. */
  copy(sizeK: string): void {
    const emitter = this.#emitter;
    this.#openPieces();
    if (this.isHeld) emitter.line("ushort elements[8] = { 0, 0, 0, 0, 0, 0, 0, 0 };");
    if (this.#address === null) this.#copyPlain(sizeK);
    else this.#copyByParts(this.#address, sizeK);
    if (this.isHeld) {
      const pair = (e: number): string => `(uint)elements[${e}] | (uint)elements[${e + 1}] << 16`;
      const words = [0, 2, 4, 6].map(pair).join(", ");
      emitter.line(`held_${this.#operand.name}[u] = (uint4)(${words});`);
    }
    emitter.close();
  }

  /** Opens the loop over the pieces that a work-item copies: `r`, `ch`, its place in local memory. */
  #openPieces(): void {
    const emitter = this.#emitter, tiling = this.#tiling, operand = this.#operand;
    const pieces = operand.rows * this.#perRow;
    emitter.line("#pragma unroll");
    emitter.open(`for (int u = 0; u < ${this.#turns}; ++u) {`);
    emitter.line(this.#place());
    if (pieces % tiling.threads !== 0) emitter.line(`if (piece >= ${pieces}) break;`);
    const offset = operand.name === "a" ? 0 : tiling.tile.bm * tiling.tile.bk * tiling.bytes;
    emitter.line(
      `const uint at = into + ${offset}u + (uint)(r * ${operand.columns * tiling.bytes} + ` +
        `(${swizzled(tiling, operand, "r", "ch")}) * ${CHUNK_BYTES});`,
    );
  }

  /** An operand whose index is `base + p * step + k * step`. */
  #copyPlain(sizeK: string): void {
    const emitter = this.#emitter, { load, symbols, origin, size, alongK } = this.#operand;
    const { c, tile } = this.#tiling;
    const startK = `ahead * ${tile.bk}`;
    this.#openCopies();
    emitter.line(`const int p = ${origin} + ${alongK ? "r" : this.#along("e")};`);
    emitter.line(`const int k = ${startK} + ${alongK ? this.#along("e") : "r"};`);
    const product = (name: string, s: readonly number[]): string =>
      coefficient(load.index, last(s)) === 1
        ? name
        : `${name} * ${step(emitter, load.index, last(s))}`;
    const base = without(emitter, load.index, [...c.k, ...symbols]);
    this.#copyElements(
      [`p < ${size}`, `k < ${sizeK}`],
      `${base} + ${product("p", symbols)} + ${product("k", c.k)}`,
      alongK ? `${sizeK} - k` : `${size} - p`,
    );
    this.#closeCopies();
  }

  #copyByParts(address: OperandAddress, sizeK: string): void {
    const emitter = this.#emitter, { name, origin, size, alongK } = this.#operand;
    const startK = `ahead * ${this.#tiling.tile.bk}`;
    address.declare("k", 1);
    if (!alongK) {
      emitter.line(`const int k = ${startK} + r;`);
      address.compute("k", "k", "0");
    }
    this.#openCopies();
    if (alongK) {
      emitter.line(`const int k = ${startK} + ${this.#along("e")};`);
      address.compute("k", "k", "0");
    } else if (this.#vector > 1) emitter.line(`const int p = ${origin} + ${this.#along("e")};`);
    const at = alongK ? "u" : this.#at("u", "e");
    this.#copyElements(
      [
        ...this.#needsFlag ? [`in_${name}[${at}]`] : [],
        ...this.#isWhole.k ? [] : [`k < ${sizeK}`],
        ...address.conditions(at, "0"),
      ],
      address.index(at, "0"),
      alongK ? `${sizeK} - k` : `${size} - p`,
    );
    this.#closeCopies();
  }

  #openCopies(): void {
    if (this.#copies === 1) return;
    this.#emitter.line("#pragma unroll");
    this.#emitter.open(`for (int e = 0; e < ${this.#copies}; ++e) {`);
  }

  #closeCopies(): void {
    if (this.#copies > 1) this.#emitter.close();
  }

  /** Copies the neighbours at `index`, where they exist; `left` of them are before the end of their row. */
  #copyElements(conditions: readonly string[], index: string, left: string): void {
    const emitter = this.#emitter, { input } = this.#operand.load, { bytes } = this.#tiling;
    const condition = conditions.join(" && ") || "1";
    if (this.isHeld) {
      // The bits of a half type.
      emitter.line(
        `if (${condition}) elements[e] = ((global const ushort*)a${input})[${index}];`,
      );
      return;
    }
    const all = this.#vector * bytes;
    emitter.line("int count = 0;");
    emitter.line(`global const void* from = a${input};`);
    emitter.open(`if (${condition}) {`);
    emitter.line(
      `count = ${this.#vector === 1 ? all : `min((Index)${all}, (${left}) * ${bytes})`};`,
    );
    emitter.line(`from = a${input} + (${index});`);
    emitter.close();
    if (this.#copies === 1) emitter.line("MMA_COPY16(at, from, count);");
    else emitter.line(`MMA_COPY4(at + (uint)e * ${all}u, from, count);`);
  }

  /** Writes what was held in registers to its stage. */
  put(): void {
    this.#openPieces();
    this.#emitter.line(`MMA_PUT(at, held_${this.#operand.name}[u]);`);
    this.#emitter.close();
  }
}
