/**
 * The mean of all ranks' gradients, in buckets. While backward computes the gradients of one bucket on
 * the device, an earlier one is copied to the host and reduced.
 */
import {
  agree,
  backendOf,
  type Block,
  type Communicator,
  completedSync,
  dtypes,
  Node,
  unrecorded,
} from "../../backend/internal.ts";
import { realizeInOrder } from "../execution/realization.ts";
import { internally } from "../core/modes/temporaries.ts";
import type { GradientGroup, GradientReceiver } from "../core/gradient_receiver.ts";
import { exposed, gradientOf, makeTensor, nodeOf, replaceGradient } from "../core/internals.ts";
import type { Tensor } from "../core/mod.ts";
import {
  BUCKET_BYTES,
  bytesOf,
  groupBySize,
  storagesOf,
  taperedGroups,
} from "./exchange/bucket.ts";
import { DeviceExchange } from "./exchange/device_exchange.ts";
import { FlatLayout } from "./exchange/flat_layout.ts";
import {
  type ExchangeLayout,
  type GradientExchange,
  hasFloat64,
  HostExchange,
  type Means,
  sumTypeOf,
} from "./exchange/gradient_exchange.ts";
import { type Packed, Packer } from "./exchange/packer.ts";
import { Pipeline } from "./exchange/pipeline.ts";
import type { Sharing } from "./exchange/shared_turns.ts";
import type { StateSender } from "./exchange/state_broadcast.ts";
import { wireTypeOf } from "./exchange/wire.ts";

/** Parameters whose gradients travel together. */
interface GradientBucket {
  readonly parameters: readonly Tensor[];
  readonly layout: ExchangeLayout;
  readonly exchange: GradientExchange;
  readonly packer: Packer;
}

/** A bucket whose read began while a replay still computed other gradients. */
interface EarlyRead {
  /** The gradients that were read; null for those that there were none of. */
  readonly gradients: readonly (Block | null)[];
  readonly packed: Packed;
}

/** Options of gradient reduction. */
export interface GradientReducerOptions {
  /** Gradients that travel together; by default what suits the way that they are added up. */
  readonly bucketBytes: number | undefined;
  /** State that rank 0 sends with the gradients. */
  readonly state: StateSender | null;
  /** Access of one host's ranks to each other's gradients; null where MPI adds up. */
  readonly sharing: Sharing | null;
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
  get groups(): readonly GradientGroup[] {
    return (this.#buckets ?? []).map(({ parameters, layout: { device, layout, dtype } }) => ({
      leaves: parameters,
      allocate: () => layout.allocate(backendOf(device), dtypes[dtype].bytes),
    }));
  }

  /**
   * Begins to read the gradients of a bucket to the host. What is sent, and whether these are still
   * the gradients then, is the next reduction's business: so ranks need not have the same reads early.
   */
  enqueued(group: number, gradients: readonly (Block | null)[]): void {
    const bucket = this.#buckets![group]!, packed = bucket.packer.pack(gradients);
    this.#dropEarly(bucket);
    bucket.exchange.read(packed);
    this.#early.set(bucket, { gradients, packed });
    // The device computes while these travel, and looks for what the others sent before them.
    this.#buckets![group - 1]?.exchange.expect();
  }

  /** Gradients read early, if the bucket's are still the same. */
  #takeEarly(bucket: GradientBucket): Packed | null {
    const early = this.#early.get(bucket);
    if (!early) return null;
    const isSame = bucket.parameters.every((parameter, k) => {
      const gradient = gradientOf(parameter);
      return early.gradients[k] === (gradient && nodeOf(gradient).storage?.handle);
    });
    if (!isSame) {
      this.#dropEarly(bucket);
      return null;
    }
    this.#early.delete(bucket);
    return early.packed;
  }

  #dropEarly(bucket: GradientBucket): void {
    this.#early.get(bucket)?.packed.release();
    this.#early.delete(bucket);
  }

  #reduce(buckets: readonly GradientBucket[]): void {
    const pipeline = new Pipeline();
    const early = buckets.map((bucket) => this.#takeEarly(bucket));
    const gradients = buckets.map(gradientsOf);
    realizeInOrder(gradients.map((some) => some.filter((grad) => grad !== null)), (k) => {
      const bucket = buckets[k]!;
      const packed = early[k] ??
        bucket.packer.pack(gradients[k]!.map((grad) => grad && blockOf(grad)));
      if (!early[k]) bucket.exchange.read(packed);
      packed.hold(storagesOf(gradients[k]!.filter((grad) => grad !== null)));
      bucket.exchange.reduce(packed, pipeline, (means) => take(bucket, means));
      pipeline.isDone();
    });
    this.#options.state?.begin(pipeline);
    completedSync("reduce gradients", pipeline);
  }

  /** The order of rank 0 for all: ranks may have reached different parameters. */
  #layOut(order: readonly Tensor[]): GradientBucket[] {
    const { sharing, bucketBytes } = this.#options;
    const isTapered = sharing?.deviceWaits && bucketBytes === undefined;
    const places = new Map(this.#parameters.map((parameter, k) => [parameter, k]));
    const reached = order.map((parameter) => places.get(parameter)!);
    const seen = new Set(reached);
    const own = [...reached, ...[...places.values()].filter((k) => !seen.has(k))];
    const agreed = Int32Array.from(own), bytes = new Uint8Array(agreed.buffer);
    completedSync("agree on buckets", this.#communicator.broadcast(bytes, 0));
    // One rank that rounds otherwise would drift away.
    const isExact = agree(this.#communicator, this.#parameters.every((p) => hasFloat64(p.device)));
    return alike([...agreed].map((k) => this.#parameters[k]!))
      .flatMap((all) =>
        isTapered
          ? taperedGroups(all, bytesOf)
          : groupBySize(all, bytesOf, bucketBytes ?? BUCKET_BYTES)
      )
      .map((parameters) => this.#bucketOf(parameters, isExact));
  }

  /** In this order on all ranks, as everything that they do together. */
  #bucketOf(parameters: readonly Tensor[], isExact: boolean): GradientBucket {
    const { device, dtype } = parameters[0]!, communicator = this.#communicator;
    const sizes = parameters.map(({ size }) => size);
    const layout = {
      device,
      layout: new FlatLayout(sizes),
      dtype,
      wire: wireTypeOf(dtype, "mean"),
    };
    const { sharing } = this.#options, onDevice = { ...layout, wire: sumTypeOf(dtype, isExact) };
    const shared = sharing && DeviceExchange.share(communicator, onDevice, sharing);
    const exchange = shared ?? new HostExchange(communicator, layout);
    const packer = new Packer(device, layout.layout, sizes.map(() => dtype), exchange.sent);
    return { parameters, layout, exchange, packer };
  }

  /** Gives the memory back. */
  [Symbol.dispose](): void {
    for (const bucket of this.#buckets ?? []) {
      this.#dropEarly(bucket);
      bucket.exchange[Symbol.dispose]();
      bucket.packer[Symbol.dispose]();
    }
    this.#buckets = null;
  }
}

/** The gradients of a bucket, in the parameters' type. */
function gradientsOf({ parameters }: GradientBucket): (Tensor | null)[] {
  return parameters.map((parameter) => {
    const { dtype } = parameter, grad = gradientOf(parameter);
    if (grad === null || grad.dtype === dtype) return grad;
    const gradient = internally(() => exposed(grad.cast(dtype)));
    replaceGradient(parameter, gradient);
    return gradient;
  });
}

function blockOf(tensor: Tensor): Block {
  return nodeOf(tensor).storage!.handle;
}

/** Replaces the gradients of a bucket by their means. */
function take({ parameters, layout }: GradientBucket, { block, present }: Means): void {
  const { device, dtype } = layout;
  layout.layout.divide(backendOf(device), block, dtypes[dtype].bytes).forEach((storage, k) => {
    if (!present[k]) return storage.release();
    const parameter = parameters[k]!, node = Node.stored(storage, parameter.shape, dtype);
    replaceGradient(parameter, internally(() => exposed(makeTensor(node, device))));
  });
}

/** Parameters in the order of the first of their kind: those of one device and type. */
function alike(parameters: readonly Tensor[]): Tensor[][] {
  return [
    ...Map.groupBy(parameters, ({ device, dtype }) => `${device.selector} ${dtype}`).values(),
  ];
}
