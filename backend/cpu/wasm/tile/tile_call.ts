/** A tile kernel in WebAssembly with what is the same in every run. */
import type { Parameter } from "../../../codegen/emit.ts";
import type { TileKernel } from "../../../tile/language/statements.ts";
import type { NameOf } from "../../../tile/programs/kernel_values.ts";
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { HostBlock } from "../../script/runner.ts";
import { floatBits, type Local } from "../assembler.ts";
import type { WasmKernel, WasmRuntime } from "../runtime.ts";
import { argumentNames, SCRATCH, scratchOf, type StoreResult, tileModule } from "./tile_module.ts";

/** The argument that is the address of the first result. */
export const RESULT = "o0";

/** Options of a call beside its kernel. */
export interface TileCallOptions {
  /** Arguments that only `store` reads, and values of sizes in place of the kernel's. */
  readonly numbers?: Readonly<Record<string, number>>;
  /** Name of all that the module depends on: it is written once. */
  readonly form?: string;
  /** Parameters `p0`, `p1`, ... of the kernel. */
  readonly parameters?: readonly Parameter[];
  /** Results, whose addresses are `o0`, `o1`, ... */
  readonly outputs?: number;
  /** Stores results that the kernel hands out at {@linkcode RESULT}. */
  readonly store?: (argument: (name: string) => Local) => StoreResult;
  /** About how many nanoseconds it takes on one core. */
  readonly cost: number;
}

const storesNothing = () => (): never => {
  throw new Error("A tile kernel that stores its results hands out none");
};

/** The word that an argument is: random numbers are drawn anew in every run. */
function wordOf(parameter: Parameter): number {
  switch (parameter.kind) {
    case "index":
      return parameter.value;
    case "constant":
      return floatBits(parameter.value);
    case "stream":
      return parameter.stream.value;
  }
}

/** The call of a program whose numbers are parameters. */
export function callOf(
  programOf: (nameOf: NameOf) => TileKernel,
  options: Pick<TileCallOptions, "outputs" | "cost">,
  runtime: WasmRuntime,
): TileCall {
  const parameters: Parameter[] = [];
  const tile = programOf((parameter) => `p${parameters.push(parameter) - 1}`);
  return new TileCall(tile, { ...options, parameters }, runtime);
}

/** Memory of a thread up to this is kept from one call to the next. */
const KEPT_BYTES = 2 ** 16;

/** Calls one kernel, whose inputs are called `a0`, `a1`, ... by their places. */
export class TileCall {
  readonly #tile: TileKernel;
  readonly #runtime: WasmRuntime;
  /** Words that are the same in every run. */
  readonly #constants: Int32Array;
  /** Words that are addresses of inputs, by their places, and of outputs. */
  readonly #inputs: readonly (readonly [word: number, input: number])[];
  readonly #outputs: readonly number[];
  readonly #parameters: readonly (readonly [word: number, parameter: Parameter])[];
  /** The word that is the address of the arrays of all threads, and bytes of each; -1 and 0: there are none. */
  readonly #scratch: number;
  readonly #scratchBytes: number;
  readonly #cost: number;
  readonly #kernel: WasmKernel;

  constructor(
    tile: TileKernel,
    { numbers = {}, parameters = [], outputs = 1, store = storesNothing, cost, form }:
      TileCallOptions,
    runtime: WasmRuntime,
  ) {
    const results = Array.from({ length: outputs }, (_, k) => `o${k}`);
    const sizes = new Map(tile.sizes.map(({ name, value }) => [name, value]));
    const added = Object.keys(numbers).filter((name) => form === undefined && !sizes.has(name));
    const others = [...results, SCRATCH, ...added], names = argumentNames(tile, others);
    const values = new Map([...sizes, ...Object.entries(numbers)]);
    this.#tile = tile;
    this.#runtime = runtime;
    this.#constants = Int32Array.from(names, (name) => values.get(name) ?? 0);
    this.#inputs = tile.inputs.map(({ name }) => [names.indexOf(name), Number(name.slice(1))]);
    this.#outputs = results.map((name) => names.indexOf(name));
    this.#parameters = parameters.flatMap((parameter, k) => {
      const word = names.indexOf(`p${k}`);
      return word < 0 ? [] : [[word, parameter] as const];
    });
    this.#scratchBytes = scratchOf(tile).bytes;
    this.#scratch = this.#scratchBytes > 0 ? names.indexOf(SCRATCH) : -1;
    this.#cost = cost;
    const write = () => tileModule(tile, others, store, runtime);
    this.#kernel = form === undefined ? runtime.compile(write()) : runtime.named(form, write);
  }

  /** False, and nothing is done, where a block lies outside of the memory that WebAssembly sees. */
  run(inputs: readonly HostBlock[], outputs: readonly HostBlock[], host: GemmHost): boolean {
    const bytes = this.#scratchBytes, { threads, memory } = this.#runtime;
    if (bytes === 0) return this.#run(inputs, outputs, 0);
    if (bytes <= KEPT_BYTES) {
      return this.#run(inputs, outputs, this.#runtime.threadScratch(bytes));
    }
    return host.withScratch(
      "float32",
      bytes * threads.size / 4,
      (block) => this.#run(inputs, outputs, memory.addressOf(block)),
    );
  }

  #run(
    inputs: readonly HostBlock[],
    outputs: readonly HostBlock[],
    scratch: number | null,
  ): boolean {
    const { memory, words } = this.#runtime;
    if (scratch === null) return false;
    words.set(this.#constants);
    for (const [word, input] of this.#inputs) {
      const address = memory.addressOf(inputs[input]!);
      if (address === null) return false;
      words[word] = address;
    }
    for (let k = 0; k < outputs.length; k++) {
      const address = memory.addressOf(outputs[k]!);
      if (address === null) return false;
      words[this.#outputs[k]!] = address;
    }
    for (const [word, parameter] of this.#parameters) words[word] = wordOf(parameter);
    if (this.#scratch >= 0) words[this.#scratch] = scratch;
    this.#runtime.run(this.#kernel, this.#tile.groups, 1, this.#cost);
    return true;
  }
}
