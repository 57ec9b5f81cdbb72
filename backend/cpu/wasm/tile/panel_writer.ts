/**
 * Statements about panels in WebAssembly. V8 checks each address at run time where the embedder has no trap
 * handler, as in Deno; those of a panel are constants in a private page of memory, which are not checked.
 * That is a quarter of a product's time: 12 multiply-adds need 8 loads, 6 of them from the panel.
 */
import { PANEL_ROWS } from "../../../tile/language/statements.ts";
import type { FunctionBuilder, Local, Place } from "../assembler.ts";
import type { VectorMath } from "../math.ts";
import { i32, v128 } from "../opcodes.ts";

/** Bytes of a term. */
const TERM_BYTES = 4 * PANEL_ROWS;
/** Terms after which the unrolled code of a tile may end, and the shift that divides by them. */
const PIECE_TERMS = 16, PIECE_SHIFT = 4;

/** Steps from term to term: bytes, or the address of a table of elements. */
export type TermSteps = { readonly step: Local } | { readonly table: Local };

/** Rows that are copied to a panel. */
export interface Filling {
  /** Their addresses. */
  readonly rows: readonly Local[];
  /** They are known to lie side by side. */
  readonly areSideBySide: boolean;
  readonly terms: TermSteps;
  /** Every four terms of a row lie side by side. */
  readonly areInFours: boolean;
  /** Rows and terms lie as they do in a panel. */
  readonly isPanel: boolean;
  readonly count: Local;
}

/** Vectors of the right operand from an address on. */
export interface Columns {
  readonly at: Local;
  readonly terms: TermSteps;
}

/** Panel, and term that is written. */
interface Walk {
  readonly to: Local;
  /** Offset of the next term, or the address of its entry. */
  readonly at: Local;
  readonly terms: TermSteps;
}

/** Fills a panel, and multiplies by it. */
export class PanelWriter {
  readonly #f: FunctionBuilder;
  readonly #math: VectorMath;
  /** Address of the panel in the shared memory; null: it is the private page. */
  readonly #base: Local | null;

  constructor(f: FunctionBuilder, math: VectorMath, base: Local | null) {
    this.#f = f;
    this.#math = math;
    this.#base = base;
  }

  /** Copies rows. */
  fill({ rows, areSideBySide, terms, areInFours, isPanel, count }: Filling): void {
    const f = this.#f, begin = this.#base ?? f.integer(0);
    const bytesOf = (terms: Local): Local => f.iWith(i32.mul, terms, TERM_BYTES);
    if (isPanel) return f.copyBytes(begin, rows[0]!, bytesOf(count), this.#base === null);
    const at = f.copy("table" in terms ? terms.table : f.integer(0));
    const walk = { to: f.copy(begin), at, terms };
    const end = f.i(i32.add, begin, bytesOf(count));
    const each = (): void => this.#fillEach(walk, rows, end);
    const rest = rests.get(rows.length - 4);
    if (areInFours) this.#fillTransposed(walk, rows, count, end);
    else if (rest === undefined) each();
    else {
      const sideBySide = (): void => this.#fillSideBySide(walk, rows[0]!, rest, end);
      if (areSideBySide) sideBySide();
      else f.branch(this.#areContiguous(rows), sideBySide, each);
    }
  }

  /** Adds products to sums, of which each row has some vectors; so many terms have code of their own. */
  multiply(sums: Local[][], columns: Columns, count: Local, unrolled: number): void {
    const f = this.#f, vectors = sums[0]!.length, next = this.#columns(columns, vectors);
    const step = (element: (row: number) => Local): void => {
      const vectors = next();
      sums.forEach((row, r) => {
        const x = element(r);
        vectors.forEach((y, v) => f.assign(row[v]!, this.#math.madd(x, y, row[v]!)));
      });
    };
    const done = unrolled > 0
      ? this.#unrolled(unrolled, count, (term) => step((row) => this.#element(term, row)))
      : f.integer(0);
    const at = f.copy(this.#pointer(done));
    f.whileLess(at, this.#pointer(count), () => {
      step((row) => f.loadFrom(v128.loadSplat, this.#place(at, 4 * row)));
      f.step(at, TERM_BYTES);
    }, i32.ltU);
  }

  /** The vectors of one term after another. */
  #columns({ at, terms }: Columns, vectors: number): () => Local[] {
    const f = this.#f, own = f.copy("table" in terms ? terms.table : at);
    return () => {
      const address = "table" in terms ? f.i(i32.add, at, this.#offset(own)) : own;
      const loaded = Array.from(
        { length: vectors },
        (_, v) => f.load(v128.load, address, 16 * v),
      );
      this.#advance(own, terms, 1);
      return loaded;
    };
  }

  /** Runs as many pieces of the terms as there are, and have code; gives back how many terms that was. */
  #unrolled(most: number, count: Local, step: (term: number) => void): Local {
    const f = this.#f, written = Math.ceil(most / PIECE_TERMS);
    const pieces = f.smaller(f.iWith(i32.shrU, count, PIECE_SHIFT), f.integer(written));
    const left = f.copy(pieces);
    f.leavable((leaveIfZero) => {
      for (let term = 0; term < written * PIECE_TERMS; term++) {
        if (term % PIECE_TERMS === 0) {
          leaveIfZero(left);
          f.step(left, -1);
        }
        step(term);
      }
    });
    return f.iWith(i32.shl, pieces, PIECE_SHIFT);
  }

  /** An element of the panel by constants, in all lanes. */
  #element(term: number, row: number): Local {
    const f = this.#f, offset = TERM_BYTES * term + 4 * row;
    if (this.#base === null) return f.loadFixed(v128.loadSplat, offset);
    return f.load(v128.loadSplat, this.#base, offset);
  }

  /** A pointer to a term that is counted at run time. */
  #pointer(term: Local): Local {
    const f = this.#f, bytes = f.iWith(i32.mul, term, TERM_BYTES);
    return this.#base === null ? bytes : f.i(i32.add, this.#base, bytes);
  }

  #place(address: Local, offset: number): Place {
    return { address, offset, isPrivate: this.#base === null };
  }

  /** The offset that an entry of a table says. */
  #offset(entry: Local): Local {
    return this.#f.iWith(i32.shl, this.#f.loadNumber(i32.load, entry), 2);
  }

  #advance(at: Local, terms: TermSteps, count: number): void {
    const f = this.#f;
    if ("table" in terms) f.step(at, 4 * count);
    else {
      const step = count === 1 ? terms.step : f.iWith(i32.mul, terms.step, count);
      f.assign(at, f.i(i32.add, at, step));
    }
  }

  /** For every `count` terms up to an end `body`, with the offset of the first. */
  #eachTerm({ to, at, terms }: Walk, end: Local, count: number, body: (offset: Local) => void) {
    const f = this.#f;
    f.whileLess(to, end, () => {
      body("table" in terms ? this.#offset(at) : at);
      this.#advance(at, terms, count);
      f.step(to, TERM_BYTES * count);
    }, i32.ltU);
  }

  /** 1 where rows lie side by side. */
  #areContiguous(rows: readonly Local[]): Local {
    const f = this.#f;
    return rows.slice(1)
      .map((row, r) => f.iWith(i32.eq, f.i(i32.sub, row, rows[0]!), 4 * (r + 1)))
      .reduce((all, test) => f.i(i32.and, all, test));
  }

  #fillSideBySide(walk: Walk, start: Local, [load, store, lane]: Rest, end: Local): void {
    const f = this.#f;
    this.#eachTerm(walk, end, 1, (offset) => {
      const from = f.i(i32.add, start, offset);
      f.storeTo(v128.store, this.#place(walk.to, 0), f.load(v128.load, from));
      f.storeTo(store, this.#place(walk.to, 16), f.load(load, from, 16), lane);
    });
  }

  #fillEach(walk: Walk, rows: readonly Local[], end: Local): void {
    const f = this.#f;
    this.#eachTerm(walk, end, 1, (offset) => {
      for (let r = 0; r < rows.length; r += 4) {
        const row = rows.slice(r, r + 4).map((base) => f.i(i32.add, base, offset));
        this.#storeLanes(walk.to, 4 * r, f.gather(row), row.length);
      }
    });
  }

  /** Stores the elements of some rows, which are in the first lanes, or in those of another part of a vector. */
  #storeLanes(to: Local, offset: number, vector: Local, count: number, lane = 0): void {
    const f = this.#f, place = this.#place(to, offset);
    if (count > 2) f.storeTo(v128.store, place, vector);
    else f.storeTo(count === 2 ? v128.store64Lane : v128.store32Lane, place, vector, lane);
  }

  /** Rows of which every four terms lie side by side: those are transposed. */
  #fillTransposed(walk: Walk, bases: readonly Local[], terms: Local, end: Local): void {
    const f = this.#f, rest = f.iWith(i32.mul, f.iWith(i32.and, terms, 3), TERM_BYTES);
    for (const count of [4, 1]) {
      this.#eachTerm(walk, count === 1 ? end : f.i(i32.sub, end, rest), count, (offset) => {
        const rows = bases.map((row) => f.i(i32.add, row, offset));
        for (let r = 0; r < rows.length; r += 4) {
          const group = rows.slice(r, r + 4);
          this.#turn(group, count).forEach(({ vector, lane }, k) =>
            this.#storeLanes(walk.to, 4 * r + TERM_BYTES * k, vector, group.length, lane)
          );
        }
      });
    }
  }

  /** Columns of up to four rows, and where they begin in vectors: of the next four elements of each, or of one. */
  #turn(rows: readonly Local[], terms: number): { vector: Local; lane: number }[] {
    const f = this.#f, whole = (vector: Local) => ({ vector, lane: 0 });
    if (terms === 1) return [whole(f.gather(rows))];
    const loaded = rows.map((row) => f.load(v128.load, row)), [a, b] = loaded as [Local, Local];
    if (rows.length === 1) return [0, 1, 2, 3].map((lane) => ({ vector: a, lane }));
    if (rows.length > 2) return f.transpose([0, 1, 2, 3].map((r) => loaded[r] ?? a)).map(whole);
    return [[0, 4, 1, 5], [2, 6, 3, 7]].flatMap((lanes) => {
      const vector = f.shuffle32(a, b, lanes);
      return [0, 1].map((lane) => ({ vector, lane }));
    });
  }
}

/** Instructions for the rows behind four that lie side by side. */
type Rest = readonly [load: number, store: number, lane?: number];

/** Nothing is read behind the last row, where memory may end. */
const rests: ReadonlyMap<number, Rest> = new Map<number, Rest>([
  [1, [v128.load32Zero, v128.store32Lane, 0]],
  [2, [v128.load64Zero, v128.store64Lane, 0]],
  [4, [v128.load, v128.store]],
]);
