/** Statements about whole blocks in WebAssembly: squares that are transposed, rows that are packed. */
import type { FunctionBuilder, Local } from "../assembler.ts";
import { i32, v128 } from "../opcodes.ts";

/** Bytes of a side of the squares that are transposed. */
const SQUARE_BYTES = 64;

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

  constructor(f: FunctionBuilder) {
    this.#f = f;
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
