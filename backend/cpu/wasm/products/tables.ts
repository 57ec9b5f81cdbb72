/** Tables of offsets that a kernel reads: one block of memory. */
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { WasmMemory } from "../memory.ts";

/** Bytes of a line of the caches. */
const LINE_BYTES = 64;

/** Tables of offsets, one behind the other. */
export class Tables {
  readonly #bytes: Uint8Array;
  readonly #begins = new Map<string, number>();

  constructor(tables: Readonly<Record<string, Int32Array>>) {
    const all = Object.values(tables);
    const words = new Int32Array(all.reduce((sum, { length }) => sum + length, 0));
    this.#bytes = new Uint8Array(words.buffer);
    let begin = 0;
    for (const [name, table] of Object.entries(tables)) {
      words.set(table, begin);
      this.#begins.set(name, 4 * begin);
      begin += table.length;
    }
  }

  /**
   * Gives `use` the addresses of the tables and of so many bytes behind them, for as long as it runs.
   *
   * @returns What `use` does; false where there is no room in the memory that WebAssembly sees.
   */
  place(
    memory: WasmMemory,
    host: GemmHost,
    more: number,
    use: (tables: number, rest: number) => boolean,
  ): boolean {
    const { length } = this.#bytes, before = Math.ceil(length / LINE_BYTES) * LINE_BYTES;
    return host.withScratch("float32", Math.max(1, (before + more) / 4), (block) => {
      const tables = memory.addressOf(block);
      if (tables === null) return false;
      memory.bytes(tables, length).set(this.#bytes);
      return use(tables, tables + before);
    });
  }

  /** Start of a table, in bytes; undefined where there is none of that name. */
  begin(name: string): number | undefined {
    return this.#begins.get(name);
  }
}
