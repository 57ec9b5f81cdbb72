/** The cost of gradients on their way, each part by itself: from the device, reduced, to the device. */
import { type DeviceHandle, type distributed, Tensor, withDevice } from "../../mod.ts";
import { backendOf, completedSync } from "../../backend/internal.ts";
import {
  Bucket,
  BUCKET_BYTES,
  bytesOf,
  groupBySize,
} from "../../tensor/distributed/exchange/bucket.ts";
import { FlatLayout } from "../../tensor/distributed/exchange/flat_layout.ts";
import type { Model } from "./models.ts";

/** Milliseconds for all gradients of a model. */
export interface Parts {
  readonly readMs: number;
  readonly reduceMs: number;
  readonly writeMs: number;
}

const ROUNDS = 7;

/** Times the parts for tensors of the parameters' shapes. */
export async function partsOf(
  model: Model,
  device: DeviceHandle,
  group: distributed.Group,
): Promise<Parts> {
  const tensors = withDevice(
    device,
    () => model.make().parameters().map(({ shape }) => Tensor.zeros(shape).realize()),
  );
  const communicator = group.communicator();
  const buckets = groupBySize(tensors, bytesOf, BUCKET_BYTES)
    .map((part) => {
      const layout = new FlatLayout(part.map(bytesOf)), backend = backendOf(device);
      const block = backend.memory.allocate(layout.size);
      return { block, bucket: new Bucket(backend, layout.size) };
    });
  const rounds = { read: [] as number[], reduce: [] as number[], write: [] as number[] };
  for (let round = 0; round < ROUNDS; round++) {
    await group.barrier();
    const start = performance.now();
    for (const { block, bucket } of buckets) bucket.read(block);
    for (const { bucket } of buckets) completedSync("read", { isDone: () => bucket.isRead() });
    const read = performance.now();
    const operations = buckets.map(({ bucket }) =>
      communicator.allReduce(bucket.bytes, "float32", "sum")
    );
    for (const operation of operations) completedSync("reduce", operation);
    const reduced = performance.now();
    for (const { bucket } of buckets) bucket.upload().release();
    for (const { bucket } of buckets) bucket.finishCopies();
    rounds.read.push(read - start);
    rounds.reduce.push(reduced - read);
    rounds.write.push(performance.now() - reduced);
  }
  for (const { bucket, block } of buckets) {
    bucket[Symbol.dispose]();
    block.release();
  }
  const median = (times: number[]) => times.toSorted((a, b) => a - b)[ROUNDS >> 1]!;
  return {
    readMs: median(rounds.read),
    reduceMs: group.size === 1 ? 0 : median(rounds.reduce),
    writeMs: median(rounds.write),
  };
}
