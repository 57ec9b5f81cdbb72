/** A tile kernel in WebAssembly with what is the same in every run. */
import type { Parameter } from "../../../codegen/emit.ts";
import type { TileKernel } from "../../../tile/language/statements.ts";
import type { NameOf } from "../../../tile/programs/kernel_values.ts";
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { HostBlock } from "../../script/runner.ts";
import { floatBits, type Local } from "../assembler.ts";
import type { ChainedKernel, WasmKernel, WasmRuntime } from "../runtime.ts";
import { argumentNames, type StoreResult, tileModule } from "./tile_module.ts";
import { SCRATCH, scratchOf } from "./tile_values.ts";

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

/** Some of the floats of a block. */
export const floatsOf = ({ base, offset }: HostBlock, first: number, count: number): HostBlock => ({
  base,
  offset: offset + 4 * first,
  nbytes: 4 * count,
});

/** Programs by their forms: they are long, and sizes are arguments. */
const programs = new Map<string, TileKernel>();

/** The call of a program that is the same for all kernels of a form, by so many work-items. */
export function namedCall(
  form: string,
  programOf: () => TileKernel,
  groups: number,
  options: Omit<TileCallOptions, "form">,
  runtime: WasmRuntime,
): TileCall {
  const tile = programs.getOrInsertComputed(form, programOf);
  return new TileCall({ ...tile, groups }, { ...options, form }, runtime);
}

/** Bytes of a thread's arrays that are kept between runs: what kernels of such a size share. */
const MAX_KEPT_BYTES = 2 ** 16;

/** Calls one kernel, whose inputs are called `a0`, `a1`, ... by their places. */
export class TileCall {
  readonly #runtime: WasmRuntime;
  readonly #kernel: WasmKernel;
  readonly #groups: number;
  readonly #cost: number;
  /** Bytes of a thread's arrays. */
  readonly #scratchBytes: number;
  /** The arguments that are the same in every run, and the places of those that are not. */
  readonly #words: Int32Array;
  readonly #drawn: readonly (readonly [place: number, parameter: Parameter])[];
  readonly #inputs: readonly (readonly [place: number, input: number])[];
  readonly #outputs: readonly number[];
  readonly #scratch: number;

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
    const placeOf = (name: string): number => names.indexOf(name);
    const drawn = parameters.map((parameter, k) => [placeOf(`p${k}`), parameter] as const)
      .filter(([place]) => place >= 0);
    this.#runtime = runtime;
    this.#groups = tile.groups;
    this.#cost = cost;
    const { bytes } = scratchOf(tile);
    this.#scratchBytes = bytes > MAX_KEPT_BYTES ? bytes : 2 ** Math.ceil(Math.log2(bytes));
    this.#words = Int32Array.from(names, (name) => numbers[name] ?? sizes.get(name) ?? 0);
    for (const [place, parameter] of drawn) this.#words[place] = wordOf(parameter);
    this.#drawn = drawn.filter(([, { kind }]) => kind === "stream");
    this.#inputs = tile.inputs.map(({ name }) => [placeOf(name), Number(name.slice(1))]);
    this.#outputs = results.map(placeOf);
    this.#scratch = placeOf(SCRATCH);
    const write = () => tileModule(tile, others, store, runtime);
    this.#kernel = form === undefined ? runtime.compile(write()) : runtime.named(form, write);
  }

  /**
   * Runs it.
   *
   * @param next What goes over each part behind it.
   * @returns False, and nothing is done, where a block lies outside of the memory that WebAssembly sees.
   */
  run(
    inputs: readonly HostBlock[],
    outputs: readonly HostBlock[],
    host: GemmHost,
    next: ChainedKernel | null = null,
  ): boolean {
    const runtime = this.#runtime, bytes = this.#scratchBytes;
    const run = (scratch: number | null): boolean => {
      if (scratch === null || !this.#set(runtime.words, inputs, outputs)) return false;
      runtime.words[this.#scratch] = scratch;
      runtime.run(this.#kernel, this.#groups, 1, this.#cost, next);
      return true;
    };
    if (bytes <= MAX_KEPT_BYTES) return run(bytes < 1 ? 0 : runtime.threadScratch(bytes));
    const words = bytes * runtime.threads.size / 4;
    return host.withScratch("float32", words, (block) => run(runtime.memory.addressOf(block)));
  }

  /** The kernel as one that goes over each part behind the next one; null where {@linkcode run} would be false. */
  chain(inputs: readonly HostBlock[], outputs: readonly HostBlock[]): ChainedKernel | null {
    return this.#set(this.#runtime.chainedWords, inputs, outputs) ? this.#kernel : null;
  }

  /** Sets all arguments but that of arrays; false where one is in other memory. */
  #set(words: Int32Array, inputs: readonly HostBlock[], outputs: readonly HostBlock[]): boolean {
    const { memory } = this.#runtime;
    const set = (place: number, block: HostBlock): boolean => {
      const address = memory.addressOf(block);
      words[place] = address ?? 0;
      return address !== null;
    };
    words.set(this.#words);
    for (const [place, parameter] of this.#drawn) words[place] = wordOf(parameter);
    return this.#inputs.every(([place, input]) => set(place, inputs[input]!)) &&
      outputs.every((block, k) => set(this.#outputs[k]!, block));
  }
}
