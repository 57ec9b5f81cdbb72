/** Blocks of attention: what every way to hold and multiply them has. */
import { held } from "../../language/elements.ts";
import { add, type E, int, lanes, mul, type Place } from "../../language/expression.ts";
import { float, lane, load, lt } from "../../language/values.ts";
import type { Program } from "../../program.ts";
import type { Operand } from "./head_values.ts";

/** Numbers of a block as a work-item holds them: a few rows, of which it has columns in runs of neighbours. */
export interface Grid {
  readonly place: Place;
  readonly rows: number;
  /** Runs of a row, and columns of a run. */
  readonly runs: E;
  readonly run: number;
  /** Lanes of a number: those of a vector are side by side. */
  readonly width: number;
  /** Runs of a row that may be computed with as a vector: its numbers are side by side. */
  readonly together?: number;
  /** Place of a number. */
  at(row: number, run: E, k: number): E;
  /** Column of a number in the block. */
  column(run: E, k: number): E;
}

/** A block of scores: rows that are kept times rows that are walked, over their features. */
export interface ScoreProduct {
  readonly kept: number;
  readonly walked: number;
}

/** A product that is added to sums: a block of weights times the rows that are walked. */
export interface WeightedSum {
  readonly sums: Grid;
  readonly weights: Grid;
  readonly walked: number;
}

/** A turn of the walk over the columns. */
export interface Turn {
  /** The first column of the block. */
  readonly first: E;
  /** A number of a column, of the matrices that were asked for. */
  number(which: number, run: E, k: number): E;
  /** Blocks of scores, which may be made together. */
  scores(all: readonly ScoreProduct[]): readonly Grid[];
  add(all: readonly WeightedSum[]): void;
}

/** The columns of a kernel. */
export interface Walk {
  readonly walked: readonly Operand[];
  /** Matrices of one column, of which a turn has the number of each column: 0 behind the last. */
  readonly numbers: readonly Operand[];
  /** The first column, and the end of the columns. */
  readonly from: E;
  readonly to: E;
}

/** The rows of a result, by their numbers in the group: where they begin in the output, and a factor of numbers. */
export interface StoredRows {
  index(row: E): E;
  isThere(row: E): E;
  /** Of a row of the work-item. */
  factor(row: number): E | null;
}

/** Rows of a result that are added up where they are stored, of rows of an operand. */
export interface RowSums {
  readonly place: Place;
  /** The place of a row of the result. */
  index(row: E): E;
  readonly operand: Operand;
  /** The first of its rows, and what they are multiplied by. */
  readonly row0: E;
  readonly scale: E;
}

/** A group's way to hold blocks of scores and of sums, and to multiply them. */
export interface Blocks {
  readonly p: Program;
  /** Rows of a group, and columns of a turn; rows of a work-item, of which each may be a vector of so many lanes. */
  readonly rows: number;
  readonly columns: number;
  readonly own: number;
  readonly lanes: number;
  /** Powers are of base 2, and approximate. */
  readonly isFast: boolean;
  /** Blocks end with the columns: there is none behind the last. */
  readonly isExact: boolean;
  /** Products of scores are scaled already. */
  readonly isScaled: boolean;
  /** Work-items that share rows take weights against scores of their own, until these are joined at the end. */
  readonly isApart: boolean;
  /** Turns of loops over columns that are written one after the other. */
  readonly unroll: number;
  /** Number of a work-item's row in the group; the first and the last of those that it shares tests with. */
  row(row: number): E;
  readonly firstRow: E;
  readonly lastRow: E;
  /** Keeps rows of matrices, from `row0` on; products with the first are scores, which may be scaled. */
  keep(kept: readonly Operand[], row0: E, scale: E): void;
  /** The number of each row of the work-item, of a matrix of one column; another one where there is no row. */
  numbers(operand: Operand, row0: E, otherwise: E): readonly E[];
  /** Sums of so many columns, all 0. */
  sums(columns: number): Grid;
  /** Joins what the work-items that share rows have of each. */
  join(parts: readonly E[], combine: (a: E, b: E) => E): void;
  walk(walk: Walk, body: (turn: Turn) => void): void;
  /** A function that adds the rows of an operand, by the columns of a block, to rows of a result; where it can. */
  rowSums?(result: RowSums): (turn: Turn, weights: Grid) => void;
  /** Runs a body for each number of a block, with its row in the group. */
  each(grid: Grid, body: (at: E, row: E, run: E, k: number) => void): void;
  /** Stores sums of so many columns. */
  store(output: Place, sums: Grid, columns: number, rows: StoredRows): void;
  /** Stores a number of each row of the work-item. */
  storeNumbers(output: Place, rows: Omit<StoredRows, "factor">, number: (row: number) => E): void;
}

/** Runs a body for each column of a row. */
export function eachOfRow(
  { p, unroll }: Pick<Blocks, "p" | "unroll">,
  grid: Grid,
  row: number,
  body: (at: E, run: E, k: number) => void,
): void {
  p.loop(grid.runs, (run) => {
    for (let k = 0; k < grid.run; k++) body(grid.at(row, run, k), run, k);
  }, unroll);
}

/** Runs a body for each column, and in it for each row of the work-item: what rows have in common is there once. */
export function eachColumn(
  { p, unroll }: Pick<Blocks, "p" | "unroll">,
  grid: Grid,
  body: (row: number, at: E, run: E, k: number) => void,
): void {
  p.loop(grid.runs, (run) => {
    for (let row = 0; row < grid.rows; row++) {
      for (let k = 0; k < grid.run; k++) body(row, grid.at(row, run, k), run, k);
    }
  }, unroll);
}

/** Changes each number of a block. */
export function change(
  blocks: Blocks,
  grid: Grid,
  to: (value: E, row: number, run: E, k: number) => E,
): void {
  eachColumn(
    blocks,
    grid,
    (row, at, run, k) => blocks.p.store(grid.place, at, to(valueAt(grid, at), row, run, k)),
  );
}

/** A block whose numbers are all 0. */
export function cleared(p: Program, grid: Grid): Grid {
  const { place, runs, rows, run } = grid;
  p.loop(mul(runs, rows * run), (at) => p.store(place, at, float(0)), Infinity);
  return grid;
}

/** A number of a block, or those of its lanes. */
export const valueAt = ({ place, width }: Grid, at: E): E =>
  width === 1 ? held(place, at, "float") : load(place, add(at, lanes(width)));

/** Stores the lanes of a value side by side. */
export function storeLanes(p: Program, output: Place, index: E, value: E): void {
  if (value.width === 1 || output.element === "float32") return p.store(output, index, value);
  for (let k = 0; k < value.width; k++) p.store(output, add(index, k), lane(value, k));
}

/** Blocks whose rows are no vectors: their defaults, and what a work-item does with the numbers of its rows. */
export abstract class RowBlocks implements Blocks {
  abstract readonly p: Program;
  abstract readonly rows: number;
  abstract readonly columns: number;
  abstract readonly own: number;
  readonly lanes = 1;
  readonly isFast: boolean = false;
  readonly isExact = false;
  readonly isScaled = false;
  readonly isApart: boolean = false;
  readonly unroll: number = Infinity;

  abstract row(row: number): E;
  abstract keep(kept: readonly Operand[], row0: E, scale: E): void;
  abstract sums(columns: number): Grid;
  abstract join(parts: readonly E[], combine: (a: E, b: E) => E): void;
  abstract walk(walk: Walk, body: (turn: Turn) => void): void;
  abstract store(output: Place, sums: Grid, columns: number, rows: StoredRows): void;

  /** True for the work-item that stores numbers of rows. */
  protected abstract get storesNumbers(): E;

  get firstRow(): E {
    return int(0);
  }

  get lastRow(): E {
    return int(this.rows - 1);
  }

  numbers(operand: Operand, row0: E, otherwise: E): E[] {
    const { p } = this;
    return Array.from({ length: this.own }, (_, k) => {
      const number = p.register(otherwise), row = p.let(add(row0, this.row(k)));
      p.when(lt(row, operand.length), () => p.set(number, operand.element(row, int(0))));
      return number;
    });
  }

  each(grid: Grid, body: (at: E, row: E, run: E, k: number) => void): void {
    eachColumn(this, grid, (row, at, run, k) => body(at, this.row(row), run, k));
  }

  storeNumbers(
    output: Place,
    { index, isThere }: Omit<StoredRows, "factor">,
    number: (row: number) => E,
  ): void {
    const { p } = this;
    p.when(this.storesNumbers, () => {
      for (let k = 0; k < this.own; k++) {
        const row = p.let(this.row(k));
        p.when(isThere(row), () => p.store(output, index(row), number(k)));
      }
    });
  }
}
