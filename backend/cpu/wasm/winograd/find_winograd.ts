/**
 * 3x3 convolutions of stride 1 in a quarter of the multiplications, by Winograd's minimal filtering:
 * forward, the gradient of the image, which is one, too, and the gradient of the kernels.
 *
 * This folder (`winograd/`) imports `products/`, `tile/` of this backend, the programs of `backend/tile` and
 * `kernel/`. `kernel_runners.ts` hands {@linkcode findWinograd} to `products/`, which asks it first.
 */
import { windowProduct } from "../../../kernel/forms/window_product.ts";
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { FloatContraction, Product } from "../products/contraction.ts";
import type { WasmRuntime } from "../runtime.ts";
import { filtered } from "./filtering_runner.ts";

/** Nanoseconds of less work are spent on finding out. */
const MIN_COST = 50_000;
/** It must take less than this share of the time of a product of matrices, which is more precise. */
const MAX_SHARE = 0.85;

/** The minimal filtering of a contraction, or null where it is no such convolution or a small one. */
export function findWinograd(
  { kernel, contraction, target, cost }: FloatContraction,
  runtime: WasmRuntime,
  host: GemmHost,
): Product | null {
  const product = cost < MIN_COST ? null : windowProduct({ ...kernel, contraction }, target);
  const found = product && filtered(product, runtime, host);
  return found && found.cost < MAX_SHARE * cost ? found : null;
}
