/** Form of attention of a few queries: what a group has of queries, keys and features. */
import type { DType } from "../../../graph/dtype.ts";
import type { AttentionKernel, HeadMatrix } from "../../../kernel/attention.ts";
import { alignmentOf } from "../../language/expression.ts";
import { WARP } from "../../matrix_units.ts";

/** Work-items of a group on GPUs. */
const ITEMS = 128;
/** Queries of a group, at most; sums of a work-item of a GPU, which lie in registers. */
const MAX_ROWS = 8, MAX_SUMS = 64;
/** Keys of a turn on CPUs, and of a work-item's turn on GPUs. */
const KEYS = 64, ITEM_KEYS = 2;
/** Bytes of a piece of a row on GPUs; floats of a vector of a CPU. */
const PIECE_BYTES = 16, LANES = 16;

/** Form of a group. */
export interface FeatureForm {
  readonly isGPU: boolean;
  /** Queries of a group, work-items of it, and how many of these share a key. */
  readonly rows: number;
  readonly items: number;
  readonly across: number;
  /** Neighbouring features of a key and of a value that a work-item has. */
  readonly keyRun: number;
  readonly valueRun: number;
  /** Keys whose weights a work-item computes together, where it has one query. */
  readonly together?: number;
  readonly isFast: boolean;
}

/** Bytes of elements that keys and values have. */
export const elementBytes: Partial<Record<DType, number>> = {
  float32: 4,
  float16: 2,
  bfloat16: 2,
  uint8: 1,
};

/** Features that are read together: all rows begin at multiples of so many. */
export function runOf(
  { dtype, row, column, offset, lead }: HeadMatrix,
  features: number,
  isGPU: boolean,
) {
  if (column !== 1) return 1;
  const most = isGPU ? PIECE_BYTES / elementBytes[dtype]! : LANES;
  // Words are read as such: less than one is read element by element.
  const least = isGPU ? 4 / elementBytes[dtype]! : 1;
  const run = Math.min(most, ...[features, row, offset, ...lead].map(alignmentOf));
  return run < least ? 1 : run;
}

/** The form of attention to filled keys. */
export function featureForm(kernel: AttentionKernel, isGPU: boolean): FeatureForm {
  const { query, key, value, features, valueFeatures, queries } = kernel;
  // Vectors are of neighbours in both.
  const keyRun = isGPU || query.column === 1 ? runOf(key, features, isGPU) : 1;
  const valueRun = runOf(value, valueFeatures, isGPU);
  let across = 1;
  while (isGPU && across < WARP && across * keyRun < features) across *= 2;
  const own = Math.ceil(Math.max(features / keyRun, valueFeatures / valueRun) / across) *
    Math.max(keyRun, valueRun);
  const most = Math.max(1, Math.min(MAX_ROWS, isGPU ? Math.floor(MAX_SUMS / own) : MAX_ROWS));
  // Groups have about as many queries each.
  const rows = Math.ceil(queries / Math.ceil(queries / most));
  const isFast = isGPU && key.dtype !== "float32";
  return { isGPU, rows, items: isGPU ? ITEMS : 1, across, keyRun, valueRun, isFast };
}

/** Keys of a turn. */
export const keysOfTurn = ({ isGPU, across }: FeatureForm): number =>
  isGPU ? ITEMS / across * ITEM_KEYS : KEYS;
