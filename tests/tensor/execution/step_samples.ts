/** A dataset for workers: rows of ones. */
import type { Dataset } from "../../../tensor/data/mod.ts";

const row = new Float32Array(64).fill(1);

const samples: Dataset = { length: 640, get: () => [{ data: row, shape: [64] }] };
export default samples;
