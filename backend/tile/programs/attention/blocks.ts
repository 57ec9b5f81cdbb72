/** Blocks of attention: what every way to hold and multiply them has. */
import { held } from "../../language/elements.ts";
import { type E, int, type Place } from "../../language/expression.ts";
import type { Program } from "../../program.ts";
import type { Operand } from "./head_values.ts";

/** Numbers of a block as a work-item holds them: a few rows, of which it has columns in runs of neighbours. */
export interface Grid {
  readonly place: Place;
  readonly rows: number;
  /** Runs of a row, and columns of a run. */
  readonly runs: number;
  readonly run: number;
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

/** A result's row: where it begins in the output, and a factor of its numbers. */
export interface StoredRow {
  readonly index: E;
  readonly isThere: E;
  readonly factor: E | null;
}

/** A group's way to hold blocks of scores and of sums, and to multiply them. */
export interface Blocks {
  readonly p: Program;
  /** Rows of a group, and columns of a turn; rows of a work-item. */
  readonly rows: number;
  readonly columns: number;
  readonly own: number;
  /** Powers are of base 2, and approximate. */
  readonly isFast: boolean;
  /** Number of a work-item's row in the group; the first and the last of those that it shares tests with. */
  row(row: number): E;
  readonly firstRow: E;
  readonly lastRow: E;
  /** Keeps rows of matrices, from `row0` on. */
  keep(kept: readonly Operand[], row0: E): void;
  /** Sums of so many columns, all 0. */
  sums(columns: number): Grid;
  /** Joins what the work-items that share rows have of each. */
  join(parts: readonly E[], combine: (a: E, b: E) => E): void;
  /** Runs the body in one of the work-items that share a row. */
  once(body: () => void): void;
  walk(walk: Walk, body: (turn: Turn) => void): void;
  /** Stores sums of so many columns. */
  store(output: Place, sums: Grid, columns: number, row: (row: number) => StoredRow): void;
}

/** Runs a body for each column of a row. */
export function eachColumn(
  p: Program,
  grid: Grid,
  row: number,
  body: (at: E, run: E, k: number) => void,
): void {
  p.loop(int(grid.runs), (run) => {
    for (let k = 0; k < grid.run; k++) body(grid.at(row, run, k), run, k);
  }, Infinity);
}

/** Runs a body for each number of a block. */
export function eachNumber(
  p: Program,
  grid: Grid,
  body: (row: number, at: E, run: E, k: number) => void,
): void {
  for (let row = 0; row < grid.rows; row++) {
    eachColumn(p, grid, row, (at, run, k) => body(row, at, run, k));
  }
}

/** Changes each number of a block. */
export function change(
  p: Program,
  grid: Grid,
  to: (value: E, row: number, run: E, k: number) => E,
): void {
  eachNumber(
    p,
    grid,
    (row, at, run, k) => p.store(grid.place, at, to(valueAt(grid, at), row, run, k)),
  );
}

export const valueAt = ({ place }: Grid, at: E): E => held(place, at, "float");
