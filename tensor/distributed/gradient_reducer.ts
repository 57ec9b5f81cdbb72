/**
 * The mean of all ranks' gradients, in buckets. While backward computes the gradients of one bucket on
 * the device, an earlier one is copied to the host and reduced.
 */
import {
  type Block,
  type Communicator,
  completedSync,
  dtypes,
  Node,
  unrecorded,
  type WireType,
} from "../../backend/internal.ts";
import { realizeAll, realizeInOrder } from "../execution/realization.ts";
import { RepeatedLaunches } from "../execution/repeated_launches.ts";
import { internally } from "../core/modes/temporaries.ts";
import type { GradientReceiver } from "../core/gradient_receiver.ts";
import { exposed, makeTensor, nodeOf } from "../core/internals.ts";
import type { Tensor } from "../core/tensor.ts";
import { BUCKET_BYTES, DEVICE_BUCKET_BYTES, groupBySize } from "./exchange/bucket.ts";
import { DeviceExchange } from "./exchange/device_exchange.ts";
import {
  type GradientExchange,
  type Gradients,
  HostExchange,
  type Sums,
} from "./exchange/gradient_exchange.ts";
import { Pipeline } from "./exchange/pipeline.ts";
import type { StateSender } from "./exchange/state_broadcast.ts";
import { wireTypeOf } from "./exchange/wire.ts";

/** Parameters whose gradients travel together. */
interface GradientBucket {
  readonly parameters: readonly Tensor[];
  readonly wire: WireType;
  readonly exchange: GradientExchange;
  /** Makes what is sent of all gradients of the bucket, by their number; made at the first replay. */
  readonly packs: Map<string, RepeatedLaunches>;
}

/** A bucket whose read began while a replay still computed other gradients. */
interface EarlyRead {
  /** The gradients that were read; null for those that there were none of. */
  readonly gradients: readonly (Block | null)[];
  /** What was read: divided by the number of ranks, in the wire's type. */
  readonly part: Gradients;
}

/** How gradients are reduced. */
export interface GradientReducerOptions {
  /** Gradients that travel together; by default what suits the way that they are added up. */
  readonly bucketBytes: number | undefined;
  /** What rank 0 sends with the gradients. */
  readonly state: StateSender | null;
  /** All ranks have their devices add what they read of the others' gradients: they share memory. */
  readonly addsOnDevice: boolean;
}

/** Reduces the gradients of parameters, in the same buckets every time. */
export class GradientReducer implements GradientReceiver, Disposable {
  readonly #parameters: readonly Tensor[];
  readonly #communicator: Communicator;
  readonly #options: GradientReducerOptions;
  #buckets: readonly GradientBucket[] | null = null;
  readonly #early = new Map<GradientBucket, EarlyRead>();

  /** @param parameters All that is learned, in the same order on every rank. */
  constructor(
    parameters: readonly Tensor[],
    communicator: Communicator,
    options: GradientReducerOptions,
  ) {
    this.#parameters = parameters;
    this.#communicator = communicator;
    this.#options = options;
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

  /** The parameters of each bucket, from the second reduction on. */
  get groups(): readonly (readonly Tensor[])[] {
    return (this.#buckets ?? []).map(({ parameters }) => parameters);
  }

  /**
   * Begins to read the gradients of a bucket to the host. What is sent, and whether these are still
   * the gradients then, is the next reduction's business: so ranks need not have the same reads early.
   */
  enqueued(group: number, gradients: readonly (Block | null)[]): void {
    const bucket = this.#buckets![group]!, part = this.#pack(bucket, gradients);
    this.#dropEarly(bucket);
    bucket.exchange.read(part);
    this.#early.set(bucket, { gradients, part });
  }

  #pack(
    { parameters, wire, packs }: GradientBucket,
    gradients: readonly (Block | null)[],
  ): Gradients {
    const { device } = parameters[0]!;
    const present = parameters.filter((_, k) => gradients[k] !== null);
    const key = gradients.map((block) => block === null ? 0 : 1).join("");
    let pack = packs.get(key);
    if (!pack) {
      pack = new RepeatedLaunches(
        device,
        present,
        (grads) => grads.map((grad) => this.#sentOf(grad, wire)),
      );
      packs.set(key, pack);
    }
    const packed = pack.run(gradients.filter((block) => block !== null));
    return internally(() =>
      gradients.map((block, k) =>
        block &&
        makeTensor(Node.stored(packed.shift()!, parameters[k]!.shape, wire), device)
      )
    );
  }

  /** What is sent of a gradient. */
  #sentOf(gradient: Tensor, wire: WireType): Tensor {
    return gradient.cast(wire).mul(1 / this.#communicator.size);
  }

  /** What was read early, if the gradients of the bucket are still those. */
  #takeEarly(bucket: GradientBucket): EarlyRead | null {
    const early = this.#early.get(bucket);
    if (!early) return null;
    const isSame = bucket.parameters.every(({ grad }, k) =>
      early.gradients[k] === (grad && nodeOf(grad).storage?.handle)
    );
    if (!isSame) {
      this.#dropEarly(bucket);
      return null;
    }
    this.#early.delete(bucket);
    return early;
  }

  #dropEarly(bucket: GradientBucket): void {
    for (const tensor of this.#early.get(bucket)?.part ?? []) tensor?.dispose();
    this.#early.delete(bucket);
  }

  #reduce(buckets: readonly GradientBucket[]): void {
    const pipeline = new Pipeline();
    const early = buckets.map((bucket) => this.#takeEarly(bucket));
    const parts = internally(() =>
      buckets.map(({ parameters, wire }, b) =>
        early[b]?.part ?? parameters.map(({ grad }) => grad && this.#sentOf(grad, wire))
      )
    );
    realizeInOrder(parts.map((part) => part.filter((x) => x !== null)), (k) => {
      const bucket = buckets[k]!, part = parts[k]!;
      if (!early[k]) bucket.exchange.read(part);
      bucket.exchange.reduce(part, pipeline, (sums) => take(bucket, part, sums));
      pipeline.isDone();
    });
    this.#options.state?.begin(pipeline);
    completedSync("reduce gradients", pipeline);
    // Many small sums are few kernels together.
    realizeAll(this.#parameters.flatMap(({ grad }) => grad ?? []));
  }

  /** The order of rank 0 for all: ranks may have reached different parameters. */
  #layOut(order: readonly Tensor[]): GradientBucket[] {
    const { addsOnDevice } = this.#options;
    const usualBytes = addsOnDevice ? DEVICE_BUCKET_BYTES : BUCKET_BYTES;
    const { bucketBytes = usualBytes } = this.#options;
    const places = new Map(this.#parameters.map((parameter, k) => [parameter, k]));
    const reached = order.map((parameter) => places.get(parameter)!);
    const seen = new Set(reached);
    const own = [...reached, ...[...places.values()].filter((k) => !seen.has(k))];
    const agreed = Int32Array.from(own), bytes = new Uint8Array(agreed.buffer);
    completedSync("agree on buckets", this.#communicator.broadcast(bytes, 0));
    return runsOf([...agreed].map((k) => this.#parameters[k]!)).flatMap(({ wire, parameters }) =>
      groupBySize(parameters, ({ size }) => size * dtypes[wire].bytes, bucketBytes)
        .map((part) => this.#bucketOf(part, wire, addsOnDevice))
    );
  }

  /** In this order on all ranks, as everything that they do together. */
  #bucketOf(parameters: readonly Tensor[], wire: WireType, addsOnDevice: boolean): GradientBucket {
    const { device } = parameters[0]!, communicator = this.#communicator;
    const layout = { device, sizes: parameters.map(({ size }) => size), wire };
    const shared = addsOnDevice ? DeviceExchange.share(communicator, layout) : null;
    const exchange = shared ?? new HostExchange(communicator, layout);
    return { parameters, wire, exchange, packs: new Map() };
  }

  /** Gives the memory back. */
  [Symbol.dispose](): void {
    for (const bucket of this.#buckets ?? []) {
      this.#dropEarly(bucket);
      bucket.exchange[Symbol.dispose]();
      for (const pack of bucket.packs.values()) pack[Symbol.dispose]();
    }
    this.#buckets = null;
  }
}

/** Replaces the gradients of a bucket by their sums. */
function take({ parameters, wire }: GradientBucket, part: Gradients, sums: Sums): void {
  internally(() =>
    parameters.forEach((parameter, k) => {
      const storage = sums[k], { shape, dtype, device } = parameter;
      part[k]?.dispose();
      if (!storage) return;
      parameter.grad?.dispose();
      const sum = makeTensor(Node.stored(storage, shape, wire), device);
      parameter.grad = exposed(sum.cast(dtype));
      if (parameter.grad !== sum) sum.dispose();
    })
  );
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
