/** The WebAssembly that adds up the products of a tile: its sums are in registers from first to last. */
import type { FunctionBuilder, Local } from "../assembler.ts";
import type { VectorMath } from "../math.ts";
import { f32x4, i32, v128 } from "../opcodes.ts";
import { PANEL_SUMS, type RowPanel } from "./row_panel.ts";

/** Summed indices after which the unrolled code of a tile may end. */
export const PIECE_SUMS = 16;
/** The shift that divides by it. */
const PIECE_SHIFT = 4;

/** The columns of the right operand at one summed index after another, in vectors. */
export interface Columns {
  next(): Local[];
}

/** The sums of a tile: those of each row, in vectors. */
export type TileSums = Local[][];

/** Size of a tile: rows, and vectors of columns. */
export interface TileSize {
  readonly rows: number;
  readonly vectors: number;
}

/** Adds up products of the rows in a panel. */
export class TileProducts {
  readonly #f: FunctionBuilder;
  readonly #math: VectorMath;
  readonly #panel: RowPanel;
  readonly #size: TileSize;

  constructor(f: FunctionBuilder, math: VectorMath, panel: RowPanel, size: TileSize) {
    this.#f = f;
    this.#math = math;
    this.#panel = panel;
    this.#size = size;
  }

  /** Vectors side by side from an address on, which goes on by `step` bytes with each summed index. */
  columns(address: Local, step: Local): Columns {
    const f = this.#f, at = f.number();
    f.assign(at, address);
    return {
      next: () => {
        const columns = this.load(at);
        f.assign(at, f.i(i32.add, at, step));
        return columns;
      },
    };
  }

  /** The vectors of columns at an address. */
  load(address: Local): Local[] {
    return Array.from(
      { length: this.#size.vectors },
      (_, h) => this.#f.load(v128.load, address, 16 * h),
    );
  }

  /**
   * The sums over the first `length` indices of the panel. `isUnrolled`: there are `most` at most, and the tile is
   * used often enough to be worth its code.
   */
  sums(b: Columns, length: Local, isUnrolled: boolean, most: number = PANEL_SUMS): TileSums {
    const { rows, vectors } = this.#size;
    const sums = Array.from(
      { length: rows },
      () => Array.from({ length: vectors }, () => this.#zeros()),
    );
    const done = isUnrolled ? this.#unrolled(b, length, sums, most) : this.#f.integer(0);
    this.#remaining(b, done, length, sums);
    return sums;
  }

  /**
   * Stores sums, row by row.
   *
   * @param isAdded A number: where it is not 0 they are added to what is there.
   */
  keep(place: Local, pitch: Local, sums: TileSums, isAdded: Local): void {
    const f = this.#f, at = f.number();
    const store = (adds: boolean): void => {
      f.assign(at, place);
      for (const row of sums) {
        row.forEach((value, h) => {
          const joined = adds ? f.v(f32x4.add, f.load(v128.load, at, 16 * h), value) : value;
          f.store(v128.store, at, joined, 16 * h);
        });
        f.assign(at, f.i(i32.add, at, pitch));
      }
    };
    f.branch(isAdded, () => store(true), () => store(false));
  }

  #zeros(): Local {
    const local = this.#f.vector();
    this.#f.assign(local, this.#f.splat(0));
    return local;
  }

  /** Adds the products of a summed index; `element` gives those of the panel. */
  #step(b: Columns, sums: TileSums, element: (row: number) => Local): void {
    const f = this.#f;
    const columns = b.next();
    sums.forEach((row, r) => {
      const x = element(r);
      columns.forEach((y, h) => f.assign(row[h]!, this.#math.madd(x, y, row[h]!)));
    });
  }

  /** Adds up as many pieces of the summed indices as there are; gives back how many indices that was. */
  #unrolled(b: Columns, length: Local, sums: TileSums, most: number): Local {
    const f = this.#f, left = f.number();
    const pieces = f.iWith(i32.shrU, length, PIECE_SHIFT);
    f.assign(left, pieces);
    f.leavable((leaveIfZero) => {
      for (let sum = 0; sum < most; sum++) {
        if (sum % PIECE_SUMS === 0) {
          leaveIfZero(left);
          f.step(left, -1);
        }
        this.#step(b, sums, (row) => this.#panel.element(sum, row));
      }
    });
    return f.iWith(i32.shl, pieces, PIECE_SHIFT);
  }

  /** Adds up the summed indices from `done` on. */
  #remaining(b: Columns, done: Local, length: Local, sums: TileSums): void {
    const f = this.#f, at = f.number();
    f.assign(at, this.#panel.pointer(done));
    f.whileLess(at, this.#panel.pointer(length), () => {
      this.#step(b, sums, (row) => this.#panel.elementAt(at, row));
      this.#panel.advance(at);
    }, i32.ltU);
  }
}
