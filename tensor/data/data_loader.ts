import {
  type DeviceHandle,
  interruptible,
  isInterrupted,
  manager,
} from "../../backend/internal.ts";
import { Tensor } from "../class/tensor.ts";
import { stackSamples } from "./collate.ts";
import { type Dataset, type Field, fieldList, requireDataset } from "./dataset.ts";
import type { TensorsOf } from "../core/arguments.ts";
import { drawKey, permutation, weightedOrder } from "./shuffle.ts";
import { WorkerPool } from "./worker_pool.ts";
import { checkOptions, requireValue, type Rules, takes } from "../core/rules/options.ts";

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
  /** Number of workers; more than `prefetch + 1` have nothing to do. */
  readonly count: number;
}

/** Options of a {@link DataLoader}. */
export interface DataLoaderOptions {
  /** Samples a batch; 1 unless given. */
  batchSize?: number;
  /** True when every pass sees the samples in a new random order; false by default. */
  shuffle?: boolean;
  /** True when a last batch that is not full is left out; false by default. */
  dropLast?: boolean;
  /**
   * A weight for each sample: a pass draws as many samples as there are, each by its weight and with
   * replacement, so that rare classes are seen as often as others. Not with `shuffle`.
   */
  weights?: ArrayLike<number>;
  /** Number of batches read and copied to the device ahead of the one in use; 2 unless given. */
  prefetch?: number;
  /** True when batches go to the device by way of pinned memory; false by default. */
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
  /**
   * This process's part of every batch, where several learn together: `batchSize` samples are of this
   * process, `size` times as many of all. All must draw the same order: pass `seed`, or the same to
   * `manualSeed`; a group of `distributed.init()` brings a seed of all. A last batch that does not
   * divide is filled up with the first samples.
   */
  shard?: Shard;
}

/** One of several processes. */
export interface Shard {
  /** Number of it, from 0. */
  readonly rank: number;
  /** Number of all. */
  readonly size: number;
  /** Seed of orders where the loader has no seed of its own; the same for all. */
  readonly seed?: number;
}

/** Place of a {@linkcode DataLoader}; plain values, for JSON. */
export interface DataLoaderState {
  /** Number of passes begun before this one. */
  pass: number;
  /** Number of batches of this pass given out. */
  position: number;
  /** Key by which the order of this pass was drawn, where no `seed` says it. */
  key: { seed: number; draw: number } | null;
  /** The samples of the dataset: as many must be there where it goes on. */
  samples: number;
  /** The samples of a batch, too. */
  batchSize: number;
}

const stateRules: Rules<DataLoaderState> = {
  pass: takes.whole,
  position: takes.whole,
  key: takes.orNull(takes.object("an object { seed, draw }")),
  samples: takes.whole,
  batchSize: takes.count,
};

/** A pass, and how far it has come. */
interface Place {
  readonly pass: number;
  position: number;
  readonly key: { readonly seed: number; readonly draw: number } | null;
}

/** Samples that a loader goes through, named by their fields; or whatever gives the tensors named. */
type DatasetOf<Parts extends (Field | Tensor)[]> = Parts extends Field[] ? Dataset<Parts> : Dataset;

/** The samples of a pass, one after the other: an array, or what needs none. */
interface Order {
  readonly length: number;
  at(place: number): number | undefined;
}

/** An order of chance is an array, and V8 has larger ones as slow tables only. */
const MAX_DRAWN = 2 ** 27;

const rules: Rules<DataLoaderOptions> = {
  batchSize: takes.count,
  shuffle: takes.bool,
  weights: takes.object("an array of numbers of at least 0"),
  dropLast: takes.bool,
  prefetch: takes.whole,
  pinMemory: takes.bool,
  seed: takes.whole,
  collate: takes.callback,
  workers: takes.object("an object { module, count }"),
  shard: takes.object("an object { rank, size }"),
};

const shardRules: Rules<Shard> = { rank: takes.whole, size: takes.count, seed: takes.whole };

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
 *   console.assert(x.shape[1] === 3 && y.shape[0] === x.shape[0]);
 *   x.dispose();
 *   y.dispose();
 * }
 * ```
 */
export class DataLoader<Parts extends (Field | Tensor)[] | [Field | Tensor] = Field[]>
  implements AsyncIterable<TensorsOf<Parts>> {
  /** The batches of one pass. */
  readonly length: number;
  readonly #dataset: Dataset;
  readonly #batchSize: number;
  readonly #prefetch: number;
  readonly #options: DataLoaderOptions;
  readonly #shard: Shard;
  #passes = 0;
  /** The last pass that was begun, unless it has come to its end. */
  #place: Place | null = null;
  /** Place where the next pass goes on. */
  #resumed: Place | null = null;

  /**
   * Checks the options; nothing is read before a pass begins.
   *
   * @param dataset Where the samples come from.
   * @param options How batches are made of them.
   * @throws {RangeError} For a batch size, a prefetch or a seed that cannot be.
   */
  constructor(dataset: DatasetOf<Parts>, options: DataLoaderOptions = {}) {
    const samples = dataset as Dataset;
    requireDataset("load from", samples);
    checkOptions("make a DataLoader", options, rules);
    if (options.workers) {
      checkOptions("start the workers of a DataLoader", options.workers, workerRules, [
        "module",
        "count",
      ]);
    }
    const { batchSize = 1, prefetch = 2, dropLast = false } = options;
    this.#shard = checkedShard(options.shard);
    if (options.weights) checkWeights(options.weights, samples.length, options.shuffle);
    this.#dataset = samples;
    this.#batchSize = batchSize;
    this.#prefetch = prefetch;
    this.#options = options;
    const batches = samples.length / (batchSize * this.#shard.size);
    this.length = dropLast ? Math.floor(batches) : Math.ceil(batches);
  }

  /** Begins a pass; with `shuffle` every pass has an order of its own. */
  [Symbol.asyncIterator](): AsyncIterator<TensorsOf<Parts>, undefined> {
    const { shuffle, weights, seed = this.#shard.seed } = this.#options;
    const isDrawn = (shuffle || weights) && seed === undefined;
    const place = this.#resumed ??
      { pass: this.#passes, position: 0, key: isDrawn ? drawKey() : null };
    this.#resumed = null;
    this.#passes = place.pass + 1;
    this.#place = place;
    return this.#pass(place, manager.active) as AsyncIterator<TensorsOf<Parts>, undefined>;
  }

  /**
   * State of the loader: in a loop's body, behind the batch in use; after a pass, before
   * the next one.
   *
   * @example
   * ```ts
   * import { DataLoader, TensorDataset } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const dataset = new TensorDataset({ data: Float32Array.of(1, 2, 3, 4), shape: [4] });
   * const first = new DataLoader(dataset, { shuffle: true }), again = new DataLoader(dataset, { shuffle: true });
   * const seen: unknown[] = [];
   * for await (const [x] of first) {
   *   if (seen.push(await x.item()) === 2) break;
   * }
   * again.loadStateDict(first.stateDict());
   * for await (const [x] of again) seen.push(await x.item());
   * assertEquals(seen.sort(), [1, 2, 3, 4]);
   * ```
   */
  stateDict(): DataLoaderState {
    const place = this.#resumed ?? this.#place ?? { pass: this.#passes, position: 0, key: null };
    return { ...place, samples: this.#dataset.length, batchSize: this.#batchSize };
  }

  /**
   * The next pass goes on where `stateDict` was called: in the same order, behind the batches that were
   * given out.
   *
   * @throws {RangeError} When the dataset or the batches are of another size.
   */
  loadStateDict(state: DataLoaderState): void {
    const action = "load the state of a DataLoader";
    requireValue(action, "state", state, takes.object("what stateDict() returned"));
    checkOptions(action, state, stateRules, ["pass", "position", "key", "samples", "batchSize"]);
    const { pass, position, key, samples, batchSize } = state, { length } = this.#dataset;
    if (samples !== length || batchSize !== this.#batchSize || position > this.length) {
      throw new RangeError(
        `Cannot ${action} of ${samples} samples in batches of ${batchSize}: this one has ${length} ` +
          `in batches of ${this.#batchSize}`,
      );
    }
    this.#place = null;
    this.#passes = pass;
    // At the beginning of a pass nothing was drawn for it yet.
    this.#resumed = position === 0 && key === null ? null : { pass, position, key };
  }

  #order({ pass, key }: Place): Order {
    const { length } = this.#dataset, { shuffle, weights } = this.#options;
    if (!shuffle && !weights) return { length, at: (place) => place };
    if (length > MAX_DRAWN) {
      throw new RangeError(
        `Cannot shuffle ${length} samples: at most ${MAX_DRAWN} are drawn from; draw in the ` +
          "dataset's get(), or load parts of it",
      );
    }
    const { seed = this.#shard.seed ?? 0 } = this.#options;
    const by = key ?? { seed, draw: pass };
    if (weights) return weightedOrder(weights, by.seed, by.draw);
    return permutation(length, by.seed, by.draw);
  }

  async *#pass(place: Place, device: DeviceHandle): AsyncGenerator<Tensor[], undefined> {
    const order = this.#order(place);
    const { workers } = this.#options;
    const pool = workers ? new WorkerPool(workers.module, workers.count) : null;
    const ahead: Promise<Tensor[]>[] = [];
    let next = place.position;
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
        place.position++;
        ahead.shift(); // not before: a batch that arrives after Ctrl+C is given back too
        yield batch;
      }
      if (this.#place === place) this.#place = null;
    } finally {
      pool?.[Symbol.dispose]();
      // Ctrl+C waits for no dataset: what still arrives is given back by itself.
      const givenBack = disposeAll(ahead);
      if (!isInterrupted()) await interruptible(givenBack);
    }
  }

  async #batch(
    order: Order,
    position: number,
    device: DeviceHandle,
    pool: WorkerPool | null,
  ): Promise<Tensor[]> {
    const { pinMemory = false } = this.#options;
    const indices = this.#indices(order, position);
    const fields = await this.#fields(indices, pool);
    requireValue("load a batch", "fields", fields, fieldList);
    return fields.map(({ data, shape, dtype }) =>
      Tensor.fromHost(data, { shape, ...dtype && { dtype }, device, pinMemory }).realize()
    );
  }

  /** This process's samples of a batch of all. */
  #indices(order: Order, position: number): number[] {
    const { rank, size } = this.#shard, { length } = order;
    const start = position * this.#batchSize * size;
    const count = Math.ceil(Math.min(this.#batchSize * size, length - start) / size);
    return Array.from({ length: count }, (_, k) => order.at((start + rank * count + k) % length)!);
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

function checkWeights(weights: ArrayLike<number>, length: number, shuffle = false): void {
  const action = "make a DataLoader with weights";
  if (shuffle) throw new TypeError(`Cannot ${action} and shuffle: what is drawn has no order`);
  if (weights.length !== length) {
    throw new RangeError(
      `Cannot ${action} of ${weights.length} samples: the dataset has ${length}`,
    );
  }
  const values = Array.from(weights), wrong = values.find((w) => !(w >= 0 && w < Infinity));
  if (wrong === undefined && (length === 0 || values.some((w) => w > 0))) return;
  throw new RangeError(
    `Cannot ${action} of ${wrong ?? "zeros alone"}: pass numbers of at least 0, one above it`,
  );
}

function checkedShard(shard: Shard | undefined): Shard {
  if (shard === undefined) return { rank: 0, size: 1 };
  // A group of processes is one, and has more to it.
  const { rank, size, seed } = shard, own = { rank, size, ...seed !== undefined && { seed } };
  checkOptions("make a DataLoader of a shard", own, shardRules, ["rank", "size"]);
  if (rank < size) return own;
  throw new RangeError(
    `Cannot make a DataLoader of shard ${rank} of ${size}: ranks go from 0 to ${size - 1}`,
  );
}

/** Gives back batches read ahead of a pass that ended early, also where a read failed. */
async function disposeAll(batches: readonly Promise<Tensor[]>[]): Promise<void> {
  for (const result of await Promise.allSettled(batches)) {
    if (result.status === "fulfilled") result.value.forEach((tensor) => tensor.dispose());
  }
}
