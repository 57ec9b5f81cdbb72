/**
 * The rows of the left operand that a tile reads, copied into a panel of its thread: for each summed index
 * the elements of six rows side by side. V8 checks each address at run time where the embedder has no trap
 * handler, as in Deno; those of the panel are constants in a private page of memory, which are not checked.
 * That is a quarter of a product's time: 12 multiply-adds need 8 loads, 6 of them from the panel.
 */
import type { FunctionBuilder, Local, Place } from "../assembler.ts";
import { i32, v128 } from "../opcodes.ts";
import { TILE_ROWS } from "./tile_store.ts";

/** Summed indices of a panel: what a tile's unrolled code goes through. */
export const PANEL_SUMS = 128;
/** Those of a panel of long sums, which loops go through: fewer partial sums are added, and drift less. */
export const LONG_PANEL_SUMS = 512;
/** Bytes of a panel for each summed index: six floats, and room to the next multiple of a vector. */
export const SUM_BYTES = 32;
/** Bytes of a thread's panel. */
export const PANEL_BYTES: number = LONG_PANEL_SUMS * SUM_BYTES;

/** Source of rows. */
export interface RowSource {
  /** The address that offsets count from. */
  readonly base: Local;
  /** Offset of each row. */
  readonly rows: readonly Local[];
  readonly sums: SumOffsets;
}

/** Offsets of summed indices: in a table from an address to another one, or at equal steps from 0. */
export type SumOffsets =
  | { readonly begin: Local; readonly end: Local }
  | { readonly step: Local; readonly count: Local };

/** The offsets of so many rows in a table. */
export function rowOffsets(f: FunctionBuilder, table: Local, count: number): Local[] {
  return Array.from({ length: count }, (_, r) => f.loadNumber(i32.load, table, 4 * r));
}

/** Writes the code that fills a panel, and that reads it. */
export class RowPanel {
  readonly #f: FunctionBuilder;
  /** Address of the panel in the shared memory; null: in the private page. */
  readonly #base: Local | null;
  readonly #sumsAreInFours: boolean;

  constructor(f: FunctionBuilder, base: Local | null, sumsAreInFours: boolean) {
    this.#f = f;
    this.#base = base;
    this.#sumsAreInFours = sumsAreInFours;
  }

  /** An element of the panel by constants: a summed index and a row, in all lanes. */
  element(sum: number, row: number): Local {
    const offset = SUM_BYTES * sum + 4 * row;
    if (this.#base === null) return this.#f.loadFixed(v128.loadSplat, offset);
    return this.#f.load(v128.loadSplat, this.#base, offset);
  }

  /** A pointer to a summed index that is counted at run time. */
  pointer(sum: Local): Local {
    const f = this.#f, bytes = f.iWith(i32.mul, sum, SUM_BYTES);
    return this.#base === null ? bytes : f.i(i32.add, this.#base, bytes);
  }

  /** The element of a row at a pointer, in all lanes. */
  elementAt(pointer: Local, row: number): Local {
    return this.#f.loadFrom(v128.loadSplat, this.#place(pointer, 4 * row));
  }

  /** Moves a pointer to the next summed index. */
  advance(pointer: Local): void {
    this.#f.step(pointer, SUM_BYTES);
  }

  #place(address: Local, offset: number): Place {
    return { address, offset, isPrivate: this.#base === null };
  }

  /** Copies rows. */
  fill(source: RowSource): void {
    const f = this.#f, to = f.number(), { rows } = source;
    f.assign(to, this.#base ?? f.integer(0));
    if (this.#sumsAreInFours) return this.#fillTransposed(source, to);
    if (rows.length < TILE_ROWS - 1) return this.#fillEach(source, to);
    f.branch(
      this.#areContiguous(rows),
      () => this.#fillSideBySide(source, to),
      () => this.#fillEach(source, to),
    );
  }

  /** Copies rows that lie as they do in a panel, of so many summed indices. */
  copy(from: Local, count: Local): void {
    const f = this.#f, to = this.#base ?? f.integer(0);
    f.copyBytes(to, from, f.iWith(i32.mul, count, SUM_BYTES), this.#base === null);
  }

  /** 1 where rows lie side by side. */
  #areContiguous(offsets: readonly Local[]): Local {
    const f = this.#f;
    return offsets.slice(1)
      .map((offset, r) => f.iWith(i32.eq, f.i(i32.sub, offset, offsets[0]!), 4 * (r + 1)))
      .reduce((all, test) => f.i(i32.and, all, test));
  }

  /** For every `count` summed indices from one on `body`, with the offset of the first. */
  #eachSum(
    sums: SumOffsets,
    at: Local,
    to: Local,
    body: (offset: Local) => void,
    count = 1,
  ): void {
    const f = this.#f, isTable = "end" in sums;
    const apart = (n: number): Local =>
      isTable ? f.integer(4 * n) : n === 1 ? sums.step : f.iWith(i32.mul, sums.step, n);
    const end = isTable ? sums.end : f.i(i32.mul, sums.step, sums.count);
    const last = count === 1 ? end : f.i(i32.sub, end, apart(count - 1)), next = apart(count);
    f.whileLess(at, last, () => {
      body(isTable ? f.loadNumber(i32.load, at) : at);
      f.assign(at, f.i(i32.add, at, next));
      f.step(to, SUM_BYTES * count);
    }, isTable ? i32.ltU : i32.ltS);
  }

  #first(sums: SumOffsets): Local {
    return this.#f.copy("end" in sums ? sums.begin : this.#f.integer(0));
  }

  #fillSideBySide({ base, rows, sums }: RowSource, to: Local): void {
    const f = this.#f, start = f.i(i32.add, base, rows[0]!);
    // Nothing is read behind the last row, where memory may end.
    const [load, store] = rows.length === TILE_ROWS
      ? [v128.load64Zero, v128.store64Lane]
      : [v128.load32Zero, v128.store32Lane];
    this.#eachSum(sums, this.#first(sums), to, (offset) => {
      const from = f.i(i32.add, start, offset);
      f.storeTo(v128.store, this.#place(to, 0), f.load(v128.load, from));
      f.storeTo(store, this.#place(to, 16), f.load(load, from, 16), 0);
    });
  }

  #fillEach({ base, rows, sums }: RowSource, to: Local): void {
    const f = this.#f, bases = rows.map((offset) => f.i(i32.add, base, offset));
    this.#eachSum(sums, this.#first(sums), to, (offset) => {
      for (let r = 0; r < bases.length; r += 4) {
        const row = bases.slice(r, r + 4).map((base) => f.i(i32.add, base, offset));
        this.#storeLanes(to, r, f.gather(row), row.length);
      }
    });
  }

  /** Stores the elements of rows `r` to `r + count - 1`, which are in the first lanes. */
  #storeLanes(to: Local, r: number, vector: Local, count: number, offset = 0): void {
    const f = this.#f, place = this.#place(to, offset + 4 * r);
    if (count > 2) f.storeTo(v128.store, place, vector);
    else f.storeTo(count === 2 ? v128.store64Lane : v128.store32Lane, place, vector, 0);
  }

  /** Rows of which every four summed indices lie side by side: those are transposed. */
  #fillTransposed({ base, rows: offsets, sums }: RowSource, to: Local): void {
    const f = this.#f, bases = offsets.map((offset) => f.i(i32.add, base, offset));
    const at = this.#first(sums);
    for (const count of [4, 1]) {
      this.#eachSum(sums, at, to, (offset) => {
        const rows = bases.map((row) => f.i(i32.add, row, offset));
        for (let r = 0; r < rows.length; r += 4) {
          const group = rows.slice(r, r + 4);
          this.#turn(group, count).forEach((column, k) =>
            this.#storeLanes(to, r, column, group.length, SUM_BYTES * k)
          );
        }
      }, count);
    }
  }

  /** Columns of up to four rows: of the next four elements of each, or of the next one. */
  #turn(rows: readonly Local[], sums: number): Local[] {
    const f = this.#f;
    if (sums === 1) return [f.gather(rows)];
    const loaded = rows.map((row) => f.load(v128.load, row));
    const row = (r: number): Local => loaded[r] ?? loaded[0]!;
    return f.transpose([0, 1, 2, 3].map(row));
  }
}
