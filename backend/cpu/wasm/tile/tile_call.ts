/** A tile kernel in WebAssembly with what is the same in every run. */
import type { TileKernel } from "../../../tile/language/statements.ts";
import type { HostBlock } from "../../script/runner.ts";
import type { Local } from "../assembler.ts";
import type { WasmKernel, WasmRuntime } from "../runtime.ts";
import { argumentNames, type StoreResult, tileModule } from "./tile_module.ts";

/** The argument that is the address of the result. */
export const RESULT = "result";

/** Options of a call beside its kernel. */
export interface TileCallOptions {
  /** Arguments that only `store` reads. */
  readonly numbers: Readonly<Record<string, number>>;
  /** Stores results at {@linkcode RESULT}. */
  readonly store: (argument: (name: string) => Local) => StoreResult;
  /** About how many nanoseconds it takes on one core. */
  readonly cost: number;
}

/** Calls one kernel, whose inputs are called `a0`, `a1`, ... by their places. */
export class TileCall {
  readonly #tile: TileKernel;
  readonly #runtime: WasmRuntime;
  readonly #names: readonly string[];
  readonly #numbers: ReadonlyMap<string, number>;
  readonly #cost: number;
  readonly #kernel: WasmKernel;

  constructor(
    tile: TileKernel,
    { numbers, store, cost }: TileCallOptions,
    runtime: WasmRuntime,
  ) {
    const others = [RESULT, ...Object.keys(numbers)];
    this.#tile = tile;
    this.#runtime = runtime;
    this.#names = argumentNames(tile, others);
    this.#numbers = new Map([
      ...Object.entries(numbers),
      ...tile.sizes.map(({ name, value }) => [name, value] as const),
    ]);
    this.#cost = cost;
    this.#kernel = runtime.compile(tileModule(tile, others, store, runtime.relaxed));
  }

  /** False, and nothing is done, where a block lies outside of the memory that WebAssembly sees. */
  run(inputs: readonly HostBlock[], result: HostBlock): boolean {
    const { memory, words } = this.#runtime, { inputs: reads, groups } = this.#tile;
    const addresses = new Map([[RESULT, memory.addressOf(result)]]);
    for (const { name } of reads) {
      addresses.set(name, memory.addressOf(inputs[Number(name.slice(1))]!));
    }
    if ([...addresses.values()].includes(null)) return false;
    this.#names.forEach((name, k) => {
      words[k] = addresses.get(name) ?? this.#numbers.get(name)!;
    });
    this.#runtime.run(this.#kernel, groups, 1, this.#cost);
    return true;
  }
}
