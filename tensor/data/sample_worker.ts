/**
 * Worker of a `DataLoader`: reads the samples that it is asked for. Nobody imports it.
 *
 * @module
 */
import type { TypedArray } from "../../backend/internal.ts";
import { host } from "../core/rules/host.ts";
import type { Dataset, Field } from "./dataset.ts";

/** Request of the loader: the module of the dataset first of all, then samples. */
export type Request = { readonly module: string } | {
  readonly id: number;
  readonly indices: readonly number[];
};

/** Answer of a worker: samples in the order of the request, or why there are none. */
export interface Answer {
  /** The number of the request. */
  readonly id: number;
  /** Samples, if all is well. */
  readonly samples?: Field[][];
  /** Failed read, in words, where something failed. */
  readonly what?: string;
  /** The thrown value. */
  readonly error?: unknown;
}

const port = host.workerPort();

let dataset: Promise<Dataset>;

port.listen((request: Request) => {
  if (!("module" in request)) return void answer(request.id, request.indices);
  dataset = load(request.module);
  dataset.catch(() => {}); // told to whoever asks for samples
});

async function load(module: string): Promise<Dataset> {
  const { default: exported } = await import(module);
  if (typeof exported?.get === "function") return exported;
  throw new TypeError(`Its default export is no dataset: it has no method "get"`);
}

async function answer(id: number, indices: readonly number[]): Promise<void> {
  let what = "the dataset";
  try {
    const source = await dataset;
    const samples: OwnField[][] = [];
    for (const index of indices) {
      what = `sample ${index}`;
      samples.push((await source.get(index)).map(own));
    }
    port.post({ id, samples }, samples.flat().map(({ data }) => data.buffer));
  } catch (error) {
    port.post({ id, what, error: cloneable(error) });
  }
}

/** A field whose memory can be given away. */
type OwnField = Field & { readonly data: TypedArray };

/** A copy that can be given away: an array of a dataset may be a part of all its data. */
function own(field: Field): OwnField {
  return { ...field, data: field.data.slice() };
}

/** An error as it is, where it can travel; else its text. */
function cloneable(error: unknown): unknown {
  try {
    return structuredClone(error);
  } catch {
    return new Error(String(error));
  }
}
