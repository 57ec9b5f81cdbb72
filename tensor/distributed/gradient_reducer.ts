/**
 * The mean of all ranks' gradients, in buckets. While backward computes the gradients of one bucket on
 * the device, an earlier one is copied to the host and reduced.
 */
import {
  agree,
  backendOf,
  type Communicator,
  completedSync,
  dtypes,
  unrecorded,
  type WireType,
} from "../../backend/internal.ts";
import { realizeAll, realizeInOrder } from "../execution/realization.ts";
import { internally } from "../core/modes/temporaries.ts";
import { exposed } from "../core/internals.ts";
import type { Tensor } from "../core/tensor.ts";
import { BUCKET_BYTES, DEVICE_BUCKET_BYTES, groupBySize } from "./bucket.ts";
import {
  DeviceExchange,
  type GradientExchange,
  type Gradients,
  HostExchange,
} from "./gradient_exchange.ts";
import { Pipeline } from "./pipeline.ts";
import type { StateBroadcast } from "./state_broadcast.ts";
import { wireTypeOf } from "./wire.ts";

/** Parameters whose gradients travel together. */
interface GradientBucket {
  readonly parameters: readonly Tensor[];
  readonly wire: WireType;
  readonly exchange: GradientExchange;
}

/** How gradients are reduced. */
export interface GradientReducerOptions {
  /** Gradients that travel together; by default what suits the way that they are added up. */
  readonly bucketBytes: number | undefined;
  /** What rank 0 sends with the gradients. */
  readonly state: StateBroadcast | null;
  /**
   * This rank would have its device add what it reads of the others' gradients: so it is where all of
   * them would, and are on one host.
   */
  readonly addsOnDevice: boolean;
}

/** Reduces the gradients of parameters, in the same buckets every time. */
export class GradientReducer implements Disposable {
  readonly #parameters: readonly Tensor[];
  readonly #communicator: Communicator;
  readonly #options: GradientReducerOptions;
  #buckets: readonly GradientBucket[] | null = null;

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

  #reduce(buckets: readonly GradientBucket[]): void {
    const pipeline = new Pipeline(), { size } = this.#communicator;
    const parts = internally(() =>
      buckets.map(({ parameters, wire }) =>
        parameters.map(({ grad }) => grad === null ? null : grad.cast(wire).mul(1 / size))
      )
    );
    realizeInOrder(parts.map((part) => part.filter((x) => x !== null)), (k) => {
      const { exchange } = buckets[k]!, part = parts[k]!;
      pipeline.add({
        bucket: exchange.read(part),
        communicate: () => exchange.communicate(),
        take: () => take(buckets[k]!, part),
      });
      pipeline.isDone();
    });
    this.#options.state?.begin(pipeline);
    completedSync("reduce gradients", pipeline);
    // Many small sums are few kernels together.
    realizeAll(this.#parameters.flatMap(({ grad }) => grad ?? []));
  }

  /** The order of rank 0 for all: ranks may have reached different parameters. */
  #layOut(order: readonly Tensor[]): GradientBucket[] {
    const addsOnDevice = this.#communicator.localSize === this.#communicator.size &&
      agree(this.#communicator, this.#options.addsOnDevice);
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
    const backend = backendOf(parameters[0]!.device), communicator = this.#communicator;
    const layout = { backend, sizes: parameters.map(({ size }) => size), wire };
    const exchange = addsOnDevice ? DeviceExchange.share(communicator, layout) : null;
    return { parameters, wire, exchange: exchange ?? new HostExchange(communicator, layout) };
  }

  /** Gives the memory back. */
  [Symbol.dispose](): void {
    for (const { exchange } of this.#buckets ?? []) exchange[Symbol.dispose]();
    this.#buckets = null;
  }
}

/** Replaces the gradients of a bucket by their sums. */
function take({ exchange, parameters, wire }: GradientBucket, part: Gradients): void {
  internally(() => {
    const likes = parameters.map((parameter, k) => part[k] ?? parameter.cast(wire));
    const sums = exchange.take(part, likes);
    parameters.forEach((parameter, k) => {
      const sum = sums[k];
      if (sum) {
        parameter.grad?.dispose();
        parameter.grad = exposed(sum.cast(parameter.dtype));
      }
      if (part[k] !== sum) part[k]?.dispose();
    });
  });
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
