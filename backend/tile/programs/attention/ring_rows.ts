/** Rows of matrices, and numbers of columns, on their way through the ring of local memory. */
import { held } from "../../language/elements.ts";
import { add, div, type E, int, mod, mul, type Place } from "../../language/expression.ts";
import { choose, exclusiveOr, lt } from "../../language/values.ts";
import type { Program } from "../../program.ts";
import type { Operand } from "./head_values.ts";

export const RING: Place = { space: "ring", buffer: "sm", element: "uint8" };

/** Elements of a piece of 16 bytes, and bytes of a number of a column. */
const PIECE = 8, NUMBER_BYTES = 4;

/** Tiles of rows of a half type, which take turns from byte `at` on. */
export class RingRows {
  readonly #p: Program;
  readonly operand: Operand;
  readonly #rows: number;
  readonly at: number;

  constructor(p: Program, operand: Operand, rows: number, at: number) {
    this.#p = p;
    this.operand = operand;
    this.#rows = rows;
    this.at = at;
  }

  /** Bytes of a tile. */
  get bytes(): number {
    return this.#rows * this.operand.features * 2;
  }

  /** The byte of a piece of a row: the rows of an instruction lie in different banks. */
  place(base: E, row: E, piece: E): E {
    const { features } = this.operand, pieces = features / PIECE;
    const turned = pieces % 8 === 0
      ? mod(row, 8)
      : pieces % 4 === 0
      ? mod(div(row, 2), 4)
      : mod(div(row, 4), 2);
    return add(base, mul(row, features * 2), mul(exclusiveOr(piece, turned), 16));
  }

  /** Starts copying the rows from `first` on; rows behind the last are zeros. */
  copy(base: E, first: E): void {
    const operand = this.operand, pieces = operand.features / PIECE, p = this.#p;
    const all = this.#rows * pieces;
    p.loop(int(Math.ceil(all / p.items)), (turn) => {
      const own = add(mul(turn, p.items), p.item), row = div(own, pieces), piece = mod(own, pieces);
      p.when(lt(own, all), () => {
        const at = p.let(add(first, row)), isThere = lt(at, operand.length);
        p.emit({
          s: "copy",
          place: RING,
          index: this.place(base, row, piece),
          from: operand.place,
          at: choose(isThere, operand.index(at, mul(piece, PIECE)), 0),
          bytes: 16,
          count: choose(isThere, 16, 0),
        });
      });
    }, Infinity);
  }
}

/** Numbers of the columns of a block, of several matrices, in two places that take turns. */
export class RingNumbers {
  readonly #p: Program;
  readonly #numbers: readonly Operand[];
  readonly #columns: number;
  readonly #at: number;

  constructor(p: Program, numbers: readonly Operand[], columns: number, at: number) {
    this.#p = p;
    this.#numbers = numbers;
    this.#columns = columns;
    this.#at = at;
  }

  /** Bytes of a place. */
  get bytes(): number {
    return this.#numbers.length * this.#columns * NUMBER_BYTES;
  }

  #index(which: number, turn: E, column: E): E {
    return add(
      this.#at / NUMBER_BYTES + which * this.#columns,
      mul(turn, this.bytes / NUMBER_BYTES),
      column,
    );
  }

  /** Starts copying those of the columns from `first` on; behind the last they are 0. */
  copy(turn: E, first: E): void {
    const p = this.#p;
    if (this.#numbers.length === 0) return;
    p.when(lt(p.item, this.#columns), () => {
      const column = p.let(add(first, p.item));
      this.#numbers.forEach((operand, k) => {
        const isThere = lt(column, operand.length);
        p.emit({
          s: "copy",
          place: RING,
          index: mul(this.#index(k, turn, p.item), NUMBER_BYTES),
          from: operand.place,
          at: choose(isThere, operand.index(column, int(0)), 0),
          bytes: NUMBER_BYTES,
          count: choose(isThere, NUMBER_BYTES, 0),
        });
      });
    });
  }

  number(which: number, turn: E, column: E): E {
    return held({ ...RING, element: "float32" }, this.#index(which, turn, column), "float");
  }
}
