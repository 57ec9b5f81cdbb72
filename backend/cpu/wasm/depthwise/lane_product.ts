/** Runs lane programs that need no more than their operands, as products of the built-in backend. */
import type { LaneMapping } from "../../../tile/programs/lanes/lane_mapping.ts";
import { laneProduct } from "../../../tile/programs/lanes/lane_product.ts";
import { VECTOR } from "../../../tile/programs/panels/numbered.ts";
import type { HostBlock } from "../../script/runner.ts";
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { Local } from "../assembler.ts";
import { i32, v128 } from "../opcodes.ts";
import type { FloatContraction, Product } from "../products/contraction.ts";
import type { FusedEpilogue, LineBlocks } from "../products/fused_epilogue.ts";
import { Tables } from "../products/tables.ts";
import type { WasmRuntime } from "../runtime.ts";
import { RESULT, TileCall } from "../tile/tile_call.ts";
import type { StoreResult } from "../tile/tile_module.ts";

/** Products of a core in a nanosecond. */
const SPEED = 10;

/** Operations that follow a product, in the blocks of its work-items. */
export interface Chained {
  readonly epilogue: FusedEpilogue;
  readonly blocks: LineBlocks;
}

/** A product by a lane program, with what its runs have in common. */
export class LaneProductRunner implements Product {
  readonly source: string;
  readonly hasEpilogue: boolean;
  readonly #host: GemmHost;
  readonly #given: FloatContraction;
  readonly #tables: Tables;
  readonly #call: TileCall;
  readonly #chain: ReturnType<FusedEpilogue["chain"]> | null;

  constructor(
    name: string,
    given: FloatContraction,
    mapping: LaneMapping,
    runtime: WasmRuntime,
    host: GemmHost,
    chained: Chained | null,
  ) {
    const { kernel, contraction, target } = given;
    this.#given = given;
    this.#host = host;
    const placed = { ...mapping, target };
    const program = laneProduct({ ...kernel, contraction }, placed, () => {
      throw new Error("A program of fixed sizes has no arguments");
    });
    const tables = this.#tables = new Tables(chained ? chained.epilogue.tables : {});
    this.#chain = chained && chained.epilogue.chain(runtime, tables, chained.blocks);
    this.hasEpilogue = chained !== null;
    const cost = kernel.sizes.reduce((product, size) => product * size, 1) / SPEED;
    this.#call = new TileCall(program, { store: storeOf(given, mapping.lane), cost }, runtime);
    this.source = [
      `// WebAssembly SIMD: ${name}, float32`,
      ...chained ? [chained.epilogue.source] : [],
    ].join("\n");
  }

  run(a: HostBlock, b: HostBlock, c: HostBlock, inputs: readonly HostBlock[]): boolean {
    const { contraction } = this.#given, operands = [...inputs];
    operands[contraction.a.input] = a;
    operands[contraction.b.input] = b;
    return this.#tables.place(this.#host, 0, (tables) => {
      const next = this.#chain && this.#chain(inputs, c, tables);
      if (this.#chain && next === null) return false;
      return this.#call.run(operands, [c], this.#host, next);
    });
  }
}

/** Stores results by their index: so many lanes, or one number. */
function storeOf({ kernel: { outer } }: FloatContraction, lane: number) {
  const isAlong = outer.includes(lane);
  return (argument: (name: string) => Local): StoreResult => (f, at, value, known) => {
    const [index, left] = at;
    const address = f.i(i32.add, argument(RESULT), f.iWith(i32.shl, index!, 2));
    if (!isAlong) return f.store(v128.store32Lane, address, value, 0, 0);
    const each = (): void => {
      for (let k = 0; k < VECTOR; k++) {
        f.branch(
          f.i(i32.ltS, f.integer(k), left!),
          () => f.store(v128.store32Lane, address, value, 4 * k, k),
        );
      }
    };
    if (known[1] === VECTOR) return f.store(v128.store, address, value);
    const isPart = f.i(i32.ltS, left!, f.integer(VECTOR));
    f.branch(isPart, each, () => f.store(v128.store, address, value));
  };
}
