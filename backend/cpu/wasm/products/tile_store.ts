/** The WebAssembly that writes tiles of sums to where the result lies. */
import type { FunctionBuilder, Local } from "../assembler.ts";
import { f32x4, i32, v128 } from "../opcodes.ts";

/** Rows of a tile; with two vectors a row this fills the registers that there are. */
export const TILE_ROWS = 6;
/** Vectors of a tile's row, and the columns that they hold. */
export const TILE_VECTORS = 2, TILE_COLUMNS = 8;

/** Side-by-side axis of the result: the columns, the rows of each tile, or neither. */
export type ContiguousAxis = "columns" | "rows" | "nothing";

/** Destination of a tile: the result, the tile's first row, its panel of columns. */
export interface Tile {
  readonly c: Local;
  readonly row: Local;
  /** Rows that there are from that one on. */
  readonly rowsLeft: Local;
  readonly panel: Local;
  /** The first summed index of its sums: from the second block of those on they are added. */
  readonly sum: Local;
}

/** Condition for adding sums to what is there: never, always, or where a number is not 0. */
type IsAdded = Local | "always" | null;

interface StoreTarget {
  readonly c: Local;
  readonly row: Local;
  readonly column: Local;
}

/** Writes tiles. */
export class TileStore {
  readonly #f: FunctionBuilder;
  readonly #arg: (name: "cRows" | "cColumns" | "n") => Local;
  readonly #contiguousAxis: ContiguousAxis;

  /** `arg` gives tables of offsets and the number of columns. */
  constructor(
    f: FunctionBuilder,
    arg: (name: "cRows" | "cColumns" | "n") => Local,
    contiguousAxis: ContiguousAxis,
  ) {
    this.#f = f;
    this.#arg = arg;
    this.#contiguousAxis = contiguousAxis;
  }

  /** Writes the part of a tile that there is; from the second summed block on it adds. */
  write({ c, row, rowsLeft, panel, sum }: Tile, sums: Local[][]): void {
    const f = this.#f;
    const column = f.iWith(i32.shl, panel, 3);
    const columnsLeft = f.i(i32.sub, this.#arg("n"), column);
    const hasColumns = f.i(i32.ltS, f.integer(TILE_COLUMNS - 1), columnsLeft);
    const hasRows = f.i(i32.ltS, f.integer(sums.length - 1), rowsLeft);
    const target = { c, row, column };
    // Most tiles are whole: no test is made for each of their elements.
    f.branch(
      f.i(i32.and, hasColumns, hasRows),
      () =>
        f.branch(
          sum,
          () => this.#storeWhole(target, sums, "always"),
          () => this.#storeWhole(target, sums, null),
        ),
      () => {
        const part = (): void => this.#storePart(target, sums, sum, rowsLeft, columnsLeft);
        if (this.#contiguousAxis !== "columns") return part();
        f.branch(hasColumns, () => this.#storeRows(target, sums, sum, rowsLeft), part);
      },
    );
  }

  /** Address of a tile's columns in the table of columns. */
  #columnsOf({ column }: StoreTarget): Local {
    return this.#f.wordAt(this.#arg("cColumns"), column);
  }

  /** Start of a tile's row. */
  #placeOf({ c, row }: StoreTarget, r: number): Local {
    const f = this.#f, rows = f.wordAt(this.#arg("cRows"), row);
    return f.i(i32.add, c, f.loadNumber(i32.load, rows, 4 * r));
  }

  #storeWhole(target: StoreTarget, sums: Local[][], sum: IsAdded): void {
    const table = this.#columnsOf(target);
    if (this.#contiguousAxis === "rows") {
      return this.#storeColumns(this.#placeOf(target, 0), table, sum, sums);
    }
    if (this.#contiguousAxis === "columns") return this.#storeRows(target, sums, sum, null);
    sums.forEach((row, r) => {
      this.#storeEach(this.#placeOf(target, r), table, null, sum, row);
    });
  }

  /** Whole rows of columns that lie side by side: those that there are. */
  #storeRows(target: StoreTarget, sums: Local[][], sum: IsAdded, rowsLeft: Local | null): void {
    const f = this.#f, column = f.loadNumber(i32.load, this.#columnsOf(target));
    sums.forEach((row, r) => {
      this.#where(r, rowsLeft, () => {
        const first = f.i(i32.add, this.#placeOf(target, r), column);
        row.forEach((value, h) => this.#put(4, first, 16 * h, sum, value, 0));
      });
    });
  }

  /** Row by row and element by element, those that there are. */
  #storePart(
    target: StoreTarget,
    sums: Local[][],
    sum: IsAdded,
    rowsLeft: Local,
    columnsLeft: Local,
  ): void {
    const table = this.#columnsOf(target);
    sums.forEach((row, r) => {
      this.#where(r, rowsLeft, () => {
        this.#storeEach(this.#placeOf(target, r), table, columnsLeft, sum, row);
      });
    });
  }

  /** `body` where there are more than `k`; where `left` is null, there are. */
  #where(k: number, left: Local | null, body: () => void): void {
    if (left === null) body();
    else this.#f.branch(this.#f.i(i32.ltS, this.#f.integer(k), left), body);
  }

  /** The tile's columns, one after the other: its rows transposed by shuffles. */
  #storeColumns(
    place: Local,
    table: Local,
    sum: IsAdded,
    sums: Local[][],
  ): void {
    const f = this.#f;
    const columns: ((at: Local) => void)[][] = Array.from({ length: TILE_COLUMNS }, () => []);
    for (let r = 0; r < sums.length;) {
      const count = sums.length - r >= 4 ? 4 : sums.length - r >= 2 ? 2 : 1;
      for (const h of [0, 1]) {
        const rows = sums.slice(r, r + count).map((row) => row[h]!);
        const offset = 4 * r;
        this.#transposed(rows).forEach(({ vector, lane }, k) => {
          columns[4 * h + k]!.push((at) => this.#put(count, at, offset, sum, vector, lane));
        });
      }
      r += count;
    }
    columns.forEach((parts, k) => {
      const at = f.i(i32.add, place, f.loadNumber(i32.load, table, 4 * k));
      for (const part of parts) part(at);
    });
  }

  /** The four columns of one, two or four rows: where each begins in which vector. */
  #transposed(rows: readonly Local[]): { vector: Local; lane: number }[] {
    const f = this.#f;
    const [a, b] = rows as [Local, Local];
    if (rows.length === 4) return f.transpose(rows).map((vector) => ({ vector, lane: 0 }));
    if (rows.length === 1) return [0, 1, 2, 3].map((lane) => ({ vector: a, lane }));
    return [[0, 4, 1, 5], [2, 6, 3, 7]].flatMap((lanes) => {
      const vector = f.shuffle32(a, b, lanes);
      return [0, 1].map((lane) => ({ vector, lane }));
    });
  }

  /** Stores one, two or four floats, or adds them to what is there. */
  #put(
    count: 1 | 2 | 4,
    at: Local,
    offset: number,
    sum: IsAdded,
    value: Local,
    lane: number,
  ): void {
    const f = this.#f;
    const [load, store] = count === 4
      ? [v128.load, v128.store]
      : count === 2
      ? [v128.load64Splat, v128.store64Lane]
      : [v128.loadSplat, v128.store32Lane];
    const write = (vector: Local): void =>
      f.store(store, at, vector, offset, count === 4 ? undefined : lane);
    const add = (): void => write(f.v(f32x4.add, value, f.load(load, at, offset)));
    if (sum === null) return write(value);
    if (sum === "always") return add();
    f.branch(sum, add, () => write(value));
  }

  #storeEach(
    place: Local,
    table: Local,
    left: Local | null,
    sum: IsAdded,
    row: readonly Local[],
  ): void {
    const f = this.#f;
    row.forEach((value, h) => {
      for (let lane = 0; lane < 4; lane++) {
        const k = 4 * h + lane;
        this.#where(k, left, () => {
          const at = f.i(i32.add, place, f.loadNumber(i32.load, table, 4 * k));
          this.#put(1, at, 0, sum, value, lane);
        });
      }
    });
  }
}
