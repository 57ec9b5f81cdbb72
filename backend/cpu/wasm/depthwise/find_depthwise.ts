/** Finds convolutions of channels by themselves, and gradients of their kernels. */
import { channelConvolution } from "../../../kernel/forms/channel_convolution.ts";
import { coefficient } from "../../../kernel/affine.ts";
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { FloatContraction, Product } from "../products/contraction.ts";
import type { WasmRuntime } from "../runtime.ts";
import { channelWindows } from "./channel_windows.ts";
import { DepthwiseConvolution } from "./depthwise_convolution.ts";
import { DepthwiseGradient } from "./depthwise_gradient.ts";

/** The product, or null where a contraction is none. */
export function findDepthwise(
  given: FloatContraction,
  runtime: WasmRuntime,
  host: GemmHost,
): Product | null {
  const form = channelConvolution({ ...given.kernel, contraction: given.contraction });
  if (form !== null && coefficient(given.target, form.column.position) === 1) {
    return new DepthwiseConvolution(given, form, runtime, host);
  }
  const windows = channelWindows(given);
  return windows && new DepthwiseGradient(given, windows, runtime, host);
}
