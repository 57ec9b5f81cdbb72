import { checkIndex, type Dataset, type Field, requireDataset } from "./dataset.ts";
import { shuffled } from "./shuffle.ts";
import { checkOptions, requireValue, takes } from "../core/rules/options.ts";

/** Some samples of another dataset, in an order of their own. */
export class Subset<Fields extends Field[] = Field[]> implements Dataset<Fields> {
  /** The number of samples. */
  readonly length: number;
  /** The dataset that the samples come from. */
  readonly dataset: Dataset<Fields>;
  /** Their positions in it. */
  readonly indices: readonly number[];
  /** Whole batches at once, where the dataset below can do that. */
  readonly getBatch?: (indices: readonly number[]) => Fields | Promise<Fields>;

  /**
   * Keeps the indices; samples are read when they are asked for.
   *
   * @param dataset The dataset that the samples come from.
   * @param indices Where they are in it; an index may come more than once.
   * @throws {RangeError} For an index that is not one of the dataset.
   */
  constructor(dataset: Dataset<Fields>, indices: readonly number[]) {
    requireDataset("take a part of", dataset);
    requireValue("take a part of a dataset", "indices", indices, takes.list);
    for (const index of indices) checkIndex(index, dataset.length);
    this.dataset = dataset;
    this.indices = indices;
    this.length = indices.length;
    if (dataset.getBatch) {
      this.getBatch = (batch) => dataset.getBatch!(batch.map((index) => this.#below(index)));
    }
  }

  /**
   * One sample.
   *
   * @param index From 0 to `length - 1`.
   * @throws {RangeError} For any other.
   */
  get(index: number): Fields | Promise<Fields> {
    return this.dataset.get(this.#below(index));
  }

  #below(index: number): number {
    checkIndex(index, this.length);
    return this.indices[index]!;
  }
}

/**
 * Splits a dataset at random into parts that share no sample, such as one to train on and one to
 * test with.
 *
 * @param dataset The dataset.
 * @param parts Either counts that add up to the dataset's length, or fractions that add up to 1.
 *   What rounding leaves over goes to the first parts, one sample each.
 * @param options The seed of the order: the same one gives the same parts. Without it the order
 *   depends on `manualSeed`.
 * @returns One part for every entry of `parts`.
 * @throws {RangeError} Where the parts do not add up.
 *
 * @example
 * ```ts
 * import { randomSplit, TensorDataset } from "@netcl/netcl";
 *
 * const all = new TensorDataset({ data: new Float32Array(10), shape: [10] });
 * const [train, test] = randomSplit(all, [0.8, 0.2], { seed: 1 });
 * console.assert(train.length === 8 && test.length === 2);
 * ```
 */
export function randomSplit<Fields extends Field[], const Parts extends readonly number[]>(
  dataset: Dataset<Fields>,
  parts: Parts,
  options: { seed?: number } = {},
): { -readonly [K in keyof Parts]: Subset<Fields> } {
  requireDataset("split", dataset);
  requireValue("split a dataset", "parts", parts, takes.list);
  checkOptions("split a dataset", options, { seed: takes.whole });
  const counts = partCounts(parts, dataset.length);
  const order = shuffled(dataset.length, options.seed);
  let start = 0;
  const subsets = counts.map((count) => new Subset(dataset, order.slice(start, start += count)));
  return subsets as { -readonly [K in keyof Parts]: Subset<Fields> };
}

function partCounts(parts: readonly number[], total: number): number[] {
  const sum = parts.reduce((a, b) => a + b, 0);
  const valid = parts.every((part) => Number.isFinite(part) && part >= 0);
  if (valid && sum === total && parts.every(Number.isInteger)) return [...parts];
  if (!valid || Math.abs(sum - 1) > 1e-9) {
    const given = parts.join(", ");
    throw new RangeError(
      `Cannot split ${total} samples by [${given}]: pass counts that add up to ${total}, or ` +
        "fractions that add up to 1",
    );
  }
  // A product such as 0.29 * 100 may fall short of the whole number that it stands for.
  const counts = parts.map((part) => Math.floor(part * total + 1e-9));
  const left = total - counts.reduce((a, b) => a + b, 0);
  return counts.map((count, i) => count + (i < left ? 1 : 0));
}
