/**
 * An operand of matrix units in stages of local memory: pieces of 16 bytes, of which a work-item copies the same
 * place of several rows in each stage.
 *
 * Pieces are copied by 16 or 4 bytes where they lie so, and through registers where they do not (masked or strided
 * elements of half types). What lies outside an operand is filled with zeros. Pieces are swizzled, so that
 * neither those that copy nor those that read meet bank conflicts.
 */
import { coefficient } from "../../kernel/affine.ts";
import type { Load, LoopKernel } from "../../kernel/kernel.ts";
import { isFlat, liesAlongSum } from "../../kernel/row_order.ts";
import { add, div, type E, int, min, mod, mul, type Place, sub } from "../language/expression.ts";
import type { Fragment, Matrices } from "../language/statements.ts";
import { choose, exclusiveOr, load as loadOf, lt, pair } from "../language/values.ts";
import { COLUMNS, type MatrixUnit, type OperandLayout, ROWS, WARP } from "../matrix_units.ts";
import type { Program } from "../program.ts";
import type { OperandParts, TermPart } from "./operand_parts.ts";

/** Bytes of a piece. */
const PIECE_BYTES = 16;

/** A piece that a work-item copies in each stage. */
interface Piece {
  /** Its row in local memory, and its number there. */
  readonly row: E;
  readonly chunk: E;
  /** Its byte in a stage. */
  readonly place: E;
  /** The four words that go through registers. */
  readonly held: readonly E[];
}

/** Stages of one operand. */
export class StagedOperand {
  readonly #parts: OperandParts;
  readonly #p: Program;
  readonly #unit: MatrixUnit;
  /** Bytes of an element. */
  readonly #bytes: number;
  readonly #ring: Place;
  readonly #offset: number;
  /** Tiles lie along the sum: a row of local memory has the terms of one row or column. */
  readonly #alongSum: boolean;
  /** Elements of a row of local memory, and of a piece. */
  readonly #rowElements: number;
  readonly #pieceElements: number;
  /** Elements that are copied at once; 0: one by one, through registers. */
  readonly #vector: number;
  readonly #pieces: readonly Piece[];

  /** @param offset Where the operand begins in a stage, in bytes. */
  constructor(parts: OperandParts, unit: MatrixUnit, ring: Place, offset: number) {
    const { values: { p, kernel }, c, tile, terms } = parts;
    this.#parts = parts;
    this.#p = p;
    this.#unit = unit;
    this.#bytes = unit.bytes;
    this.#ring = ring;
    this.#offset = offset;
    this.#alongSum = isAlongSum(parts);
    this.#pieceElements = PIECE_BYTES / unit.bytes;
    this.#rowElements = this.#alongSum ? terms.count : tile.extent;
    const symbols = this.#alongSum ? c.k : tile.symbols;
    this.#vector = vectorOf(kernel, tile.load, symbols, unit.bytes);
    this.#pieces = this.#piecesOf(tile.extent * terms.count / this.#pieceElements);
    for (const piece of this.#pieces) {
      for (let e = 0; e < this.#copies; e++) parts.row(this.#element(piece, e).at);
    }
  }

  /** Elements go through registers, since they are too small to be copied one by one. */
  get isHeld(): boolean {
    return this.#vector === 0;
  }

  /** Number of copies that make a piece. */
  get #copies(): number {
    return this.#pieceElements / (this.#vector || 1);
  }

  #piecesOf(count: number): Piece[] {
    const p = this.#p, perRow = this.#rowElements / this.#pieceElements;
    return Array.from({ length: Math.ceil(count / p.items) }, (_, turn) => {
      const piece = add(p.item, turn * p.items);
      const row = div(piece, perRow), chunk = mod(piece, perRow);
      const held = this.isHeld ? [0, 1, 2, 3].map(() => p.unset("word")) : [];
      return { row, chunk, place: this.#place(row, chunk), held };
    });
  }

  /** The byte of a piece in a stage: no two rows that are read together meet in a bank. */
  #place(row: E, chunk: E): E {
    const perRow = this.#rowElements / this.#pieceElements;
    const turned = this.#bytes === 4 && !this.#alongSum
      // Floats that lie along m or n are read four bytes at a time, four rows together.
      ? mul(mod(row, 4), 2)
      : perRow >= 8
      ? mod(row, 8)
      : mod(div(row, 8 / perRow), perRow === 4 ? 4 : 2);
    const line = mul(row, this.#rowElements * this.#bytes);
    return add(line, mul(exclusiveOr(chunk, turned), PIECE_BYTES), this.#offset);
  }

  /** The row or column of the tile, and the term, at which copy `e` of a piece begins. */
  #element({ row, chunk }: Piece, e: number): { at: E; term: E } {
    const along = add(mul(chunk, this.#pieceElements), e * (this.#vector || 1));
    return this.#alongSum ? { at: row, term: along } : { at: along, term: row };
  }

  /** Starts copying the stage whose first term is `first` to a byte of the ring, or holds it in registers. */
  copy(first: E, into: E): void {
    for (const piece of this.#pieces) {
      this.#whenThere(
        piece,
        () => this.isHeld ? this.#hold(piece, first) : this.#copy(piece, first, into),
      );
    }
  }

  /** The last work-items have no piece where there are fewer. */
  #whenThere({ row }: Piece, body: () => void): void {
    const { tile, terms } = this.#parts;
    const rows = this.#alongSum ? tile.extent : terms.count;
    this.#p.when(lt(row, rows), body);
  }

  #copy(piece: Piece, first: E, into: E): void {
    const p = this.#p, { values, tile: { load, origin, end }, terms } = this.#parts;
    const all = (this.#vector || 1) * this.#bytes;
    // Neighbours along the sum have a part each; those of a row share that of its term.
    let shared: TermPart | null = null;
    for (let e = 0; e < this.#copies; e++) {
      const { at, term } = this.#element(piece, e), from = add(first, term);
      const part = this.#alongSum ? this.#parts.term(from) : shared ??= this.#parts.term(from);
      const isThere = p.let(this.#parts.isThere(at, from, part));
      // A row may end within a copy.
      const left = this.#alongSum ? sub(terms.end, from) : sub(end, add(origin, at));
      const isWhole = this.#alongSum ? this.#parts.isWhole.terms : this.#parts.isWhole.rows;
      const count = this.#vector === 1 || isWhole ? int(all) : min(mul(left, this.#bytes), all);
      p.emit({
        s: "copy",
        place: this.#ring,
        index: add(into, piece.place, e * all),
        from: values.input(load.input),
        at: choose(isThere, this.#parts.index(at, part), 0),
        bytes: all,
        count: choose(isThere, count, 0),
      });
    }
  }

  /** Reads the eight halves of a piece, as bits. */
  #hold(piece: Piece, first: E): void {
    const p = this.#p, { values, tile: { load } } = this.#parts;
    const place: Place = { ...values.input(load.input), element: "uint16" };
    let shared: TermPart | null = null;
    const halves = Array.from({ length: this.#copies }, (_, e) => {
      const { at, term } = this.#element(piece, e), from = add(first, term);
      const part = this.#alongSum ? this.#parts.term(from) : shared ??= this.#parts.term(from);
      const half = p.register(int(0)), index = this.#parts.index(at, part);
      p.when(this.#parts.isThere(at, from, part), () => p.set(half, loadOf(place, index)));
      return half;
    });
    piece.held.forEach((word, k) => p.set(word, pair(halves[2 * k]!, halves[2 * k + 1]!)));
  }

  /** Writes what was held in registers to its stage. */
  put(into: E): void {
    for (const piece of this.#pieces) {
      this.#whenThere(piece, () =>
        this.#p.emit({
          s: "put",
          place: this.#ring,
          index: add(into, piece.place),
          words: piece.held,
        }));
    }
  }

  /** Reads matrices of the left operand from a stage, of the terms of part `part`. */
  loadRows(to: Place, count: number, part: E, warpRow: E, from: E): void {
    const { left, rows } = this.#unit, lane = mod(this.#p.item, WARP);
    if (this.#readsAlone) {
      return this.#loadAlone(to, count, left, { part, warp: warpRow, rows, from });
    }
    this.#p.loop(int(count), (i) => {
      const row = add(warpRow, mul(i, ROWS));
      if (this.#alongSum) {
        const place = this.#place(add(row, mod(lane, 16)), add(mul(part, 2), div(lane, 16)));
        this.#read(fragments(to, mul(i, 4), 4), add(from, place), "rows");
      } else {
        const term = add(mul(part, 16), mod(lane, 8), mul(div(lane, 16), 8));
        const chunk = add(div(row, 8), mod(div(lane, 8), 2));
        this.#read(fragments(to, mul(i, 4), 4), add(from, this.#place(term, chunk)), "columns");
      }
    }, Infinity);
  }

  /** The same of the right operand; matrices of eight columns are read two at a time. */
  loadColumns(to: Place, count: number, part: E, warpColumn: E, from: E): void {
    const { right, columns } = this.#unit, lane = mod(this.#p.item, WARP);
    if (this.#readsAlone) {
      return this.#loadAlone(to, count, right, { part, warp: warpColumn, rows: columns, from });
    }
    this.#p.loop(int(count / 2), (j) => {
      const column = add(warpColumn, mul(j, 2 * COLUMNS));
      if (this.#alongSum) {
        const own = add(column, mod(lane, 8), mul(div(lane, 16), 8));
        const place = this.#place(own, add(mul(part, 2), mod(div(lane, 8), 2)));
        this.#read(fragments(to, mul(j, 4), 4), add(from, place), "rows");
      } else {
        const term = add(mul(part, 16), mod(lane, 16));
        const place = this.#place(term, add(div(column, 8), div(lane, 16)));
        this.#read(fragments(to, mul(j, 4), 4), add(from, place), "columns");
      }
    }, Infinity);
  }

  /** True where a work-item reads its own words: `ldmatrix` would exchange halves of floats. */
  get #readsAlone(): boolean {
    return !this.#unit.readsTogether || this.#bytes === 4 && !this.#alongSum;
  }

  /** Reads the words that a work-item has of matrices, `rows` rows or columns each, from that of the warp on. */
  #loadAlone(
    to: Place,
    count: number,
    { words, elements, together, at }: OperandLayout,
    { part, warp, rows, from }: Record<"part" | "warp" | "from", E> & { rows: number },
  ): void {
    const lane = mod(this.#p.item, this.#unit.lanes), isWhole = elements * this.#bytes === 4;
    // Neighbouring terms lie side by side in rows along the sum alone.
    const step = this.#alongSum && isWhole ? together : 1;
    this.#p.loop(int(count), (i) => {
      for (let word = 0; word < words; word += step) {
        const [row, term] = at(lane, word),
          registers = fragments(to, add(mul(i, words), word), step);
        const byteOf = (k: number): E =>
          add(
            from,
            this.#byte(add(warp, mul(i, rows), row), add(mul(part, this.#unit.terms), term, k)),
          );
        if (this.#bytes === 4 || this.#alongSum && isWhole) {
          this.#read(registers, byteOf(0), "alone");
        } else {
          const place: Place = { ...this.#ring, element: "uint16" };
          const [low, high] = [0, 1].map((k) => loadOf(place, div(byteOf(k), 2))) as [E, E];
          this.#p.store(to, registers[0]!.index, elements === 1 ? low : pair(low, high));
        }
      }
    }, Infinity);
  }

  /** The byte in a stage of the element of a row or column of the tile, and a term. */
  #byte(at: E, term: E): E {
    const [row, along] = this.#alongSum ? [at, term] : [term, at], piece = this.#pieceElements;
    return add(this.#place(row, div(along, piece)), mul(mod(along, piece), this.#bytes));
  }

  #read(to: readonly Fragment[], index: E, how: Matrices["how"]): void {
    this.#p.emit({ s: "matrices", to, place: this.#ring, index, how });
  }
}

/** Registers of a work-item, `count` from one on. */
const fragments = (place: Place, first: E, count: number): Fragment[] =>
  Array.from({ length: count }, (_, k) => ({ place, index: add(first, k) }));

/**
 * Tiles lie along the axis whose neighbours are contiguous in memory; along the sum where none is. Where both
 * are nearly so, as in the image of a convolution, along the longer one.
 */
function isAlongSum({ values: { kernel }, c, tile }: OperandParts): boolean {
  const { load: { index, bounds }, symbols } = tile;
  const along = coefficient(index, c.k.at(-1)!) === 1;
  const across = coefficient(index, symbols.at(-1)!) === 1;
  // What is masked is copied one by one: neighbours in steps of a few elements are near enough.
  if (bounds.length > 0 || along && across) return liesAlongSum(kernel, index, symbols, c.k);
  return along || !across;
}

/**
 * Neighbours along `symbols` that may be copied at once: as many as 16 or 4 bytes hold where all of them begin at
 * multiples of that and none crosses the end of the innermost loop.
 */
function vectorOf(
  kernel: LoopKernel,
  { index, bounds }: Load,
  symbols: readonly number[],
  bytes: number,
): number {
  const inner = symbols.at(-1)!;
  const isPlain = bounds.length === 0 && coefficient(index, inner) === 1;
  const isWhole = isFlat(kernel, index, symbols);
  const divides = (by: number): boolean =>
    index.offset % by === 0 &&
    (isWhole || kernel.sizes[inner]! % by === 0) &&
    index.terms.every(([s, step]) =>
      (isWhole ? symbols.includes(s) : s === inner) || step % by === 0
    );
  const whole = PIECE_BYTES / bytes, word = 4 / bytes;
  if (isPlain && divides(whole)) return whole;
  // A float fills four bytes by itself: bounds only say how many of them are read.
  if (word === 1) return 1;
  return isPlain && divides(word) ? word : 0;
}
