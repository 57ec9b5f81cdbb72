/**
 * The mean of all ranks' gradients, in buckets. While backward computes the gradients of one bucket on
 * the device, an earlier one is copied to the host and reduced.
 */
import {
  backendOf,
  type Communicator,
  completedSync,
  dtypes,
  unrecorded,
  type WireType,
} from "../../backend/internal.ts";
import { realizeInOrder } from "../execution/realization.ts";
import { internally } from "../core/modes/temporaries.ts";
import { exposed } from "../core/internals.ts";
import type { Tensor } from "../core/tensor.ts";
import { Bucket, groupBySize, storedTensor } from "./bucket.ts";
import { Pipeline } from "./pipeline.ts";
import type { StateBroadcast } from "./state_broadcast.ts";
import { wireTypeOf } from "./wire.ts";

/** Parameters whose gradients travel together, and behind them a mark for each that has one. */
interface GradientBucket {
  readonly parameters: readonly Tensor[];
  readonly wire: WireType;
  readonly bucket: Bucket;
}

/** Reduces the gradients of parameters, in the same buckets every time. */
export class GradientReducer implements Disposable {
  readonly #parameters: readonly Tensor[];
  readonly #communicator: Communicator;
  readonly #bucketBytes: number;
  readonly #state: StateBroadcast | null;
  #buckets: readonly GradientBucket[] | null = null;

  /**
   * @param parameters All that is learned, in the same order on every rank.
   * @param state What rank 0 sends with the gradients.
   */
  constructor(
    parameters: readonly Tensor[],
    communicator: Communicator,
    bucketBytes: number,
    state: StateBroadcast | null,
  ) {
    this.#parameters = parameters;
    this.#communicator = communicator;
    this.#bucketBytes = bucketBytes;
    this.#state = state;
  }

  /**
   * Replaces every gradient by its mean over the ranks; a rank without one counts as zeros.
   *
   * @param order The parameters that `backward` reached, those first whose gradients it finished first.
   * @throws {InterruptedError} At Ctrl+C.
   */
  reduce(order: readonly Tensor[]): void {
    this.#buckets ??= this.#layOut(order);
    // Within a compiled function it is no part of what is replayed.
    unrecorded(() => this.#reduce(this.#buckets!));
  }

  #reduce(buckets: readonly GradientBucket[]): void {
    const pipeline = new Pipeline(), { size } = this.#communicator;
    const parts = internally(() =>
      buckets.map(({ parameters, wire }) =>
        parameters.map(({ grad }) => grad === null ? null : grad.cast(wire).mul(1 / size))
      )
    );
    realizeInOrder(parts.map((part) => part.filter((x) => x !== null)), (k) => {
      this.#begin(buckets[k]!, parts[k]!, pipeline);
      pipeline.isDone();
    });
    this.#state?.begin(pipeline);
    completedSync("reduce gradients", pipeline);
  }

  #begin(
    { bucket, wire, parameters }: GradientBucket,
    part: readonly (Tensor | null)[],
    pipeline: Pipeline,
  ): void {
    bucket.read(part);
    marksOf(bucket, wire).set(part.map((x) => x === null ? 0 : 1));
    pipeline.add({
      bucket,
      communicate: () => this.#communicator.allReduce(bucket.bytes, wire, "sum"),
      take: () => this.#take(bucket, wire, parameters, part),
    });
  }

  #take(
    bucket: Bucket,
    wire: WireType,
    parameters: readonly Tensor[],
    part: readonly (Tensor | null)[],
  ): void {
    const stored = bucket.write(), marks = marksOf(bucket, wire);
    internally(() => {
      parameters.forEach((parameter, k) => {
        part[k]?.dispose();
        if (marks[k] === 0) return stored[k]!.release();
        parameter.grad?.dispose();
        const like = part[k] ?? parameter.cast(wire);
        parameter.grad = exposed(storedTensor(stored[k]!, like).cast(parameter.dtype));
      });
    });
  }

  /** The order of rank 0 for all: ranks may have reached different parameters. */
  #layOut(order: readonly Tensor[]): GradientBucket[] {
    const places = new Map(this.#parameters.map((parameter, k) => [parameter, k]));
    const reached = order.map((parameter) => places.get(parameter)!);
    const seen = new Set(reached);
    const own = [...reached, ...[...places.values()].filter((k) => !seen.has(k))];
    const agreed = Int32Array.from(own), bytes = new Uint8Array(agreed.buffer);
    completedSync("agree on buckets", this.#communicator.broadcast(bytes, 0));
    return runsOf([...agreed].map((k) => this.#parameters[k]!)).flatMap(({ wire, parameters }) =>
      groupBySize(parameters, ({ size }) => size * dtypes[wire].bytes, this.#bucketBytes)
        .map((part) => bucketOf(part, wire))
    );
  }

  /** Gives the memory back. */
  [Symbol.dispose](): void {
    for (const { bucket } of this.#buckets ?? []) bucket[Symbol.dispose]();
    this.#buckets = null;
  }
}

/** Parameters in the order of the first of their kind: those of one device and type. */
function runsOf(parameters: readonly Tensor[]): { wire: WireType; parameters: Tensor[] }[] {
  const runs = new Map<string, { wire: WireType; parameters: Tensor[] }>();
  for (const parameter of parameters) {
    const wire = wireTypeOf(parameter.dtype, "mean");
    const key = `${parameter.device.selector} ${wire}`;
    const known = runs.get(key);
    if (known) known.parameters.push(parameter);
    else runs.set(key, { wire, parameters: [parameter] });
  }
  return [...runs.values()];
}

function bucketOf(parameters: readonly Tensor[], wire: WireType): GradientBucket {
  const { bytes } = dtypes[wire], sizes = parameters.map(({ size }) => size * bytes);
  const backend = backendOf(parameters[0]!.device);
  return { parameters, wire, bucket: new Bucket(backend, sizes, parameters.length * bytes) };
}

/** How many ranks have a gradient, one number a parameter, behind the gradients. */
function marksOf({ extra }: Bucket, wire: WireType): Float32Array | Float64Array {
  const { buffer, byteOffset, byteLength } = extra, { bytes } = dtypes[wire];
  const View = wire === "float64" ? Float64Array : Float32Array;
  return new View(buffer, byteOffset, byteLength / bytes);
}
