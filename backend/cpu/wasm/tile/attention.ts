/** Attention on the built-in backend: the tile programs in WebAssembly. */
import { type AttentionKernel, attentionReach, headsOf } from "../../../kernel/attention.ts";
import { type FeatureForm, featureForm } from "../../../tile/programs/attention/feature_form.ts";
import type { LaneForm } from "../../../tile/programs/attention/lane_blocks.ts";
import {
  featureAttention,
  laneAttention,
  lanePartsOf,
} from "../../../tile/programs/attention/programs.ts";
import { TILE_ROWS } from "../../../tile/programs/panels/panel_product.ts";
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { PartialRunner } from "../../script/runner.ts";
import type { WasmRuntime } from "../runtime.ts";
import { callOf } from "./tile_call.ts";

/** Queries that are few: a work-item reads each key once for all of them. */
const FEW_QUERIES = 8;
/** Floats of a vector, and of the sums that are kept in registers together. */
const VECTOR = 4, MAX_RUN = 32;
/** Rows of a work-item, and those that are multiplied together. */
const FORM: LaneForm = { own: 2, tile: { vectors: 1, step: TILE_ROWS }, byBlocks: true };
/** Bytes that a core's near caches hold of all gradients of a head. */
const HEAD_BYTES = 2 ** 18;
/** Addresses are numbers of 32 bits. */
const MAX_ELEMENTS = 2 ** 30;
/** Multiplications of a core in a nanosecond. */
const SPEED = 10;

/** The runner of attention; null where indices are larger than addresses. */
export function attentionRunner(
  kernel: AttentionKernel,
  runtime: WasmRuntime,
  host: GemmHost,
): PartialRunner | null {
  if (attentionReach(kernel) >= MAX_ELEMENTS) return null;
  const { queries, keys, features, valueFeatures, outputs, filled } = kernel;
  const cost = headsOf(kernel) * queries * keys * (features + valueFeatures) / SPEED;
  const options = { outputs: outputs.length, cost };
  const calls = filled && queries <= FEW_QUERIES
    ? [callOf((nameOf) => featureAttention(kernel, formOf(kernel), 1, nameOf), options, runtime)]
    : lanePartsOf(kernel, runtime.threads.size, HEAD_BYTES, () => FORM).map(({ part, form }) =>
      callOf((nameOf) => laneAttention(part, kernel, form, nameOf), options, runtime)
    );
  return {
    source: "// WebAssembly SIMD: attention",
    run: (inputs, outputs) => calls.every((call) => call.run(inputs, outputs, host)),
  };
}

/** Pieces of rows are some vectors of four lanes, or single features. */
function formOf(kernel: AttentionKernel): FeatureForm {
  const form = featureForm(kernel, false);
  const whole = (run: number, features: number): number =>
    run < VECTOR ? 1 : features % MAX_RUN === 0 ? MAX_RUN : run;
  return {
    ...form,
    keyRun: whole(form.keyRun, kernel.features),
    valueRun: whole(form.valueRun, kernel.valueFeatures),
    together: VECTOR,
  };
}
