/** Values of one rank for all: rank 0's weights at the start, buffers after every step. */
import {
  backendOf,
  type Communicator,
  type DeviceHandle,
  type NodeStorage,
  releaseTransient,
  type Sign,
} from "../../../backend/internal.ts";
import { releasingTogether } from "../../../memory/mod.ts";
import { realizeAll } from "../../execution/realization.ts";
import { internally } from "../../core/modes/temporaries.ts";
import { stateOf } from "../../core/internals.ts";
import type { Tensor } from "../../core/mod.ts";
import { Bucket, BUCKET_BYTES, bytesOf, groupBySize, storagesOf, storedTensor } from "./bucket.ts";
import { FlatLayout } from "./flat_layout.ts";
import { Packer } from "./packer.ts";
import type { Pipeline } from "./pipeline.ts";

/** Gives all ranks the values that one has. */
export interface StateSender extends Disposable {
  /** Begins with it; over when the pipeline is, or the device waits for the rest. */
  begin(pipeline: Pipeline): void;
}

/** Tensors of one device that travel together. */
interface Part {
  readonly device: DeviceHandle;
  readonly tensors: readonly Tensor[];
  /** Of bytes. */
  readonly layout: FlatLayout;
  readonly packer: Packer;
  readonly bucket: Bucket;
}

/** Sends tensors from one rank to all others by MPI, through buckets that stay. */
export class StateBroadcast implements StateSender {
  readonly #communicator: Communicator;
  readonly #root: number;
  readonly #parts: readonly Part[];

  /** Reserves the buckets. */
  constructor(tensors: readonly Tensor[], communicator: Communicator, root = 0) {
    this.#root = root;
    this.#communicator = communicator;
    this.#parts = [...Map.groupBy(tensors, ({ device }) => device)].flatMap(([device, all]) =>
      groupBySize(all, bytesOf, BUCKET_BYTES).map((tensors) => {
        const layout = new FlatLayout(tensors.map(bytesOf));
        const packer = new Packer(device, layout, tensors.map(({ dtype }) => dtype), null);
        const bucket = new Bucket(backendOf(device), layout.size);
        return { device, tensors, layout, packer, bucket };
      })
    );
  }

  /** Adds the buckets to what is under way. */
  begin(pipeline: Pipeline): void {
    const isRoot = this.#communicator.rank === this.#root;
    for (const part of this.#parts) {
      const { bucket } = part;
      if (isRoot) readSideBySide(part.tensors, part);
      pipeline.add({
        bucket,
        communicate: () => this.#communicator.broadcast(bucket.bytes, this.#root),
        take: () => isRoot ? bucket.releaseHeld() : give(part),
      });
    }
  }

  /** Gives the memory back. */
  [Symbol.dispose](): void {
    for (const { bucket, packer } of this.#parts) {
      bucket[Symbol.dispose]();
      packer[Symbol.dispose]();
    }
  }
}

/** Begins to read tensors to a bucket, side by side. */
export function readSideBySide(
  tensors: readonly Tensor[],
  { packer, bucket, sign }: {
    readonly packer: Packer;
    readonly bucket: Bucket;
    readonly sign?: Sign;
  },
): void {
  realizeAll(tensors);
  const storages = storagesOf(tensors), packed = packer.pack(storages.map((s) => s.handle));
  packed.hold(storages);
  bucket.read(packed.block, sign);
  bucket.hold(packed);
}

function give({ device, tensors, layout, bucket }: Part): void {
  const stored = layout.divide(backendOf(device), bucket.upload(), 1);
  giveValues(tensors, tensors.map((tensor, k) => storedTensor(stored[k]!, tensor)));
}

/** Gives tensors values that are in new blocks, each its own; takes over the references. */
export function giveStored(tensors: readonly Tensor[], stored: readonly NodeStorage[]): void {
  // As with an assignment: activations of the step before are needed no more.
  releaseTransient(backendOf(tensors[0]!.device).memory);
  releasingTogether(() =>
    tensors.forEach((tensor, k) => stateOf(tensor).replaceStored(stored[k]!))
  );
}

/** Gives tensors values that are in memory; the former ones go at once. */
export function giveValues(tensors: readonly Tensor[], values: readonly Tensor[]): void {
  internally(() => tensors.forEach((tensor, k) => tensor.assign(values[k]!)));
  realizeAll(tensors);
  for (const tensor of tensors) stateOf(tensor).dropFormer();
  for (const value of values) value.dispose();
}
