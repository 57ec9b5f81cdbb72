/** The tile of a product that a group computes: where it lies, its operands, and what follows from its sums. */
import { neededBy } from "../../kernel/analysis.ts";
import { type Contraction, extent } from "../../kernel/kernel.ts";
import { add, divideBy, type E, min, mul, sub } from "../language/expression.ts";
import { lt, truth } from "../language/values.ts";
import { type Indices, type KernelValues, Scope, storeNeighbours } from "./kernel_values.ts";
import { decomposed, OperandParts, type Terms } from "./operand_parts.ts";

/** Rows or columns of the result. */
export interface Axis {
  readonly symbols: readonly number[];
  readonly extent: number;
  /** The first one of the group's tile, and how many all tiles have. */
  readonly origin: E;
  readonly end: E;
  /** No tile ends behind the last one. */
  readonly isWhole: boolean;
}

/** Rows, columns, and terms of a stage. */
export interface TileSize {
  readonly bm: number;
  readonly bn: number;
  readonly bk: number;
}

/** The tile of one group. */
export class ProductTile {
  readonly rows: Axis;
  readonly columns: Axis;
  /** Number of groups, of stages, and the stages as an argument. */
  readonly groups: number;
  readonly steps: E;
  readonly #values: KernelValues;
  readonly #c: Contraction;
  readonly #batch: Indices;
  readonly #terms: Terms;

  /** @param strip Rows of tiles whose groups follow each other, so that they share columns in the cache. */
  constructor(values: KernelValues, c: Contraction, { bm, bn, bk }: TileSize, strip = 1) {
    const { p, kernel } = values;
    this.#values = values;
    this.#c = c;
    const [m, n, k] = [c.m, c.n, c.k].map((symbols) => extent(kernel, symbols)) as [
      number,
      number,
      number,
    ];
    const [countM, countN] = [Math.ceil(m / bm), Math.ceil(n / bn)];
    this.groups = countM * countN * extent(kernel, c.batch);
    const [tilesM, tilesN] = [p.size(countM), p.size(countN)];
    const place = strip === 1 ? placeByRows(p.group, tilesM, tilesN) : placeInStrips(
      p.group,
      tilesM,
      tilesN,
      strip,
    );
    const axis = (symbols: readonly number[], size: number, extent: number, tile: E): Axis => ({
      symbols,
      extent,
      origin: p.let(mul(tile, extent)),
      end: p.size(size),
      isWhole: size % extent === 0,
    });
    this.rows = axis(c.m, m, bm, place.row);
    this.columns = axis(c.n, n, bn, place.column);
    this.#batch = values.decomposed(c.batch, p.let(place.batch), (s) => values.size(s));
    this.#terms = { count: bk, end: p.size(k) };
    this.steps = p.size(Math.ceil(k / bk));
  }

  /** The addresses of both operands. */
  operands(): readonly [a: OperandParts, b: OperandParts] {
    const parts = (axis: Axis, name: "a" | "b"): OperandParts => {
      const tile = { ...axis, name, load: this.#c[name] };
      return new OperandParts(this.#values, this.#c, tile, this.#terms, this.#batch);
    };
    return [parts(this.rows, "a"), parts(this.columns, "b")];
  }

  /** The indices of several loops from one number. */
  decomposed(symbols: readonly number[], number: E): Indices {
    return decomposed(this.#values, this.#c, symbols, number);
  }

  /** Runs the body for a row or column, with the indices of its loops, where there is such a one. */
  within({ symbols, end, isWhole }: Axis, own: E, body: (indices: Indices) => void): void {
    this.#values.p.when(
      isWhole ? truth(true) : lt(own, end),
      () => body(this.decomposed(symbols, own)),
    );
  }

  /** Stores what follows from a sum. */
  store(sum: () => E, rows: Indices, columns: Indices): void {
    const { kernel, p } = this.#values, { exprs, outputs } = kernel;
    const scope = new Scope(this.#values, new Map([...this.#batch, ...rows, ...columns]));
    const ids = exprs.flatMap(({ op }, id) => op === "contracted" ? [id] : []);
    const value = ids.length > 0 ? sum() : null;
    for (const id of ids) scope.know(id, value!);
    scope.declare(neededBy(kernel, outputs.map(({ expr }) => expr)));
    outputs.forEach((_, output) => storeNeighbours(p, kernel, output, [scope]));
  }

  /** All indices but those of the sum. */
  indices(rows: Indices, columns: Indices): Indices {
    return new Map([...this.#batch, ...rows, ...columns]);
  }
}

/** The number of a tile along the rows and columns of its product, and that of the product. */
interface TilePlace {
  readonly row: E;
  readonly column: E;
  readonly batch: E;
}

function placeByRows(group: E, tilesM: E, tilesN: E): TilePlace {
  const [above, column] = divideBy(group, tilesN), [batch, row] = divideBy(above, tilesM);
  return { row, column, batch };
}

function placeInStrips(group: E, tilesM: E, tilesN: E, strip: number): TilePlace {
  const [batch, own] = divideBy(group, mul(tilesM, tilesN));
  const [strips] = divideBy(own, mul(tilesN, strip)), first = mul(strips, strip);
  const height = min(sub(tilesM, first), strip);
  const [column, row] = divideBy(sub(own, mul(first, tilesN)), height);
  return { row: add(first, row), column, batch };
}
