/**
 * 3x3 convolutions of stride 1 in a quarter of the multiplications, by Winograd's minimal filtering:
 * forward, the gradient of the image, which is one, too, and the gradient of the kernels.
 *
 * This folder (`winograd/`) imports `products/` for tables, rows and calls, `kernel/`, and the assembler of
 * `wasm/`. `kernel_runners.ts` hands {@linkcode findWinograd} to `products/`, which asks it first.
 */
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { FloatContraction, Product } from "../products/contraction.ts";
import type { WasmRuntime } from "../runtime.ts";
import { WinogradConvolution } from "./winograd_convolution.ts";
import { WinogradGradient } from "./winograd_gradient.ts";
import { windowProduct } from "./windows.ts";

/** Nanoseconds of less work are spent on finding out. */
const MIN_COST = 50_000;
/** It must take less than this share of the time of a product of matrices, which is more precise. */
const MAX_SHARE = 0.85;

const ways = { convolution: WinogradConvolution, filterGradient: WinogradGradient } as const;

/** The minimal filtering of a contraction, or null where it is no such convolution or a small one. */
export function findWinograd(
  given: FloatContraction,
  runtime: WasmRuntime,
  host: GemmHost,
): Product | null {
  if (given.cost < MIN_COST) return null;
  const { kernel, contraction, target } = given;
  const product = windowProduct(kernel, contraction, target);
  if (product === null) return null;
  const found = new ways[product.kind]({ kernel, product, target, runtime, host });
  return found.cost < MAX_SHARE * given.cost ? found : null;
}
