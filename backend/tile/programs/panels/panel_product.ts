/**
 * Products by panels: a few rows of the left operand lie side by side, and are multiplied in registers.
 *
 * This folder (`panels/`) has programs of vectors of four, for WebAssembly. It imports the language and `kernel/`;
 * `lanes/` and `attention/` multiply by it.
 */
import {
  add,
  divideBy,
  type E,
  int,
  lanes,
  min,
  mul,
  type Place,
  sub,
  type Whole,
  whole,
} from "../../language/expression.ts";
import { PANEL_ROWS, type Sums } from "../../language/statements.ts";
import { fadd, float, load, lt, splat } from "../../language/values.ts";
import type { Program } from "../../program.ts";
import { VECTOR } from "./numbered.ts";

/**
 * Terms of a panel: what unrolled code goes through. With twice as many, products took a fifth more time: processors keep
 * so many decoded instructions.
 */
export const PANEL_TERMS = 64;
/** Floats of such a panel. */
export const PANEL: number = PANEL_TERMS * PANEL_ROWS;
/** Rows of a tile, which with two vectors a row fills the registers that there are. */
export const TILE_ROWS = 6, TILE_VECTORS = 2;
/** Tiles of so few rows have more vectors, as far as columns can be divided. */
export const NARROW_ROWS = 3;
const NARROW_VECTORS = 4;

/** Elements that are read one by one: those of a row, and of a term of it, are so far apart. */
export interface LeftOperand {
  readonly place: Place;
  readonly at: E;
  readonly row: E;
  readonly term: E;
}

/**
 * Products of a left operand and rows of floats: `into[r][c] = sum of left[r][k] * right[k][c]`, added to what is there
 * or not. Rows are multiplied `step` at a time; those behind the last are stored as the last one is.
 */
export interface PanelProduct {
  readonly left: LeftOperand;
  readonly right: Place;
  readonly into: Place;
  /** Their first elements; by default 0. */
  readonly rightAt?: E;
  readonly intoAt?: E;
  readonly rows: E;
  readonly step: number;
  readonly count: E;
  /** Columns, and floats from one row to the next of what is read and of what is stored. */
  readonly columns: E;
  readonly pitch: E;
  readonly isAdded: boolean;
  readonly panel: Place;
}

/** Runs a body for every `by`-th number below `count`. */
export function every(p: Program, count: E, by: Whole, body: (at: E) => void): void {
  p.loop(
    p.let(divideBy(add(count, sub(by, 1)), whole(by))[0]),
    (turn) => body(p.let(mul(turn, by))),
    1,
  );
}

/** Vectors of zeros in registers. */
export const tileOf = (p: Program, rows: number, vectors: number): E[][] =>
  Array.from(
    { length: rows },
    () => Array.from({ length: vectors }, () => p.register(splat(float(0), VECTOR))),
  );

/** Stores the vectors of a row side by side, or adds them to what is there. */
export function storeRow(p: Program, to: Place, at: E, row: readonly E[], isAdded: boolean): void {
  row.forEach((sum, v) => {
    const index = add(at, v * VECTOR);
    p.store(to, index, isAdded ? fadd(load(to, add(index, lanes(VECTOR))), sum) : sum);
  });
}

/** Stores something that is added to what other terms have left. */
export function storeOrAdd(p: Program, first: E, store: (isAdded: boolean) => void): void {
  p.either(lt(0, first), () => store(true), () => store(false));
}

/** Multiplies. */
export function panelProduct(
  p: Program,
  { left, right, into, rightAt = int(0), intoAt = int(0), ...s }: PanelProduct,
): void {
  const { rows, step, count, columns, pitch, isAdded, panel } = s;
  const isNarrow = step <= NARROW_ROWS && columns.op === "const" &&
    columns.value % (VECTOR * NARROW_VECTORS) === 0;
  const vectors = isNarrow ? NARROW_VECTORS : TILE_VECTORS, last = sub(rows, 1);
  const numbers = Array.from({ length: step }, (_, r) => r);
  const product: Pick<Sums, "s" | "panel" | "right" | "terms" | "unrolled"> = {
    ...{ s: "sums", panel, right, terms: { step: pitch } },
    unrolled: Math.min(PANEL_TERMS, count.range[1]),
  };
  every(p, rows, step, (row) => {
    const starts = numbers.map((r) => p.let(add(left.at, mul(min(add(row, r), last), left.row))));
    every(p, count, PANEL_TERMS, (first) => {
      const terms = p.let(min(sub(count, first), PANEL_TERMS)),
        skipped = p.let(mul(first, left.term));
      p.emit({
        ...{ s: "fill", panel, index: int(0), from: left.place, count: terms },
        ...{ rows: starts.map((start) => add(start, skipped)), terms: { step: left.term } },
      });
      const begin = p.let(add(rightAt, mul(first, pitch)));
      const place = p.let(add(intoAt, mul(row, pitch)));
      every(p, columns, VECTOR * vectors, (column) => {
        const sums = tileOf(p, step, vectors);
        p.emit({ ...product, to: sums, at: add(begin, column), count: terms });
        const store = (adds: boolean): void => {
          let at = add(place, column);
          sums.forEach((own, r) => {
            if (r > 0) at = p.let(add(at, pitch));
            storeRow(p, into, at, own, adds);
          });
        };
        if (isAdded) store(true);
        else storeOrAdd(p, first, store);
      });
    });
  });
}
