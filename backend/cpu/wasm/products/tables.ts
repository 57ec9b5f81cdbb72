/** Tables of offsets that a kernel reads: one block of memory. */

/** Tables of offsets, one behind the other. */
export class Tables {
  readonly words: number;
  readonly bytes: Uint8Array;
  readonly #begins = new Map<string, number>();

  constructor(tables: Readonly<Record<string, Int32Array>>) {
    const all = Object.values(tables);
    this.words = all.reduce((sum, { length }) => sum + length, 0);
    const words = new Int32Array(this.words);
    this.bytes = new Uint8Array(words.buffer);
    let begin = 0;
    for (const [name, table] of Object.entries(tables)) {
      words.set(table, begin);
      this.#begins.set(name, 4 * begin);
      begin += table.length;
    }
  }

  /** Start of a table, in bytes; undefined where there is none of that name. */
  begin(name: string): number | undefined {
    return this.#begins.get(name);
  }
}
