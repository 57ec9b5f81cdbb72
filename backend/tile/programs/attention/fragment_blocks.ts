/**
 * Blocks of attention of half types on matrix units: a warp takes 16 or 32 rows, scores stay in registers, where
 * those of one product are an operand of the next as they lie. Tiles of rows travel to local memory by asynchronous
 * copies, two at a time. Where a device multiplies by warpgroups, four warps multiply tiles of 64 rows at once.
 */
import { add, div, type E, int, mod, mul, type Place, sub } from "../../language/expression.ts";
import { sideBySide } from "../../language/elements.ts";
import type { Fragment } from "../../language/statements.ts";
import { fmul, lt, packed } from "../../language/values.ts";
import { COLUMNS, ROWS, WARP } from "../../matrix_units.ts";
import type { Program } from "../../program.ts";
import {
  cleared,
  type Grid,
  RowBlocks,
  type ScoreProduct,
  type StoredRows,
  type Turn,
  valueAt,
  type Walk,
  type WeightedSum,
} from "./blocks.ts";
import type { Operand } from "./head_values.ts";
import { RING, RingNumbers, RingRows } from "./ring_rows.ts";

/** Warps of a group. */
export const WARPS = 4;

/** Form of a group. */
export interface FragmentForm {
  readonly dtype: "float16" | "bfloat16";
  /** Rows of instructions of a warp, and columns of a turn. */
  readonly tiles: number;
  readonly columns: number;
  /** Rows that are kept lie in registers; products read them in their tile else. */
  readonly holdsRows: boolean;
  /** Four warps multiply at once. */
  readonly byWarpgroups: boolean;
}

/** The blocks of a group of four warps. */
export class FragmentBlocks extends RowBlocks {
  readonly p: Program;
  readonly rows: number;
  readonly columns: number;
  readonly own: number;
  override readonly isFast = true;
  readonly #form: FragmentForm;
  readonly #lane: E;
  readonly #warpRow: E;
  #kept: RingRows[] = [];
  /** The words of rows that are held, of each 16 rows and features. */
  #words: (Place | null)[] = [];
  #bytes = 0;
  readonly #right: Place;

  constructor(p: Program, form: FragmentForm) {
    const { tiles, columns } = form;
    super();
    this.p = p;
    this.#form = form;
    this.rows = WARPS * tiles * ROWS;
    this.columns = columns;
    this.own = 2 * tiles;
    this.#lane = p.let(mod(p.item, WARP));
    this.#warpRow = p.let(mul(div(p.item, WARP), tiles * ROWS));
    this.#right = p.array("private", 4, "word");
  }

  row(row: number): E {
    return add(this.#warpRow, div(this.#lane, 4), (row >> 1) * ROWS + (row & 1) * 8);
  }

  override get firstRow(): E {
    return this.#warpRow;
  }

  override get lastRow(): E {
    return add(this.#warpRow, this.#form.tiles * ROWS - 1);
  }

  #grid(columns: number): Grid {
    const { tiles } = this.#form, runs = columns / COLUMNS;
    return {
      place: this.p.array("private", 4 * tiles * runs, "float"),
      rows: 2 * tiles,
      runs: int(runs),
      run: 2,
      width: 1,
      at: (row, run, k) => add(mul(add((row >> 1) * runs, run), 4), (row & 1) * 2 + k),
      column: (run, k) => this.#columnOf(run, k),
    };
  }

  #columnOf(run: E, k: number): E {
    return add(mul(run, COLUMNS), mul(mod(this.#lane, 4), 2), k);
  }

  sums(columns: number): Grid {
    return cleared(this.p, this.#grid(columns));
  }

  join(parts: readonly E[], combine: (a: E, b: E) => E): void {
    for (const part of parts) {
      for (const mask of [1, 2]) {
        const other = this.p.unset("float");
        this.p.emit({ s: "shuffle", to: other, from: part, mask });
        this.p.set(part, combine(part, other));
      }
    }
  }

  protected get storesNumbers(): E {
    return lt(mod(this.#lane, 4), 1);
  }

  /** A place in the ring for so many tiles of rows. */
  #tile(operand: Operand, rows: number, count: number): RingRows {
    const tile = new RingRows(this.p, operand, rows, this.#bytes);
    this.#bytes += count * tile.bytes;
    return tile;
  }

  keep(kept: readonly Operand[], row0: E): void {
    this.#kept = kept.map((operand) => this.#tile(operand, this.rows, 1));
    for (const tile of this.#kept) tile.copy(int(tile.at), row0);
  }

  walk({ walked, numbers, from, to }: Walk, body: (turn: Turn) => void): void {
    const { p, columns } = this;
    const tiles = walked.map((operand) => this.#tile(operand, columns, 2));
    const beside = new RingNumbers(p, numbers, columns, this.#bytes);
    this.#bytes += 2 * beside.bytes;
    p.ring(this.#bytes);
    const copy = (first: E, turn: E): void => {
      for (const tile of tiles) tile.copy(p.let(add(tile.at, mul(turn, tile.bytes))), first);
      beside.copy(turn, first);
    };
    copy(from, int(0));
    p.emit({ s: "commit" });
    if (this.#form.holdsRows) this.#holdRows();
    const count = p.let(div(add(sub(to, from), columns - 1), columns));
    p.loop(count, (at) => {
      const first = p.let(add(from, mul(at, columns))), turn = p.let(mod(at, 2));
      this.#arrive();
      p.when(lt(add(first, columns), to), () => copy(add(first, columns), p.let(sub(1, turn))));
      p.emit({ s: "commit" });
      const bases = tiles.map((tile) => p.let(add(tile.at, mul(turn, tile.bytes))));
      body({
        first,
        number: (which, run, k) => beside.number(which, turn, this.#columnOf(run, k)),
        scores: (all) => this.#scores(all, tiles, bases),
        add: (all) => this.#add(all, tiles, bases),
      });
    }, 1);
  }

  /** Waits for what is copied. */
  #arrive(): void {
    this.p.emit({ s: "wait", left: 0, place: RING });
    if (this.#form.byWarpgroups) this.p.emit({ s: "fence" });
  }

  /** Reads the rows that are kept as left operands. */
  #holdRows(): void {
    const { p } = this, { tiles } = this.#form;
    this.#arrive();
    this.#words = this.#kept.map((tile) => {
      const parts = tile.operand.features / ROWS,
        to = p.array("private", 4 * tiles * parts, "word");
      p.loop(
        int(tiles),
        (i) =>
          p.loop(
            int(parts),
            (part) =>
              this.#readRows(to, mul(add(mul(i, parts), part), 4), tile, mul(i, ROWS), part),
            Infinity,
          ),
        Infinity,
      );
      return to;
    });
  }

  /** Reads 16 rows and features of a tile of the warp's rows. */
  #readRows(to: Place, at: E, tile: RingRows, row: E, part: E): void {
    const own = add(this.#warpRow, row, mod(this.#lane, 16));
    this.#read(
      to,
      at,
      tile.place(int(tile.at), own, add(mul(part, 2), div(this.#lane, 16))),
    );
  }

  #read(to: Place, at: E, index: E, transposed = false): void {
    const registers = [0, 1, 2, 3].map((k): Fragment => ({ place: to, index: add(at, k) }));
    const how = transposed ? "columns" : "rows";
    this.p.emit({ s: "matrices", to: registers, place: RING, index, how });
  }

  #scores(all: readonly ScoreProduct[], tiles: readonly RingRows[], bases: readonly E[]): Grid[] {
    const grids = all.map(() => this.#grid(this.columns));
    if (this.#form.byWarpgroups) {
      const products = all.map(({ kept, walked }, k) => ({
        sums: { place: grids[k]!.place, index: int(0) },
        left: int(this.#kept[kept]!.at),
        right: bases[walked]!,
      }));
      this.p.emit({ s: "warpgroup", dtype: this.#form.dtype, place: RING, products });
      return grids;
    }
    all.forEach(({ kept, walked }, k) => {
      this.#multiply(cleared(this.p, grids[k]!), kept, tiles[walked]!, bases[walked]!);
    });
    return grids;
  }

  /** Adds the products of kept rows and rows of a tile, over their features. */
  #multiply(grid: Grid, kept: number, tile: RingRows, base: E): void {
    const { p } = this, parts = tile.operand.features / ROWS, words = this.#words[kept] ?? null;
    const { tiles } = this.#form, lane = this.#lane;
    const own = words ?? p.array("private", 4 * tiles, "word");
    p.loop(int(parts), (part) => {
      if (words === null) {
        p.loop(
          int(tiles),
          (i) => this.#readRows(own, mul(i, 4), this.#kept[kept]!, mul(i, ROWS), part),
          Infinity,
        );
      }
      p.loop(div(grid.runs, 2), (pair) => {
        const row = add(mul(pair, 2 * COLUMNS), mod(lane, 8), mul(div(lane, 16), 8));
        const piece = add(mul(part, 2), mod(div(lane, 8), 2));
        this.#read(this.#right, int(0), tile.place(base, row, piece));
        this.#products(
          grid,
          pair,
          own,
          (i) => mul(words === null ? i : add(mul(i, parts), part), 4),
        );
      }, Infinity);
    }, Infinity);
  }

  /** Adds the products of left operands and two neighbouring right ones. */
  #products(grid: Grid, pair: E, left: Place, at: (tile: E) => E): void {
    this.p.loop(int(this.#form.tiles), (i) => {
      for (const k of [0, 1]) {
        this.p.emit({
          s: "multiply",
          unit: this.#form.dtype === "float16" ? "mma_f16" : "mma_bf16",
          sums: { place: grid.place, index: mul(add(mul(i, grid.runs), mul(pair, 2), k), 4) },
          left: { place: left, index: at(i) },
          right: { place: this.#right, index: int(2 * k) },
        });
      }
    }, Infinity);
  }

  /** Rounds weights of row of instructions `i` and 16 columns to four words. */
  #pack(to: Place, at: E, weights: Grid, i: E, part: E): void {
    for (const word of [0, 1, 2, 3]) {
      const run = add(mul(i, weights.runs), mul(part, 2), word >> 1);
      const [low, high] = [0, 1].map((k) =>
        valueAt(weights, add(mul(run, 4), (word & 1) * 2 + k))
      ) as [E, E];
      this.p.store(to, add(at, word), packed(low, high, this.#form.dtype));
    }
  }

  #add(all: readonly WeightedSum[], tiles: readonly RingRows[], bases: readonly E[]): void {
    if (!this.#form.byWarpgroups) {
      all.forEach((each) => this.#addOne(each, tiles[each.walked]!, bases[each.walked]!));
      return;
    }
    const { p } = this,
      products = all.map(({ sums, weights, walked }) => {
        const parts = weights.runs.value / 2, left = p.array("private", 4 * parts, "word");
        p.loop(
          int(parts),
          (part) => this.#pack(left, mul(part, 4), weights, int(0), part),
          Infinity,
        );
        return {
          sums: { place: sums.place, index: int(0) },
          left: { place: left, index: int(0) },
          right: bases[walked]!,
        };
      });
    p.emit({ s: "warpgroup", dtype: this.#form.dtype, place: RING, products });
  }

  #addOne({ sums, weights }: WeightedSum, tile: RingRows, base: E): void {
    const { p } = this, { tiles } = this.#form, lane = this.#lane;
    const left = p.array("private", 4 * tiles, "word");
    p.loop(div(weights.runs, 2), (part) => {
      p.loop(int(tiles), (i) => this.#pack(left, mul(i, 4), weights, i, part), Infinity);
      p.loop(div(sums.runs, 2), (pair) => {
        const row = add(mul(part, ROWS), mod(lane, 8), mul(mod(div(lane, 8), 2), 8));
        const piece = add(mul(pair, 2), div(lane, 16));
        this.#read(this.#right, int(0), tile.place(base, row, piece), true);
        this.#products(sums, pair, left, (i) => mul(i, 4));
      }, Infinity);
    }, Infinity);
  }

  /** Two neighbours are stored together. */
  store(output: Place, sums: Grid, _columns: number, stored: StoredRows): void {
    const { p } = this, { element } = output;
    for (let row = 0; row < sums.rows; row++) {
      const own = p.let(this.row(row)), index = p.let(stored.index(own));
      const factor = stored.factor(row);
      p.when(stored.isThere(own), () =>
        p.loop(sums.runs, (run) => {
          const [low, high] = [0, 1].map((k) => {
            const sum = valueAt(sums, sums.at(row, run, k));
            return factor === null ? sum : fmul(sum, factor);
          }) as [E, E];
          const at = add(index, sums.column(run, 0));
          if (element === "float32") {
            p.store(output, at, sideBySide([low, high], "float32"));
          } else {
            const words: Place = { ...output, element: "uint32" };
            p.store(words, div(at, 2), packed(low, high, this.#form.dtype));
          }
        }, Infinity));
    }
  }
}
