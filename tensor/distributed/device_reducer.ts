/**
 * The sum of several devices' gradients, on the first of them. Those of the others travel in buckets
 * through host memory, while later ones are still computed.
 */
import { backendOf, completedSync, Node, unrecorded } from "../../backend/internal.ts";
import { exposed, makeTensor } from "../core/internals.ts";
import { internally } from "../core/modes/temporaries.ts";
import { realizeInOrder } from "../execution/realization.ts";
import type { Tensor } from "../core/tensor.ts";
import { Bucket, bytesOf, groupBySize } from "./exchange/bucket.ts";
import { done, Pipeline } from "./exchange/pipeline.ts";
import type { Replica } from "./replicas.ts";

/** Gradients of one device that travel together. */
interface GradientBucket {
  readonly parameters: readonly Tensor[];
  readonly bucket: Bucket;
}

/** Adds up the gradients of replicas. */
export class DeviceReducer implements Disposable {
  readonly #parameters: readonly Tensor[];
  readonly #replicas: readonly Replica[];
  readonly #bucketBytes: number;
  /** By replica. */
  #buckets: readonly (readonly GradientBucket[])[] | null = null;

  /** @param parameters All that is learned, on the first device. */
  constructor(
    parameters: readonly Tensor[],
    replicas: readonly Replica[],
    bucketBytes: number,
  ) {
    this.#parameters = parameters;
    this.#replicas = replicas;
    this.#bucketBytes = bucketBytes;
  }

  /**
   * Adds the replicas' gradients to the parameters', and takes them from the replicas.
   *
   * @param order The tensors that `backward` reached, those first whose gradients it finished first.
   * @param factor What the sums are multiplied by.
   * @throws {InterruptedError} At Ctrl+C.
   */
  reduce(order: readonly Tensor[], factor: number): void {
    this.#buckets ??= this.#layOut(order);
    unrecorded(() => this.#reduce(this.#buckets!, factor));
  }

  /** Has a device begin with its gradients; the first one's are needed where they are. */
  begin(device: number): void {
    if (device > 0) return;
    realizeInOrder([this.#parameters.flatMap(({ grad }) => grad ?? [])], () => {});
  }

  #reduce(buckets: readonly (readonly GradientBucket[])[], factor: number): void {
    // The first device works on its own backward meanwhile.
    this.begin(0);
    const pipeline = new Pipeline();
    const terms = new Map<Tensor, Tensor[]>(
      this.#parameters.map((parameter) => [parameter, parameter.grad ? [parameter.grad] : []]),
    );
    this.#replicas.forEach((replica, r) => this.#send(replica, buckets[r]!, terms, pipeline));
    completedSync("add up gradients", pipeline);
    internally(() => {
      for (const [parameter, parts] of terms) {
        if (parts.length === 0) continue;
        const former = parameter.grad, sum = parts.reduce((a, b) => a.add(b));
        parameter.grad = exposed((factor === 1 ? sum : sum.mul(factor)).detach());
        former?.dispose();
        for (const part of parts) if (part !== former) part.dispose();
      }
    });
  }

  /** Has the gradients of a replica computed, read and sent to the first device. */
  #send(
    { copies }: Replica,
    buckets: readonly GradientBucket[],
    terms: ReadonlyMap<Tensor, Tensor[]>,
    pipeline: Pipeline,
  ): void {
    const parts = buckets.map(({ parameters }) => parameters.map((p) => copies.get(p)!.grad));
    realizeInOrder(parts.map((part) => part.filter((x) => x !== null)), (b) => {
      const { bucket, parameters } = buckets[b]!, part = parts[b]!;
      if (part.every((x) => x === null)) return;
      bucket.read(part);
      pipeline.add({
        bucket,
        communicate: () => done,
        take: () => this.#land(parameters, part, bucket, terms),
      });
      pipeline.isDone();
    });
    for (const copy of copies.values()) {
      copy.grad?.dispose();
      copy.grad = null;
    }
  }

  #land(
    parameters: readonly Tensor[],
    part: readonly (Tensor | null)[],
    bucket: Bucket,
    terms: ReadonlyMap<Tensor, Tensor[]>,
  ): void {
    const { device } = parameters[0]!, stored = bucket.upload(backendOf(device));
    internally(() => {
      parameters.forEach((parameter, k) => {
        const { shape, dtype } = parameter;
        const landed = makeTensor(Node.stored(stored[k]!, shape, dtype), device);
        if (part[k]) terms.get(parameter)!.push(landed);
        else landed.dispose();
      });
    });
  }

  /** Buckets in the order in which gradients are finished; parameters that were not reached come last. */
  #layOut(order: readonly Tensor[]): readonly (readonly GradientBucket[])[] {
    const originals = new Map<Tensor, Tensor>();
    for (const parameter of this.#parameters) {
      originals.set(parameter, parameter);
      for (const { copies } of this.#replicas) originals.set(copies.get(parameter)!, parameter);
    }
    const reached = order.flatMap((tensor) => originals.get(tensor) ?? []);
    const sorted = [...new Set([...reached, ...this.#parameters])];
    const groups = groupBySize(sorted, bytesOf, this.#bucketBytes);
    return this.#replicas.map(({ device }) =>
      groups.map((parameters) => ({
        parameters,
        bucket: new Bucket(backendOf(device), parameters.map(bytesOf)),
      }))
    );
  }

  /** Gives the memory back. */
  [Symbol.dispose](): void {
    for (const { bucket } of (this.#buckets ?? []).flat()) bucket[Symbol.dispose]();
    this.#buckets = null;
  }
}
