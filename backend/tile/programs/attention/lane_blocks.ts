/**
 * Blocks of attention on CPU devices: a work-item takes as many rows of a head as it has vector lanes for. Every
 * product is `C[rows][lanes] += A[rows][k] * B[k][lanes]`: elements of A are read one by one where they lie, B is in
 * local memory with its lanes side by side. So a block of scores has a row of the walk a row and a row of the group
 * a lane, the softmax needs no sums across lanes, and what is walked is never transposed.
 *
 * It is long because blocks are packed, multiplied, added up and stored in one layout.
 */
import { held } from "../../language/elements.ts";
import {
  add,
  div,
  type E,
  int,
  lanes,
  min,
  mul,
  type Place,
  sub,
} from "../../language/expression.ts";
import { all, float, fmul, load, lt, not, splat, truth } from "../../language/values.ts";
import type { Program } from "../../program.ts";
import {
  type Blocks,
  change,
  type Grid,
  type RowSums,
  type StoredRows,
  type Turn,
  type Walk,
} from "./blocks.ts";
import type { Operand } from "./head_values.ts";
import { type LeftOperand, PANEL } from "../panels/panel_product.ts";
import { blockProduct, LANES, type LaneTile } from "./lane_products.ts";

/** Columns of a block. */
export const BLOCK = 64;

/** A left operand whose rows are terms. */
const transposed = ({ row, term, ...rest }: LeftOperand): LeftOperand => ({
  ...rest,
  row: term,
  term: row,
});

/** Rows of a work-item, in vectors of lanes, and the tiles in which it multiplies them. */
export interface LaneForm {
  readonly own: number;
  readonly tile: LaneTile;
  /** The device has a statement for products of blocks. */
  readonly byBlocks?: boolean;
}

/** The form for so many rows. */
export function laneForm(length: number): LaneForm {
  const own = length <= LANES ? 1 : length <= 2 * LANES ? 2 : 4;
  return { own, tile: { vectors: own, step: own === 4 ? 4 : 8 } };
}

/** The blocks of a work-item. */
export class LaneBlocks implements Blocks {
  readonly p: Program;
  readonly rows: number;
  readonly columns = BLOCK;
  readonly own: number;
  readonly lanes = LANES;
  readonly isFast = false;
  readonly isExact = true;
  readonly isScaled = true;
  readonly isApart = false;
  /** Sums that are multiplied by their factors: once, also where several outputs take them. */
  readonly #scaled = new Set<Grid>();
  readonly unroll = 1;
  readonly #tile: LaneTile;
  /** Room for rows that a statement multiplies by; null: products are written in tiles. */
  readonly #panel: Place | null;
  #kept: readonly Place[] = [];
  /** Columns of the block of a turn. */
  #count: E = int(BLOCK);

  constructor(p: Program, { own, tile, byBlocks = false }: LaneForm) {
    this.p = p;
    this.#tile = tile;
    this.rows = own * LANES;
    this.own = own;
    this.#panel = byBlocks ? p.array("private", PANEL, "float") : null;
  }

  row(row: number): E {
    return add(lanes(LANES), row * LANES);
  }

  get firstRow(): E {
    return int(0);
  }

  get lastRow(): E {
    return int(this.rows - 1);
  }

  #grid(place: Place, runs: E): Grid {
    return {
      place,
      rows: this.own,
      runs,
      run: 1,
      width: LANES,
      at: (row, run) => add(mul(run, this.rows), row * LANES),
      column: (run) => run,
    };
  }

  /** Runs a body for each vector of so many rows. */
  #eachVector(rows: number, body: (at: E) => void): void {
    this.p.loop(int(rows * this.own), (k) => body(mul(k, LANES)), 1);
  }

  sums(columns: number): Grid {
    const rows = Math.ceil(columns / this.#tile.step) * this.#tile.step;
    const place = this.p.array("local", rows * this.rows, "float");
    this.#eachVector(rows, (at) => this.p.store(place, at, splat(float(0), LANES)));
    return this.#grid(place, int(columns));
  }

  join(): void {
    // A lane has its row by itself.
  }

  keep(kept: readonly Operand[], row0: E, scale: E): void {
    this.#kept = kept.map((operand, n) => {
      const place = this.p.array("local", operand.features * this.rows, "float");
      this.#pack(place, operand, row0);
      if (n === 0) {
        this.#eachVector(
          operand.features,
          (at) => this.p.store(place, at, fmul(load(place, add(at, lanes(LANES))), scale)),
        );
      }
      return place;
    });
  }

  /** Runs `whole` for each 16 rows that are there and lie as floats, in squares, and `each` for others. */
  #inSquares(
    isFloat: boolean,
    columns: number,
    isThere: (row: E) => E,
    whole: (row: E, column: E) => void,
    each: (row: E) => void,
  ): void {
    const { p } = this, bySquares = isFloat && columns % LANES === 0;
    p.loop(int(this.own), (v) => {
      const first = p.let(mul(v, LANES)), isWhole = isThere(add(first, LANES - 1));
      if (bySquares) {
        p.when(
          isWhole,
          () => p.loop(int(columns / LANES), (square) => whole(first, mul(square, LANES)), 1),
        );
      }
      p.when(
        bySquares ? not(isWhole) : truth(true),
        () => p.loop(int(LANES), (lane) => each(p.let(add(first, lane))), 1),
      );
    }, 1);
  }

  /** Writes rows to local memory, with their elements on the lanes; rows behind the last are zeros. */
  #pack(into: Place, operand: Operand, row0: E): void {
    const { p } = this, { features, at, place } = operand;
    const isThere = (row: E): E => lt(add(row0, row), operand.length);
    this.#inSquares(
      at.dtype === "float32" && at.column === 1,
      features,
      isThere,
      (row, column) => {
        const own = add(row0, row), from = operand.index(own, column);
        const step = sub(operand.index(add(own, 1), column), from);
        const index = add(mul(column, this.rows), row);
        p.emit({
          s: "transpose",
          from: place,
          at: from,
          step,
          to: into,
          index,
          pitch: int(this.rows),
        });
      },
      (row) =>
        this.#rowOrZeros(
          isThere(row),
          features,
          (e) => operand.element(add(row0, row), e),
          (e, value) => p.store(into, add(mul(e, this.rows), row), value),
        ),
    );
  }

  /** Stores the elements of a row, or zeros where there is none: loops without conditions become vectors. */
  #rowOrZeros(
    isThere: E,
    count: number,
    read: (e: E) => E,
    store: (e: E, value: E) => void,
  ): void {
    const { p } = this, isRow = p.let(isThere);
    p.when(isRow, () => p.loop(int(count), (e) => store(e, read(e)), 1));
    p.when(not(isRow), () => p.loop(int(count), (e) => store(e, float(0)), 1));
  }

  numbers(operand: Operand, row0: E, otherwise: E): readonly E[] {
    const { p } = this, place = p.array("local", this.rows, "float");
    p.loop(int(this.rows), (row) => {
      const value = p.register(otherwise), own = p.let(add(row0, row));
      p.when(lt(own, operand.length), () => p.set(value, operand.element(own, int(0))));
      p.store(place, row, value);
    }, 1);
    return Array.from({ length: this.own }, (_, v) => p.let(load(place, this.row(v))));
  }

  walk({ walked, numbers, from, to }: Walk, body: (turn: Turn) => void): void {
    const { p } = this, buffers = walked.map((operand) => this.#buffer(operand));
    const blocks: Place[] = [];
    const size = Math.ceil(BLOCK / this.#tile.step) * this.#tile.step * this.rows;
    const block = (n: number): Place => blocks[n] ??= p.array("local", size, "float");
    const columns = { pitch: this.rows, columns: this.rows };
    block(0);
    if (this.#kept.length > 1) block(1);
    const count = p.let(div(add(sub(to, from), BLOCK - 1), BLOCK));
    p.loop(count, (at) => {
      const first = p.let(add(from, mul(at, BLOCK)));
      this.#count = p.let(min(sub(to, first), BLOCK));
      const rows = walked.map((operand, n) => this.#rowsOf(operand, buffers[n]!, first));
      body({
        first,
        number: (which, run) => p.let(numbers[which]!.element(add(first, run), int(0))),
        scores: (all) =>
          all.map(({ kept, walked: n }, k) => {
            blockProduct(p, this.#panel, this.#tile, {
              ...columns,
              into: block(k),
              rows: this.#count,
              count: int(walked[n]!.features),
              left: rows[n]!,
              right: this.#kept[kept]!,
              isAdded: false,
            });
            return this.#grid(block(k), this.#count);
          }),
        add: (all) =>
          all.forEach(({ sums, weights, walked: n }) =>
            blockProduct(p, this.#panel, this.#tile, {
              ...columns,
              into: sums.place,
              rows: sums.runs,
              count: this.#count,
              left: transposed(rows[n]!),
              right: weights.place,
              isAdded: true,
            })
          ),
      });
    }, 1);
  }

  /** Local memory for the rows of a block of what does not lie as floats. */
  #buffer({ at, features }: Operand): Place | null {
    const isFloat = at.dtype === "float32" && at.column === 1;
    return isFloat ? null : this.p.array("local", BLOCK * features, "float");
  }

  /** Rows of a block as a left operand: their elements are terms. */
  #rowsOf(operand: Operand, buffer: Place | null, first: E): LeftOperand {
    const { p } = this, { features, place } = operand;
    if (buffer !== null) {
      p.loop(
        this.#count,
        (row) =>
          p.loop(
            int(features),
            (e) => p.store(buffer, add(mul(row, features), e), operand.element(add(first, row), e)),
            1,
          ),
        1,
      );
      return { place: buffer, at: int(0), row: int(features), term: int(1) };
    }
    const row = sub(operand.index(int(1), int(0)), operand.index(int(0), int(0)));
    return { place, at: operand.index(first, int(0)), row, term: int(1) };
  }

  /** Rows of a result get the products of the block's columns and an operand's rows, which are kept as they lie. */
  rowSums({ place, index, operand, row0, scale }: RowSums): (turn: Turn, weights: Grid) => void {
    const { p } = this, { features } = operand;
    const rows = p.array("local", this.rows * features, "float");
    const size = Math.ceil(BLOCK / this.#tile.step) * this.#tile.step;
    const sums = p.array("local", size * features, "float");
    p.loop(int(this.rows), (row) => {
      const own = p.let(add(row0, row));
      this.#rowOrZeros(
        lt(own, operand.length),
        features,
        (e) => fmul(scale, operand.element(own, e)),
        (e, value) => p.store(rows, add(mul(row, features), e), value),
      );
    }, 1);
    const perRow = features / LANES, vectors = [4, 3, 2, 1].find((n) => perRow % n === 0)!;
    const tile = this.#panel ? this.#tile : { vectors, step: vectors > 2 ? 4 : 8 };
    return ({ first }, weights) => {
      const start = p.let(index(first)), vectorsOfBlock = p.let(mul(this.#count, perRow));
      const stored = (k: E): E => load(place, add(start, mul(k, LANES), lanes(LANES)));
      const rounded = mul(div(add(this.#count, tile.step - 1), tile.step), tile.step * perRow);
      p.loop(p.let(rounded), (k) => {
        const value = p.register(splat(float(0), LANES));
        p.when(all([lt(0, row0), lt(k, vectorsOfBlock)]), () => p.set(value, stored(k)));
        p.store(sums, mul(k, LANES), value);
      }, 1);
      blockProduct(p, this.#panel, tile, {
        into: sums,
        rows: this.#count,
        count: p.let(min(sub(operand.length, row0), this.rows)),
        left: { place: weights.place, at: int(0), row: int(this.rows), term: int(1) },
        right: rows,
        ...{ pitch: features, columns: features },
        isAdded: true,
      });
      p.loop(
        vectorsOfBlock,
        (k) =>
          p.store(place, add(start, mul(k, LANES)), load(sums, add(mul(k, LANES), lanes(LANES)))),
        1,
      );
    };
  }

  each(grid: Grid, body: (at: E, row: E, run: E, k: number) => void): void {
    this.p.loop(
      grid.runs,
      (run) =>
        this.p.loop(int(this.rows), (row) => body(add(mul(run, this.rows), row), row, run, 0), 1),
      1,
    );
  }

  store(output: Place, sums: Grid, columns: number, rows: StoredRows): void {
    const { p } = this;
    const factors = Array.from({ length: this.own }, (_, row) => rows.factor(row));
    if (!this.#scaled.has(sums) && factors.every((factor) => factor !== null)) {
      this.#scaled.add(sums);
      change(this, sums, (sum, row) => fmul(sum, factors[row]!));
    }
    this.#inSquares(
      output.element === "float32",
      columns,
      rows.isThere,
      (row, column) => {
        const index = add(rows.index(row), column);
        const step = sub(add(rows.index(add(row, 1)), column), index);
        const at = add(mul(column, this.rows), row);
        p.emit({
          s: "transpose",
          from: sums.place,
          at,
          step: int(this.rows),
          to: output,
          index,
          pitch: step,
        });
      },
      (row) =>
        p.when(rows.isThere(row), () => {
          const start = p.let(rows.index(row));
          p.loop(
            int(columns),
            (e) =>
              p.store(
                output,
                add(start, e),
                held(sums.place, add(mul(e, this.rows), row), "float"),
              ),
            1,
          );
        }),
    );
  }

  storeNumbers(
    output: Place,
    { index, isThere }: Omit<StoredRows, "factor">,
    number: (row: number) => E,
  ): void {
    const { p } = this, place = p.array("local", this.rows, "float");
    for (let v = 0; v < this.own; v++) p.store(place, int(v * LANES), number(v));
    p.loop(
      int(this.rows),
      (row) => p.when(isThere(row), () => p.store(output, index(row), held(place, row, "float"))),
      1,
    );
  }
}
