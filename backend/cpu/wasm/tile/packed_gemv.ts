/** Products of a few rows with packed weights on the built-in backend: the tile program in WebAssembly. */
import { collapse } from "../../../kernel/collapse.ts";
import { affineKey } from "../../../kernel/affine.ts";
import { type PackedProduct, packedProduct } from "../../../kernel/forms/packed_product.ts";
import type { LoopKernel } from "../../../kernel/kernel.ts";
import type { TileKernel } from "../../../tile/language/statements.ts";
import { packedProgram } from "../../../tile/programs/packed/packed_programs.ts";
import { vectorUnit } from "../../../tile/units.ts";
import { epilogueOf, rowMajor } from "../../blas/gemm_plan.ts";
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { PartialRunner } from "../../script/runner.ts";
import type { FunctionBuilder, Local } from "../assembler.ts";
import { i32, v128 } from "../opcodes.ts";
import type { WasmRuntime } from "../runtime.ts";
import { RESULT, TileCall } from "./tile_call.ts";
import type { StoreResult } from "./tile_module.ts";

/** Unit that multiplies: vectors of four floats. */
const unit = vectorUnit(4);
/** Weights that a core decodes in a nanosecond. */
const SPEED = 4;

/**
 * Columns whose sums are kept together where floats are multiplied: one column's is a chain of multiply-adds, which
 * wait for each other.
 */
const COLUMNS_AT_ONCE = 8;

/** Number of the result's columns, as an argument. */
const COLUMNS = "columns";

/** Stores results row by row. */
const storeRows = (argument: (name: string) => Local): StoreResult => (f, [row, column], value) => {
  const place = f.i(i32.add, f.i(i32.mul, row!, argument(COLUMNS)), column!);
  f.store(v128.store32Lane, addressOf(f, argument(RESULT), place), value, 0, 0);
};

function addressOf(f: FunctionBuilder, base: Local, index: Local): Local {
  return f.i(i32.add, base, f.iWith(i32.shl, index, 2));
}

/** The runner of a product with packed weights; null where it is another one, or cannot be read so. */
export function packedRunner(
  kernel: LoopKernel,
  runtime: WasmRuntime,
  host: GemmHost,
): PartialRunner | null {
  const product = packedProduct(kernel);
  const tile = product && kernelOf(product, runtime.threads.size);
  if (product === null || tile === null) return null;
  const size = product.rows * product.columns;
  const index = rowMajor(kernel, [...product.rowLoops, ...product.columnLoops]);
  const { dtype, index: at } = kernel.outputs[0]!;
  const isPlace = dtype === "float32" && affineKey(at) === affineKey(index);
  const epilogue = epilogueOf(kernel, "float32", index, isPlace ? 0 : null);
  const after = epilogue && host.compile(collapse(epilogue));
  const numbers = { [COLUMNS]: product.columns }, cost = size * product.terms / SPEED;
  const call = new TileCall(tile, { numbers, store: storeRows, cost }, runtime);
  const source = `// WebAssembly SIMD: ${tile.name}`;
  if (after === null) return { source, run: (inputs, outputs) => call.run(inputs, outputs, host) };
  return {
    source: `${source}\n${after.source}`,
    run: (inputs, outputs) =>
      host.withScratch("float32", size, (block) => {
        if (!call.run(inputs, [block], host)) return false;
        after.run([...inputs, block], outputs);
        return true;
      }),
  };
}

function kernelOf(product: PackedProduct, cores: number): TileKernel | null {
  const integers = { few: unit, many: unit };
  const units = { cores, integers, floats: unit, columns: COLUMNS_AT_ONCE };
  let sizes = 0;
  return packedProgram(product, units)?.write(() => `size${sizes++}`) ?? null;
}
