/** Statements about whole blocks in WebAssembly: products, squares that are transposed, rows that are packed. */
import type { FunctionBuilder, Local } from "../assembler.ts";
import type { VectorMath } from "../math.ts";
import { i32, v128 } from "../opcodes.ts";
import { RowPanel } from "../products/row_panel.ts";
import { TILE_VECTORS } from "../products/tile_store.ts";
import { PIECE_SUMS, TileProducts } from "../products/tile_sums.ts";

/** Tiles of so few rows have more vectors, as far as columns can be divided. */
export const NARROW_ROWS = 3;
const NARROW_VECTORS = 4;
/** Bytes of a side of the squares that are transposed. */
const SQUARE_BYTES = 64;

/** A product of blocks: addresses, bytes, counts; see the statement of the language. */
export interface Blocks {
  readonly left: Local;
  readonly rowBytes: Local;
  readonly termBytes: Local;
  /** Terms of a row lie side by side. */
  readonly isRow: boolean;
  /** Rows and terms lie as they do in a panel; there are no more rows than in one step. */
  readonly isPanel: boolean;
  readonly right: Local;
  readonly into: Local;
  readonly pitchBytes: Local;
  readonly columnBytes: Local;
  /** Columns, where their number is known. */
  readonly columns: number | null;
  readonly rows: Local;
  readonly step: number;
  readonly terms: Local;
  readonly maxTerms: number;
  /** Terms that are added up before they are stored. */
  readonly turn: number;
  readonly isAdded: boolean;
  /** Room for rows in the shared memory; null: in the private page. */
  readonly panel: Local | null;
}

/** A square of floats that is transposed: addresses of its rows and of what these become, and how far apart they are. */
export interface Square {
  readonly from: Local;
  readonly rowBytes: Local;
  readonly to: Local;
  readonly columnBytes: Local;
}

/** A row that is packed: numbers of elements from `first` to before `end`, of which the first lies at `source`. */
export interface PackedRow {
  readonly to: Local;
  readonly source: Local;
  readonly first: Local;
  readonly end: Local;
  /** Elements of each part, and parts. */
  readonly count: number;
  readonly parts: number;
}

/** Writes them. */
export class BlockWriter {
  readonly #f: FunctionBuilder;
  readonly #math: VectorMath;

  constructor(f: FunctionBuilder, math: VectorMath) {
    this.#f = f;
    this.#math = math;
  }

  /** Multiplies by tiles of a panel, as matrices are. */
  product({ left, right, into, terms, step, isAdded, ...s }: Blocks): void {
    const f = this.#f, none = f.integer(0), width = s.pitchBytes;
    const panel = new RowPanel(f, s.panel, s.isRow);
    const isNarrow = step <= NARROW_ROWS && s.columns !== null &&
      s.columns % (4 * NARROW_VECTORS) === 0;
    const vectors = isNarrow ? NARROW_VECTORS : TILE_VECTORS;
    const products = new TileProducts(f, this.#math, panel, { rows: step, vectors });
    const last = f.iWith(i32.add, s.rows, -1);
    const most = Math.min(s.turn, Math.ceil(s.maxTerms / PIECE_SUMS) * PIECE_SUMS);
    f.loop(none, s.rows, step, (row) => {
      const rows = Array.from(
        { length: step },
        (_, r) => f.i(i32.mul, f.smaller(f.iWith(i32.add, row, r), last), s.rowBytes),
      );
      const place = f.i(i32.add, into, f.i(i32.mul, row, width));
      f.loop(none, terms, s.turn, (sum) => {
        const count = f.smaller(f.i(i32.sub, terms, sum), f.integer(s.turn));
        const base = f.i(i32.add, left, f.i(i32.mul, sum, s.termBytes));
        if (s.isPanel) panel.copy(base, count);
        else panel.fill({ base, rows, sums: { step: s.termBytes, count } });
        const first = f.i(i32.add, right, f.i(i32.mul, sum, width));
        f.loop(none, s.columnBytes, 16 * vectors, (column) => {
          const walk = products.columns(f.i(i32.add, first, column), width);
          const sums = products.sums(walk, count, true, most);
          products.keep(f.i(i32.add, place, column), width, sums, isAdded ? f.integer(1) : sum);
        });
      });
    });
  }

  /** Turns a square of 16 by 16 floats, four rows of four at a time. */
  transpose({ from, rowBytes, to, columnBytes }: Square): void {
    const f = this.#f, first = f.integer(0), side = f.integer(SQUARE_BYTES);
    const row = f.copy(from), column = f.copy(to);
    const next = (at: Local, by: Local): Local => f.i(i32.add, at, by);
    f.loop(first, side, 16, () => {
      const rows = [row];
      for (let k = 0; k < 3; k++) rows.push(next(rows[k]!, rowBytes));
      const to = f.copy(column);
      f.loop(first, side, 16, (c) => {
        const square = rows.map((row) => f.load(v128.load, next(row, c)));
        for (const turned of f.transpose(square)) {
          f.store(v128.store, to, turned);
          f.assign(to, next(to, columnBytes));
        }
      });
      f.assign(row, next(rows[3]!, rowBytes));
      f.step(column, 16);
    });
  }

  /** Zeros, the elements that there are, and zeros over what their last vector has beyond them. */
  pack({ to, source, first, end, count, parts }: PackedRow): void {
    const f = this.#f, bytes = 4 * count;
    // Elements `first` to `end` of every `parts`-th from `part` on.
    const places = Array.from({ length: parts }, (_, part) => {
      const row = f.iWith(i32.add, to, bytes * part);
      const placeOf = (n: Local): Local => {
        const before = parts === 1 ? n : f.iWith(i32.shrU, f.iWith(i32.add, n, 1 - part), 1);
        return f.i(i32.add, row, f.iWith(i32.shl, before, 2));
      };
      return { row, begin: placeOf(first), end: placeOf(end), next: f.iWith(i32.add, row, bytes) };
    });
    for (const { row, begin } of places) {
      this.#vectors(row, begin, (at) => f.store(v128.store, at, f.splat(0)));
    }
    if (parts === 1) this.#copy(source, places[0]!.begin, places[0]!.end);
    else {
      const [even, odd] = places as [typeof places[0], typeof places[0]];
      f.branch(
        f.iWith(i32.and, first, 1),
        () => this.#halve(source, odd.begin, odd.end, even.begin),
        () => this.#halve(source, even.begin, even.end, odd.begin),
      );
    }
    for (const { end, next } of places) this.#clear(end, next);
  }

  #copy(source: Local, begin: Local, end: Local): void {
    const f = this.#f, from = f.copy(source);
    this.#vectors(begin, end, (at) => {
      f.store(v128.store, at, f.load(v128.load, from));
      f.step(from, 16);
    });
  }

  /** Every second element from the first on, and the others. */
  #halve(source: Local, begin: Local, end: Local, others: Local): void {
    const f = this.#f, from = f.copy(source), next = f.copy(others);
    this.#vectors(begin, end, (at) => {
      const [a, b] = [f.load(v128.load, from), f.load(v128.load, from, 16)];
      f.store(v128.store, at, f.shuffle32(a, b, [0, 2, 4, 6]));
      f.store(v128.store, next, f.shuffle32(a, b, [1, 3, 5, 7]));
      f.step(next, 16);
      f.step(from, 32);
    });
  }

  /** Zeros: the last vector ends with them where they fill one, since a row's other part may follow. */
  #clear(begin: Local, end: Local): void {
    const f = this.#f, last = f.iWith(i32.add, end, -16);
    this.#vectors(begin, last, (at) => f.store(v128.store, at, f.splat(0)));
    f.branch(
      f.i(i32.ltU, begin, end),
      () => f.store(v128.store, f.larger(begin, last), f.splat(0)),
    );
  }

  #vectors(begin: Local, end: Local, body: (at: Local) => void): void {
    const f = this.#f, at = f.copy(begin);
    f.whileLess(at, end, () => {
      body(at);
      f.step(at, 16);
    }, i32.ltU);
  }
}
