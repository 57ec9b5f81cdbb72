/**
 * Products of matrices in tiles of 6 by 8 sums. An element of the left operand lies at the sum of two places that
 * tables give, one of its row and one of its term, so windows of images are read where they are; the rows of
 * a tile are copied to a panel, for all tiles beside it. Of the right operand eight columns lie side by side.
 */
import { held } from "../../language/elements.ts";
import {
  add,
  div,
  divideBy,
  type E,
  int,
  lanes,
  min,
  mul,
  type Place,
  sub,
  withExpressions,
} from "../../language/expression.ts";
import { PANEL_ROWS, type TileKernel } from "../../language/statements.ts";
import { all, fadd, lane, load, lt } from "../../language/values.ts";
import { Numbered, VECTOR } from "./numbered.ts";
import {
  every,
  PANEL_TERMS,
  storeOrAdd,
  storeRow,
  TILE_ROWS,
  TILE_VECTORS,
  tileOf,
} from "./panel_product.ts";

/** Columns of a tile. */
export const TILE_COLUMNS: number = VECTOR * TILE_VECTORS;
/** Terms of a panel of long sums, which loops go through: fewer partial sums are added, and drift less. */
const LONG_PANEL_TERMS = 512;
/** Those that a panel has room for else, and so many that the last of them are not worth a panel of their own. */
const MAX_PANEL_TERMS = 128, MAX_SHORT_TERMS = 96;

/** Side-by-side axis of the result: the columns, the rows of each tile, or neither. */
export type ContiguousAxis = "columns" | "rows" | "nothing";

/** Facts of a product that its program depends on. */
export interface MatrixForm {
  /** Every four of the left operand's terms lie side by side. */
  readonly isInFours: boolean;
  readonly contiguousAxis: ContiguousAxis;
  /** The right operand's terms lie where a table says: windows of images. */
  readonly hasTermTable: boolean;
  /** So many terms are added up that panels are long, too. */
  readonly isLong: boolean;
  /** Rows of a tile: fewer than {@linkcode TILE_ROWS} where the matrix has no more. */
  readonly rows: number;
}

/** Terms of a panel of a product of `k`; few rows have no unrolled code. */
export function panelTermsOf({ rows, isLong }: MatrixForm, k: number): number {
  if (isLong) return LONG_PANEL_TERMS;
  return rows < TILE_ROWS || k <= MAX_SHORT_TERMS ? MAX_PANEL_TERMS : PANEL_TERMS;
}

/** A tile: where its product begins in the result, its first row, column and term, its sums. */
interface Tile {
  readonly base: E;
  readonly row: E;
  /** Rows that there are from that one on. */
  readonly rowsLeft: E;
  readonly column: E;
  readonly term: E;
  readonly sums: readonly (readonly E[])[];
}

/** A block of rows and panels of one product of a batch a work-item. */
export const matrixProduct = (form: MatrixForm): TileKernel =>
  withExpressions(() => new MatrixProduct(form).write());

class MatrixProduct extends Numbered {
  readonly #form: MatrixForm;
  readonly #panel: Place;
  /** A tile of which only a part is stored. */
  readonly #part: Place;
  readonly #result: Place = this.output(0);

  constructor(form: MatrixForm) {
    super(2);
    this.#form = form;
    const terms = form.isLong ? LONG_PANEL_TERMS : MAX_PANEL_TERMS;
    this.#panel = this.p.array("private", terms * PANEL_ROWS, "float");
    this.#part = this.p.array("local", TILE_ROWS * TILE_COLUMNS, "float");
  }

  write(): TileKernel {
    const { p } = this, [m, n, k] = ["m", "n", "k"].map((name) => this.number(name)) as [E, E, E];
    const [rest, panelBlock] = divideBy(p.group, this.number("panelBlocks"));
    const [batch, rowBlock] = divideBy(rest, this.number("rowBlocks")).map((e) => p.let(e));
    const base = (side: string): E => p.let(this.entry(`${side}Batch`, batch!));
    const [a, b, c] = [base("a"), base("b"), base("c")] as const;
    const part = (block: E, size: string, all: E): { first: E; count: E } => {
      const first = p.let(mul(block, this.number(size)));
      return { first, count: p.let(min(sub(all, first), this.number(size))) };
    };
    const rows = part(rowBlock!, "blockRows", m);
    const panels = part(
      panelBlock,
      "blockPanels",
      divideBy(add(n, TILE_COLUMNS - 1), int(TILE_COLUMNS))[0],
    );
    const most = this.number("panelTerms"), { hasTermTable } = this.#form;
    every(p, k, most, (term) => {
      const count = p.let(min(sub(k, term), most));
      const right = hasTermTable ? b : p.let(add(b, mul(term, this.step("bStep"))));
      every(p, rows.count, TILE_ROWS, (turn) => {
        const row = p.let(add(rows.first, turn)), rowsLeft = p.let(sub(m, row));
        this.#fill(a, row, term, count);
        p.loop(panels.count, (turn) => {
          const panel = p.let(add(panels.first, turn)), column = p.let(mul(panel, TILE_COLUMNS));
          const sums = this.#sums(right, panel, term, count);
          this.#store({ base: c, row, rowsLeft, column, term, sums });
        }, 1);
      });
    });
    return p.finish("product of matrices", 1);
  }

  #eachRow<T>(of: (r: number) => T): T[] {
    return Array.from({ length: this.#form.rows }, (_, r) => of(r));
  }

  /** Copies the rows of tiles; those behind the last one are that one again, and are not stored. */
  #fill(a: E, row: E, term: E, count: E): void {
    const { p } = this, { isInFours: areInFours } = this.#form;
    p.emit({
      ...{ s: "fill", panel: this.#panel, index: int(0), from: this.input(0), count },
      rows: this.#eachRow((r) => p.let(add(a, this.entry("aRows", add(row, r))))),
      terms: { ...this.table("aTerms", term), areInFours },
    });
  }

  /** The sums of a tile; `right` is where the first of its terms begin in the right operand. */
  #sums(right: E, panel: E, term: E, count: E): E[][] {
    const { p } = this, { rows, isLong, hasTermTable } = this.#form;
    const sums = tileOf(p, rows, TILE_VECTORS);
    p.emit({
      ...{ s: "sums", to: sums, panel: this.#panel, right: this.input(1), count },
      at: p.let(add(right, this.entry("bPanels", panel))),
      terms: hasTermTable ? this.table("bTerms", term) : { step: this.step("bStep") },
      // Few rows are not used often enough to be worth the code.
      unrolled: rows === TILE_ROWS && !isLong ? PANEL_TERMS : 0,
    });
    return sums;
  }

  /** Stores the part of a tile that there is; from the second panel of terms on it is added. */
  #store(tile: Tile): void {
    const { p } = this,
      { contiguousAxis, rows } = this.#form,
      { rowsLeft, column, term, sums } = tile;
    const columnsLeft = p.let(sub(this.number("n"), column));
    const isWhole = all([lt(TILE_COLUMNS - 1, columnsLeft), lt(rows - 1, rowsLeft)]);
    const whole = contiguousAxis === "columns"
      ? (adds: boolean) => this.#storeRows(tile, adds)
      : contiguousAxis === "rows" && rows >= VECTOR
      ? (adds: boolean) => this.#storeColumns(tile, adds)
      : (adds: boolean) => this.#storeEach(tile, adds);
    p.either(isWhole, () => storeOrAdd(p, term, whole), () => {
      sums.forEach((row, r) => storeRow(p, this.#part, int(r * TILE_COLUMNS), row, false));
      const part = {
        rows: p.let(min(rowsLeft, rows)),
        columns: p.let(min(columnsLeft, TILE_COLUMNS)),
      };
      storeOrAdd(p, term, (adds) => this.#storePart(tile, part, adds));
    });
  }

  /** Places of columns relative to a row. */
  #columns(column: E): E[] {
    const { p } = this;
    return Array.from(
      { length: TILE_COLUMNS },
      (_, k) => p.let(this.entry("cColumns", add(column, k))),
    );
  }

  /** The place of a row. It is looked up for each tile: kept beside the sums, six took a fifth of small products' time. */
  #rowOf({ base, row }: Tile, r: number): E {
    return this.p.let(add(base, this.entry("cRows", add(row, r))));
  }

  /** Rows of columns that lie side by side. */
  #storeRows(tile: Tile, adds: boolean): void {
    const { p } = this, first = p.let(this.entry("cColumns", tile.column));
    tile.sums.forEach((sums, r) =>
      storeRow(p, this.#result, p.let(add(this.#rowOf(tile, r), first)), sums, adds)
    );
  }

  /** Columns whose rows lie side by side. Those of the last vector may be of the one before, too. */
  #storeColumns(tile: Tile, adds: boolean): void {
    const { p } = this, { sums } = tile, last = sums.length - VECTOR;
    const starts = last === 0 ? [0] : [0, last], row = this.#rowOf(tile, 0);
    const parts = starts.map((start) =>
      Array.from(
        { length: TILE_VECTORS },
        (_, v) => this.transposed(sums.slice(start, start + VECTOR).map((row) => row[v]!)),
      ).flat()
    );
    this.#columns(tile.column).forEach((place, k) => {
      const at = p.let(add(row, place));
      const values = parts.map((part, n) => {
        const before = load(this.#result, add(at, starts[n]!, lanes(VECTOR)));
        return adds ? p.let(fadd(before, part[k]!)) : part[k]!;
      });
      values.forEach((value, n) => p.store(this.#result, add(at, starts[n]!), value));
    });
  }

  #storeEach(tile: Tile, adds: boolean): void {
    const columns = this.#columns(tile.column);
    tile.sums.forEach((sums, r) => {
      const row = this.#rowOf(tile, r);
      columns.forEach((place, k) =>
        this.#put(add(row, place), lane(sums[Math.floor(k / VECTOR)]!, k % VECTOR), adds)
      );
    });
  }

  #put(at: E, value: E, adds: boolean): void {
    this.p.store(this.#result, at, adds ? fadd(held(this.#result, at, "float"), value) : value);
  }

  /** Stores some rows and columns of a tile that was kept in memory. */
  #storePart({ base, row, column }: Tile, part: { rows: E; columns: E }, adds: boolean): void {
    const { p } = this, areColumns = this.#form.contiguousAxis === "columns";
    const vectors = p.let(areColumns ? div(part.columns, VECTOR) : int(0));
    const done = p.let(mul(vectors, VECTOR)), rest = p.let(sub(part.columns, done));
    p.loop(part.rows, (r) => {
      const begin = p.let(add(base, this.entry("cRows", add(row, r)))), from = mul(r, TILE_COLUMNS);
      const placeOf = (k: E): E => p.let(add(begin, this.entry("cColumns", add(column, k))));
      p.loop(vectors, (turn) => {
        const k = p.let(mul(turn, VECTOR)), sums = load(this.#part, add(from, k, lanes(VECTOR)));
        storeRow(p, this.#result, placeOf(k), [sums], adds);
      }, 1);
      p.loop(rest, (turn) => {
        const k = p.let(add(done, turn));
        this.#put(placeOf(k), held(this.#part, add(from, k), "float"), adds);
      }, 1);
    }, 1);
  }
}

/** A panel of columns a work-item: those of all matrices of a batch are copied one behind the other. */
export const packedPanels = (areInFours: boolean): TileKernel =>
  withExpressions(() => {
    const f = new Numbered(1), { p } = f, [n, k] = [f.number("n"), f.number("k")];
    const [matrix, panel] = divideBy(p.group, f.number("panels"));
    const from = p.let(f.entry("batch", matrix)), first = p.let(mul(panel, TILE_COLUMNS));
    // Behind the last column that is taken again.
    const rows = Array.from({ length: TILE_COLUMNS }, (_, column) =>
      p.let(add(from, f.entry("columns", min(add(first, column), sub(n, 1))))));
    p.emit({
      ...{ s: "fill", panel: f.output(0), from: f.input(0), rows, count: k },
      index: p.let(mul(mul(p.group, k), PANEL_ROWS)),
      terms: { ...f.table("terms", 0), areInFours },
    });
    return p.finish("panels of columns", 1);
  });
