/** The arguments of a kernel by name: words in the shared memory, read once before everything else. */
import { FunctionBuilder, type Local } from "./assembler.ts";
import { i32, v128 } from "./opcodes.ts";

/** Reads arguments, and entries of the tables that they are addresses of. */
export class KernelArguments<Name extends string> {
  readonly #f: FunctionBuilder;
  readonly #names: readonly Name[];

  constructor(f: FunctionBuilder, names: readonly Name[]) {
    this.#f = f;
    this.#names = names;
  }

  #place(name: Name): number {
    return 4 * this.#names.indexOf(name);
  }

  /** The value of an argument. */
  get(name: Name): Local {
    const f = this.#f, { args } = FunctionBuilder.parameters;
    return f.once(name, () => f.loadNumber(i32.load, args, this.#place(name)));
  }

  /** The float that an argument is, in all lanes. */
  float(name: Name): Local {
    const f = this.#f, { args } = FunctionBuilder.parameters;
    return f.once(name, () => f.load(v128.loadSplat, args, this.#place(name)));
  }

  /** An entry of a table of words. */
  entry(table: Name, index: Local): Local {
    return this.#f.loadNumber(i32.load, this.#f.wordAt(this.get(table), index));
  }

  /** Writes an argument, for the host to read. */
  set(name: Name, value: Local): void {
    this.#f.storeNumber(FunctionBuilder.parameters.args, value, this.#place(name));
  }
}
