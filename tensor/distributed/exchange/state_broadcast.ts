/** Values of one rank for all: rank 0's weights at the start, buffers after every step. */
import {
  backendOf,
  type Communicator,
  type DeviceHandle,
  type NodeStorage,
  releaseTransient,
} from "../../../backend/internal.ts";
import { realizeAll } from "../../execution/realization.ts";
import { internally } from "../../core/modes/temporaries.ts";
import { stateOf } from "../../core/internals.ts";
import type { Tensor } from "../../core/tensor.ts";
import { Bucket, BUCKET_BYTES, bytesOf, groupBySize, storedTensor } from "./bucket.ts";
import type { Pipeline } from "./pipeline.ts";

/** Gives all ranks the values that one has. */
export interface StateSender extends Disposable {
  /** Begins with it; over when the pipeline is, or the device waits for the rest. */
  begin(pipeline: Pipeline): void;
}

/** Sends tensors from one rank to all others by MPI, through buckets that stay. */
export class StateBroadcast implements StateSender {
  readonly #communicator: Communicator;
  readonly #root: number;
  readonly #parts: { readonly tensors: readonly Tensor[]; readonly bucket: Bucket }[];

  /** Reserves the buckets. */
  constructor(tensors: readonly Tensor[], communicator: Communicator, root = 0) {
    this.#root = root;
    const byDevice = new Map<DeviceHandle, Tensor[]>();
    for (const tensor of tensors) {
      const known = byDevice.get(tensor.device);
      if (known) known.push(tensor);
      else byDevice.set(tensor.device, [tensor]);
    }
    this.#communicator = communicator;
    this.#parts = [...byDevice.values()].flatMap((all) => groupBySize(all, bytesOf, BUCKET_BYTES))
      .map((part) => ({
        tensors: part,
        bucket: new Bucket(backendOf(part[0]!.device), part.map(bytesOf)),
      }));
  }

  /** Adds the buckets to what is under way. */
  begin(pipeline: Pipeline): void {
    const isRoot = this.#communicator.rank === this.#root;
    for (const { tensors, bucket } of this.#parts) {
      if (isRoot) bucket.read(tensors);
      pipeline.add({
        bucket,
        communicate: () => this.#communicator.broadcast(bucket.bytes, this.#root),
        take: () => isRoot ? bucket.forget() : give(tensors, bucket),
      });
    }
  }

  /** Gives the memory back. */
  [Symbol.dispose](): void {
    for (const { bucket } of this.#parts) bucket[Symbol.dispose]();
  }
}

function give(tensors: readonly Tensor[], bucket: Bucket): void {
  const stored = bucket.upload();
  giveValues(tensors, tensors.map((tensor, k) => storedTensor(stored[k]!, tensor)));
}

/** Gives tensors values that are in new blocks, each its own; takes over the references. */
export function giveStored(tensors: readonly Tensor[], stored: readonly NodeStorage[]): void {
  // As with an assignment: activations of the step before are needed no more.
  releaseTransient(backendOf(tensors[0]!.device).memory);
  tensors.forEach((tensor, k) => stateOf(tensor).replaceStored(stored[k]!));
}

/** Gives tensors values that are in memory; the former ones go at once. */
export function giveValues(tensors: readonly Tensor[], values: readonly Tensor[]): void {
  internally(() => tensors.forEach((tensor, k) => tensor.assign(values[k]!)));
  realizeAll(tensors);
  for (const tensor of tensors) stateOf(tensor).dropFormer();
  for (const value of values) value.dispose();
}
