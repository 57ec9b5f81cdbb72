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

/** Calls one kernel, whose inputs are called `a0`, `a1`, ... by their places. */
export class TileCall {
  readonly #tile: TileKernel;
  readonly #runtime: WasmRuntime;
  readonly #names: readonly string[];
  readonly #numbers: ReadonlyMap<string, number>;
  readonly #parameters: ReadonlyMap<string, Parameter>;
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
    const others = [...results, SCRATCH, ...added];
    this.#tile = tile;
    this.#runtime = runtime;
    this.#names = argumentNames(tile, others);
    this.#parameters = new Map(parameters.map((parameter, k) => [`p${k}`, parameter]));
    this.#numbers = new Map([...sizes, ...Object.entries(numbers)]);
    this.#cost = cost;
    const write = () => tileModule(tile, others, store, runtime);
    this.#kernel = form === undefined ? runtime.compile(write()) : runtime.named(form, write);
  }

  /** False, and nothing is done, where a block lies outside of the memory that WebAssembly sees. */
  run(inputs: readonly HostBlock[], outputs: readonly HostBlock[], host: GemmHost): boolean {
    const { bytes } = scratchOf(this.#tile), words = bytes * this.#runtime.threads.size / 4;
    if (words === 0) return this.#run(inputs, outputs, null);
    return host.withScratch("float32", words, (block) => this.#run(inputs, outputs, block));
  }

  #run(
    inputs: readonly HostBlock[],
    outputs: readonly HostBlock[],
    scratch: HostBlock | null,
  ): boolean {
    const { memory, words } = this.#runtime, { inputs: reads, groups } = this.#tile;
    const addresses = new Map([[SCRATCH, scratch && memory.addressOf(scratch)]]);
    outputs.forEach((block, k) => addresses.set(`o${k}`, memory.addressOf(block)));
    for (const { name } of reads) {
      addresses.set(name, memory.addressOf(inputs[Number(name.slice(1))]!));
    }
    if (scratch === null) addresses.delete(SCRATCH);
    if ([...addresses.values()].includes(null)) return false;
    this.#names.forEach((name, k) => {
      const parameter = this.#parameters.get(name);
      words[k] = parameter
        ? wordOf(parameter)
        : addresses.get(name) ?? this.#numbers.get(name) ?? 0;
    });
    this.#runtime.run(this.#kernel, groups, 1, this.#cost);
    return true;
  }
}
