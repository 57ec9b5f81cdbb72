/** A kernel with the arguments that are the same in every run. */
import type { Tables } from "./tables.ts";
import type { ChainedKernel, WasmKernel, WasmRuntime } from "../runtime.ts";

/** Options of a kernel's call. */
export interface KernelCallOptions {
  readonly kernel: WasmKernel;
  /** Its arguments, in order. */
  readonly names: readonly string[];
  readonly tables: Tables;
  readonly numbers: Readonly<Record<string, number>>;
  /** Length of its range, grain of its parts, nanoseconds of one thread. */
  readonly range: number;
  readonly grain: number;
  readonly cost: number;
}

/** Calls one kernel. */
export class KernelCall {
  readonly #runtime: WasmRuntime;
  readonly #options: KernelCallOptions;
  readonly #arguments: readonly { readonly value: number; readonly isTable: boolean }[];

  constructor(runtime: WasmRuntime, options: KernelCallOptions) {
    this.#runtime = runtime;
    this.#options = options;
    const { names, tables, numbers } = options;
    this.#arguments = names.map((name) => {
      const begin = tables.begin(name);
      return { value: begin ?? numbers[name] ?? 0, isTable: begin !== undefined };
    });
  }

  /** Sets its arguments; see {@linkcode run}. */
  set(words: Int32Array, addresses: Readonly<Record<string, number>>, tables: number): void {
    const { names } = this.#options;
    this.#arguments.forEach(({ value, isTable }, place) => {
      words[place] = addresses[names[place]!] ?? (isTable ? tables + value : value);
    });
  }

  /**
   * Runs it.
   *
   * @param addresses The arguments that are addresses, by name.
   * @param tables Where the tables lie.
   * @param next What goes over each part behind it.
   */
  run(
    addresses: Readonly<Record<string, number>>,
    tables: number,
    next: ChainedKernel | null = null,
  ): void {
    const { kernel, range, grain, cost } = this.#options, { words } = this.#runtime;
    this.set(words, addresses, tables);
    this.#runtime.run(kernel, range, grain, cost, next);
  }
}
