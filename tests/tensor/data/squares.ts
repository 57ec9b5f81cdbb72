/** A dataset for workers: the index, its square, and whether a worker has read it. */
import { isMainThread } from "node:worker_threads";
import type { Dataset } from "../../../tensor/data/mod.ts";

const all = Float32Array.from({ length: 200 }, (_, i) => i % 2 === 0 ? i / 2 : (i >> 1) ** 2);
// Deno says it by a name, Node and Bun by their module.
const isWorker = "WorkerGlobalScope" in globalThis || !isMainThread;

/** Later samples of a batch come sooner, so that whoever does not wait mixes them up. */
const squares: Dataset = {
  length: 100,
  async get(index) {
    await new Promise((resolve) => setTimeout(resolve, index % 3));
    if (index === 77) throw new RangeError("no disk");
    return [
      { data: all.subarray(2 * index, 2 * index + 2), shape: [2] },
      { data: Uint8Array.of(Number(isWorker)), shape: [], dtype: "bool" },
    ];
  },
};
export default squares;
