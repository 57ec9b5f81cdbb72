import { type DeviceHandle, interruptible, isInterrupted, manager } from "../../backend/engine.ts";
import { Tensor } from "../tensor.ts";
import { stackSamples } from "./collate.ts";
import { type Dataset, type Field, requireDataset } from "./dataset.ts";
import { shuffled } from "./shuffle.ts";
import { WorkerPool } from "./worker_pool.ts";
import { checkOptions, type Rules, takes } from "../options.ts";

/**
 * Threads that read samples. What a dataset throws there becomes the cause of an error that names the
 * sample. To start a worker from a local file Deno wants `--allow-read`; without it the pass fails.
 *
 * @example Images that are decoded in four workers
 * ```ts ignore
 * import { DataLoader } from "@netcl/netcl";
 * import photos from "./photos.ts"; // export default { length: 5000, get(index) { ... } };
 *
 * const module = new URL("./photos.ts", import.meta.url);
 * const loader = new DataLoader(photos, { batchSize: 64, workers: { module, count: 4 }, prefetch: 3 });
 * ```
 */
export interface WorkerOptions {
  /** The module whose default export is the dataset; each worker imports it anew. */
  readonly module: URL;
  /** How many workers; more than `prefetch + 1` have nothing to do. */
  readonly count: number;
}

/** How a {@link DataLoader} makes batches. */
export interface DataLoaderOptions {
  /** Samples a batch; 1 unless given. */
  batchSize?: number;
  /** Whether every pass sees the samples in a new order of chance. */
  shuffle?: boolean;
  /** Whether a last batch that is not full is left out. */
  dropLast?: boolean;
  /** How many batches are read and copied to the device ahead of the one in use; 2 unless given. */
  prefetch?: number;
  /** Whether batches go to the device by way of pinned memory. */
  pinMemory?: boolean;
  /** Fixes the orders of `shuffle`; without it they depend on `manualSeed`. */
  seed?: number;
  /** Makes the fields of a batch from its samples; they are stacked unless given. */
  collate?: (samples: Field[][]) => Field[] | Promise<Field[]>;
  /**
   * Reads samples in workers, for datasets that must compute much, such as decode images; they run for
   * the time of a pass and read sample by sample (`get`). The order of batches stays the same.
   */
  workers?: WorkerOptions;
}

const rules: Rules<DataLoaderOptions> = {
  batchSize: takes.count,
  shuffle: takes.bool,
  dropLast: takes.bool,
  prefetch: takes.whole,
  pinMemory: takes.bool,
  seed: takes.whole,
  collate: takes.callback,
  workers: takes.object("an object { module, count }"),
};

const workerRules: Rules<WorkerOptions> = {
  module: {
    takes: 'a URL such as new URL("./dataset.ts", import.meta.url)',
    accepts: (value) => value instanceof URL,
  },
  count: takes.count,
};

/**
 * Goes through a dataset in batches, one tensor a field, on the device that is active when a pass
 * begins. The next batches are read ahead while the present one is worked on.
 *
 * The tensors belong to the caller, who may `dispose()` them. A pass that ends early gives back
 * what it had read ahead. Ctrl+C ends the wait for a batch with an `InterruptedError`, however
 * long the dataset takes.
 *
 * @example One pass
 * ```ts
 * import { DataLoader, TensorDataset } from "@netcl/netcl";
 *
 * const data = new TensorDataset(
 *   { data: new Float32Array(300), shape: [100, 3] },
 *   { data: new Int32Array(100), shape: [100] },
 * );
 * const loader = new DataLoader(data, { batchSize: 32, shuffle: true, seed: 1 });
 * for await (const [x, y] of loader) {
 *   console.assert(x!.shape[1] === 3 && y!.shape[0] === x!.shape[0]);
 *   x!.dispose();
 *   y!.dispose();
 * }
 * ```
 */
export class DataLoader implements AsyncIterable<Tensor[]> {
  /** The batches of one pass. */
  readonly length: number;
  readonly #dataset: Dataset;
  readonly #batchSize: number;
  readonly #prefetch: number;
  readonly #options: DataLoaderOptions;
  #passes = 0;

  /**
   * Checks the options; nothing is read before a pass begins.
   *
   * @param dataset Where the samples come from.
   * @param options How batches are made of them.
   * @throws RangeError for a batch size, a prefetch or a seed that cannot be.
   */
  constructor(dataset: Dataset, options: DataLoaderOptions = {}) {
    requireDataset("load from", dataset);
    checkOptions("make a DataLoader", options, rules);
    if (options.workers) {
      checkOptions("start the workers of a DataLoader", options.workers, workerRules, [
        "module",
        "count",
      ]);
    }
    const { batchSize = 1, prefetch = 2, dropLast = false } = options;
    this.#dataset = dataset;
    this.#batchSize = batchSize;
    this.#prefetch = prefetch;
    this.#options = options;
    this.length = dropLast
      ? Math.floor(dataset.length / batchSize)
      : Math.ceil(dataset.length / batchSize);
  }

  /** Begins a pass; with `shuffle` every pass has an order of its own. */
  [Symbol.asyncIterator](): AsyncIterator<Tensor[], undefined> {
    return this.#pass(this.#order(this.#passes++), manager.active);
  }

  #order(pass: number): number[] {
    const { length } = this.#dataset;
    if (this.#options.shuffle) return shuffled(length, this.#options.seed, pass);
    return Array.from({ length }, (_, i) => i);
  }

  async *#pass(order: number[], device: DeviceHandle): AsyncGenerator<Tensor[], undefined> {
    const { workers } = this.#options;
    const pool = workers ? new WorkerPool(workers.module, workers.count) : null;
    const ahead: Promise<Tensor[]>[] = [];
    let next = 0;
    const readAhead = () => {
      while (next < this.length && ahead.length <= this.#prefetch) {
        const batch = this.#batch(order, next++, device, pool);
        batch.catch(() => {}); // reported when its turn comes
        ahead.push(batch);
      }
    };
    try {
      for (readAhead(); ahead.length > 0; readAhead()) {
        const batch = await interruptible(ahead[0]!);
        ahead.shift(); // not before: a batch that arrives after Ctrl+C is given back too
        yield batch;
      }
    } finally {
      pool?.[Symbol.dispose]();
      // Ctrl+C waits for no dataset: what still arrives is given back by itself.
      const givenBack = disposeAll(ahead);
      if (!isInterrupted()) await interruptible(givenBack);
    }
  }

  async #batch(
    order: number[],
    position: number,
    device: DeviceHandle,
    pool: WorkerPool | null,
  ): Promise<Tensor[]> {
    const { pinMemory = false } = this.#options;
    const start = position * this.#batchSize;
    const indices = order.slice(start, start + this.#batchSize);
    const fields = await this.#fields(indices, pool);
    return fields.map(({ data, shape, dtype }) =>
      Tensor.fromHost(data, { shape, ...dtype && { dtype }, device, pinMemory }).realize()
    );
  }

  async #fields(indices: readonly number[], pool: WorkerPool | null): Promise<Field[]> {
    const { collate = stackSamples } = this.#options;
    if (pool) return await collate(await pool.read(indices));
    const dataset = this.#dataset;
    if (dataset.getBatch && collate === stackSamples) return await dataset.getBatch(indices);
    const samples = await Promise.all(indices.map((index) => dataset.get(index)));
    return await collate(samples);
  }
}

/** What was read ahead of a pass that ended early is given back, also where a read failed. */
async function disposeAll(batches: readonly Promise<Tensor[]>[]): Promise<void> {
  for (const result of await Promise.allSettled(batches)) {
    if (result.status === "fulfilled") result.value.forEach((tensor) => tensor.dispose());
  }
}
