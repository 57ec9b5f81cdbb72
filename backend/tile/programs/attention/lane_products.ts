/** Products whose columns are on the lanes of vectors. */
import { elementFrom, held } from "../../language/elements.ts";
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
import { float, fma, load, splat } from "../../language/values.ts";
import type { Program } from "../../program.ts";
import { type PanelProduct, panelProduct } from "../panels/panel_product.ts";

/** Floats of a vector. */
export const LANES = 16;

/** Vectors on the lanes, and rows that are computed at a time: together they fill the registers. */
export interface LaneTile {
  readonly vectors: number;
  readonly step: number;
}

/** Elements of rows that are read one by one: those of a row from a place on. */
export type Row = (row: E) => (k: E) => E;

/** A product on the lanes: `rows` rows of `count` terms, of which those behind the last repeat it. */
export interface LaneProduct {
  readonly tile: LaneTile;
  readonly into: Place;
  readonly rows: E;
  readonly count: E;
  readonly left: Row;
  readonly right: Place;
  /** Elements of a row of both places, and the first of this product. */
  readonly pitch: number;
  readonly first: E;
  readonly isAdded: boolean;
  /** The first element of the right operand, where it is another one. */
  readonly rightFirst?: E;
  /** The tile divides the rows. */
  readonly isWhole?: boolean;
  /** Elements of rows are read from memory each time. */
  readonly reloads?: boolean;
}

/** Adds products to a place, a few rows at a time. */
export function laneProducts(
  p: Program,
  {
    tile,
    into,
    rows,
    count,
    left,
    right,
    pitch,
    first,
    isAdded,
    rightFirst = first,
    isWhole,
    reloads,
  }: LaneProduct,
): void {
  const { step, vectors } = tile, last = p.let(sub(rows, 1));
  const own = Array.from({ length: step }, (_, r) => r);
  const vector = Array.from({ length: vectors }, (_, v) => v);
  p.loop(p.let(div(add(rows, step - 1), step)), (turn) => {
    const row0 = isWhole ? mul(turn, step) : p.let(mul(turn, step));
    const starts = own.map((r) => left(isWhole ? add(row0, r) : min(add(row0, r), last)));
    const at = (r: number, v: number): E => add(mul(add(row0, r), pitch), first, v * LANES);
    const sums = own.map((r) =>
      vector.map((v) =>
        p.register(isAdded ? load(into, add(at(r, v), lanes(LANES))) : splat(float(0), LANES))
      )
    );
    p.loop(count, (k) => {
      if (reloads) p.emit({ s: "reload" });
      const y = vector.map((v) =>
        p.let(load(right, add(mul(k, pitch), rightFirst, v * LANES, lanes(LANES))))
      );
      own.forEach((r) => {
        const x = p.let(starts[r]!(k));
        vector.forEach((v) => p.set(sums[r]![v]!, fma(x, y[v]!, sums[r]![v]!)));
      });
    }, 1);
    own.forEach((r) => vector.forEach((v) => p.store(into, at(r, v), sums[r]![v]!)));
  }, 1);
}

/**
 * Adds the products of a left operand and rows of floats, or stores them.
 *
 * @param panel Room for rows by which is multiplied; null: elements are read one by one.
 */
export function blockProduct(
  p: Program,
  panel: Place | null,
  tile: LaneTile,
  product: Omit<PanelProduct, "panel" | "step" | "columns" | "pitch"> & {
    readonly columns: number;
    readonly pitch: number;
  },
): void {
  const { left, pitch, columns, right, into, rows, count, isAdded } = product;
  const { place, at, row: rowStep, term } = left;
  if (panel !== null) {
    const sizes = { columns: int(columns), pitch: int(pitch) };
    return panelProduct(p, { panel, step: tile.step, ...product, ...sizes });
  }
  const own = (row: E): E => add(at, mul(row, rowStep));
  const element: Row = place.space === "local"
    ? (row) => (k) => held(place, add(own(row), mul(k, term)), "float")
    : (row) => {
      const start = p.let(own(row));
      return (k) => elementFrom(place, start, mul(k, term), "float32");
    };
  const width = tile.vectors * LANES;
  p.loop(int(columns / width), (part) => {
    const first = columns === width ? int(0) : p.let(mul(part, width));
    laneProducts(p, { tile, into, rows, count, left: element, right, pitch, first, isAdded });
  }, 1);
}
