/** Tables of places that a program reads: one block of memory. */
import type { GemmHost } from "../../blas/gemm_runner.ts";
import { arrayOf, type HostBlock } from "../../script/runner.ts";
import { floatsOf } from "../tile/tile_call.ts";

/** Words of a line of the caches. */
const LINE_WORDS = 16;

/** Tables, one behind the other. */
export class Tables {
  readonly #words: Int32Array;
  /** Beginning of each. */
  readonly begins: Readonly<Record<string, number>>;

  constructor(tables: Readonly<Record<string, Int32Array>>) {
    const all = Object.values(tables), begins: Record<string, number> = {};
    this.#words = new Int32Array(all.reduce((sum, { length }) => sum + length, 0));
    let begin = 0;
    for (const [name, table] of Object.entries(tables)) {
      this.#words.set(table, begin);
      begins[name] = begin;
      begin += table.length;
    }
    this.begins = begins;
  }

  /** Gives `use` the tables and so many floats behind them, for as long as it runs; gives back what `use` does. */
  place<T>(host: GemmHost, floats: number, use: (tables: HostBlock, rest: HostBlock) => T): T {
    const { length } = this.#words, before = Math.ceil(length / LINE_WORDS) * LINE_WORDS;
    return host.withScratch("float32", Math.max(1, before + floats), (block) => {
      const tables = floatsOf(block, 0, length);
      (arrayOf(tables, "int32") as Int32Array).set(this.#words);
      return use(tables, floatsOf(block, before, floats));
    });
  }
}
