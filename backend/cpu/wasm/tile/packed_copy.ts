/** Copies of packed weights as floats on the built-in backend: the tile program in WebAssembly. */
import type { DType } from "../../../graph/dtype.ts";
import { packedCopy } from "../../../kernel/forms/packed_product.ts";
import type { LoopKernel } from "../../../kernel/kernel.ts";
import { withExpressions } from "../../../tile/language/expression.ts";
import { canUnpack, unpack } from "../../../tile/programs/packed/unpack.ts";
import { vectorUnit } from "../../../tile/units.ts";
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { PartialRunner } from "../../script/runner.ts";
import type { Local } from "../assembler.ts";
import { elementBytes, LaneAccess } from "../lanes.ts";
import { VectorMath } from "../math.ts";
import { i32 } from "../opcodes.ts";
import type { WasmRuntime } from "../runtime.ts";
import { RESULT, TileCall } from "./tile_call.ts";
import type { StoreResult } from "./tile_module.ts";

/** Unit that decodes: vectors of four floats. */
const unit = vectorUnit(4);
/** Elements that a core decodes and stores in a nanosecond. */
const SPEED = 1;

/** Stores vectors of neighbours. */
const storeVectors =
  (dtype: DType, relaxed: boolean) =>
  (argument: (name: string) => Local): StoreResult =>
  (f, [at], value) => {
    const bytes = elementBytes(dtype), lanes = new LaneAccess(f, new VectorMath(f, relaxed));
    const address = f.i(i32.add, argument(RESULT), f.iWith(i32.shl, at!, Math.log2(bytes)));
    lanes.storeFour(dtype, bytes, address, 0, value);
  };

/** The runner of a copy; null where the kernel is none, or not of whole blocks. */
export function packedCopyRunner(
  kernel: LoopKernel,
  runtime: WasmRuntime,
  host: GemmHost,
): PartialRunner | null {
  const copy = packedCopy(kernel);
  if (copy === null || !canUnpack(copy, unit)) return null;
  let sizes = 0;
  const tile = withExpressions(() => unpack(copy, unit, () => `size${sizes++}`));
  const store = storeVectors(copy.dtype, runtime.relaxed), cost = copy.count / SPEED;
  const call = new TileCall(tile, { store, cost }, runtime);
  return {
    source: `// WebAssembly SIMD: ${tile.name}`,
    run: (inputs, outputs) => call.run(inputs, outputs, host),
  };
}
