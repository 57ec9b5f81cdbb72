/**
 * From samples to batches: datasets, seeded splits, and the loader that brings batches to the
 * device ahead of their use.
 *
 * Imports the public Tensor API and the active device.
 *
 * @module
 */
export { type Dataset, type Field, type FieldsOf, TensorDataset } from "./dataset.ts";
export { stackSamples } from "./collate.ts";
export { randomSplit, Subset } from "./random_split.ts";
export {
  DataLoader,
  type DataLoaderOptions,
  type DataLoaderState,
  type Shard,
  type WorkerOptions,
} from "./data_loader.ts";
