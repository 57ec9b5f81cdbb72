/**
 * The sum of several devices' gradients, on the first of them. Those of the others travel in buckets
 * through host memory, while later ones are still computed; the first device waits for them, not the host.
 */
import {
  backendOf,
  type Block,
  completedSync,
  type DeviceHandle,
  dtypes,
  Node,
  type Progress,
  unrecorded,
} from "../../backend/internal.ts";
import type { GradientReceiver } from "../core/gradient_receiver.ts";
import { exposed, gradientOf, makeTensor, nodeOf, replaceGradient } from "../core/internals.ts";
import { internally } from "../core/modes/temporaries.ts";
import { realizeInOrder } from "../execution/realization.ts";
import type { RepeatedLaunches } from "../execution/repeated_launches.ts";
import type { Tensor } from "../core/mod.ts";
import { bytesOf, groupBySize, storagesOf, taperedGroups } from "./exchange/bucket.ts";
import { FlatLayout } from "./exchange/flat_layout.ts";
import { hasFloat64, recordMeans, sumTypeOf } from "./exchange/gradient_exchange.ts";
import { type Packed, Packer } from "./exchange/packer.ts";
import { leaveReads, Passage } from "./exchange/passage.ts";
import type { Replica } from "./replicas.ts";

/** One device's part of a bucket's gradients. */
interface Side {
  readonly device: DeviceHandle;
  /** On this device. */
  readonly parameters: readonly Tensor[];
  readonly packer: Packer;
  /** By turn: while the first device is sent what one turn read, the next turn reads. Not the first's. */
  readonly turns: readonly Passage[];
  /** Gradients read while a replay went on; null where nothing was. */
  early: { readonly gradients: readonly (Block | null)[]; readonly packed: Packed } | null;
}

/** Parameters of one type whose gradients travel together. */
interface GradientBucket {
  readonly parameters: readonly Tensor[];
  readonly layout: FlatLayout;
  /** The first device's, then those of the replicas. */
  readonly sides: readonly [Side, ...Side[]];
  /** By how many devices have gradients, and what sums are divided by. */
  readonly sums: Map<string, RepeatedLaunches>;
}

/** Adds up the gradients of replicas. */
export class DeviceReducer implements Disposable {
  readonly #parameters: readonly Tensor[];
  readonly #replicas: readonly Replica[];
  readonly #bucketBytes: number | undefined;
  #buckets: readonly GradientBucket[] | null = null;
  #turn: 0 | 1 = 0;
  /** Reads of the last reduction that the first device waits for. */
  #left: Progress[] = [];

  /** @param parameters All that is learned, on the first device. */
  constructor(
    parameters: readonly Tensor[],
    replicas: readonly Replica[],
    bucketBytes: number | undefined,
  ) {
    this.#parameters = parameters;
    this.#replicas = replicas;
    this.#bucketBytes = bucketBytes;
  }

  /**
   * Adds the replicas' gradients to the parameters', and takes them from the replicas.
   *
   * @param order The tensors that `backward` reached, those first whose gradients it finished first.
   * @param divisor What the sums are divided by.
   * @throws {InterruptedError} At Ctrl+C.
   */
  reduce(order: readonly Tensor[], divisor: number): void {
    this.#buckets ??= this.#layOut(order);
    unrecorded(() => this.#reduce(this.#buckets!, divisor));
  }

  /** Keeps earlier calls' gradients as they are in sums that will be divided by `count`. */
  keepFormer(count: number): void {
    if (count === 1) return;
    for (const parameter of this.#parameters) {
      const former = gradientOf(parameter);
      if (former === null) continue;
      replaceGradient(parameter, internally(() => exposed(former.detach().mul(count))));
    }
  }

  /** Has a device begin with its gradients; the first one's are needed where they are. */
  begin(device: number): void {
    if (device > 0) return;
    realizeInOrder([this.#parameters.flatMap((p) => gradientOf(p) ?? [])], () => {});
  }

  /** Receiver of a device's replayed gradients side by side; all but the first are read early. */
  receiverOf(device: number): GradientReceiver | null {
    const buckets = this.#buckets;
    if (buckets === null) return null;
    return {
      groups: buckets.map(({ sides, layout }) => {
        const { device: handle, parameters } = sides[device]!, { dtype } = parameters[0]!;
        const allocate = () => layout.allocate(backendOf(handle), dtypes[dtype].bytes);
        return { leaves: parameters, allocate };
      }),
      enqueued: (group, gradients) => {
        if (device === 0) return;
        const side = buckets[group]!.sides[device]!, packed = side.packer.pack(gradients);
        side.early?.packed.release();
        side.turns[this.#turn]!.read(packed.block);
        side.early = { gradients, packed };
      },
    };
  }

  #reduce(buckets: readonly GradientBucket[], divisor: number): void {
    // The first device works on its own backward meanwhile.
    this.begin(0);
    this.finishLeft();
    this.#replicas.forEach((_, r) => this.#read(buckets.map(({ sides }) => sides[r + 1]!)));
    for (const bucket of buckets) this.#add(bucket, divisor);
    this.#turn = this.#turn === 0 ? 1 : 0;
    for (const { copies } of this.#replicas) {
      for (const copy of copies.values()) replaceGradient(copy, null);
    }
  }

  /** Has the gradients of a replica computed, and begins to read them. */
  #read(sides: readonly Side[]): void {
    const gradients = sides.map(gradientsOf);
    realizeInOrder(gradients, (b) => {
      const side = sides[b]!, passage = side.turns[this.#turn]!, { early } = side;
      side.early = null;
      if (gradients[b]!.length === 0) return early?.packed.release();
      const blocks = blocksOf(side);
      const isSame = early?.gradients.every((block, k) => block === blocks[k]) ?? false;
      if (!isSame) early?.packed.release();
      const packed = isSame ? early!.packed : side.packer.pack(blocks);
      if (!isSame) passage.read(packed.block);
      packed.hold(storagesOf(gradients[b]!));
      passage.bucket.hold(packed);
    });
  }

  /** Puts the sums of one bucket in the place of the first device's gradients. */
  #add(bucket: GradientBucket, divisor: number): void {
    const { parameters, layout, sides: [first, ...others] } = bucket;
    const { device, dtype } = parameters[0]!, backend = backendOf(device);
    const isGiven = parameters.map((_, k) =>
      bucket.sides.some((side) => gradientOf(side.parameters[k]!) !== null)
    );
    const own = gradientsOf(first).length > 0 ? first.packer.pack(blocksOf(first)) : null;
    const landed = this.#send(others.filter((side) => gradientsOf(side).length > 0), device);
    try {
      const parts = [...own ? [own.block] : [], ...landed];
      if (parts.length === 0) return;
      const block = sumsFor(bucket, parts.length, divisor).runToBlock(parts);
      layout.divide(backend, block, dtypes[dtype].bytes).forEach((storage, k) => {
        if (!isGiven[k]) return storage.release();
        const parameter = parameters[k]!, node = Node.stored(storage, parameter.shape, dtype);
        replaceGradient(parameter, internally(() => exposed(makeTensor(node, device))));
      });
    } finally {
      own?.release();
      for (const block of landed) block.release();
    }
  }

  /** Copies what is read of replicas to the first device, one block each. */
  #send(senders: readonly Side[], device: DeviceHandle): Block[] {
    if (senders.length === 0) return [];
    const backend = backendOf(device), passages = senders.map(({ turns }) => turns[this.#turn]!);
    const gates = passages.map((passage) => passage.gate(backend));
    const read = leaveReads("add up gradients", passages, gates);
    if (gates.includes(undefined)) completedSync("add up gradients", read);
    else this.#left.push(read);
    return passages.map((passage, k) => passage.upload(backend, gates[k]));
  }

  /** Waits until the first device has what was sent to it last. */
  finishLeft(): void {
    for (const left of this.#left.splice(0)) completedSync("add up gradients", left);
  }

  /** Buckets in the order in which gradients are finished; parameters that were not reached come last. */
  #layOut(order: readonly Tensor[]): readonly GradientBucket[] {
    const originals = new Map<Tensor, Tensor>();
    for (const parameter of this.#parameters) {
      originals.set(parameter, parameter);
      for (const { copies } of this.#replicas) originals.set(copies.get(parameter)!, parameter);
    }
    const reached = order.flatMap((tensor) => originals.get(tensor) ?? []);
    const sorted = [...new Set([...reached, ...this.#parameters.toReversed()])];
    const alike = [...Map.groupBy(sorted, ({ dtype }) => dtype).values()];
    const maxBytes = this.#bucketBytes;
    const groups = alike.flatMap((all) =>
      maxBytes === undefined ? taperedGroups(all, bytesOf) : groupBySize(all, bytesOf, maxBytes)
    );
    return groups.map((parameters) => {
      const layout = new FlatLayout(parameters.map(({ size }) => size));
      const first = sideOf(layout, parameters, null);
      const others = this.#replicas.map(({ copies }) =>
        sideOf(layout, parameters.map((parameter) => copies.get(parameter)!), first.device)
      );
      return { parameters, layout, sides: [first, ...others] as const, sums: new Map() };
    });
  }

  /** Gives the memory back. */
  [Symbol.dispose](): void {
    this.finishLeft();
    for (const { sides, sums } of this.#buckets ?? []) {
      for (const { early, turns, packer } of sides) {
        early?.packed.release();
        for (const passage of turns) passage[Symbol.dispose]();
        packer[Symbol.dispose]();
      }
      for (const launches of sums.values()) launches[Symbol.dispose]();
    }
    this.#buckets = null;
  }
}

/** @param to Where the gradients are sent; null for the first device's. */
function sideOf(
  layout: FlatLayout,
  parameters: readonly Tensor[],
  to: DeviceHandle | null,
): Side {
  const { device, dtype } = parameters[0]!, backend = backendOf(device);
  const nbytes = layout.size * dtypes[dtype].bytes;
  return {
    device,
    parameters,
    packer: new Packer(device, layout, parameters.map(() => dtype), dtype),
    turns: to === null ? [] : [0, 1].map(() => new Passage(backend, [backendOf(to)], nbytes)),
    early: null,
  };
}

/** Those that there are. */
function gradientsOf({ parameters }: Side): Tensor[] {
  return parameters.flatMap((p) => gradientOf(p) ?? []);
}

function blocksOf({ parameters }: Side): (Block | null)[] {
  return parameters.map((parameter) => {
    const gradient = gradientOf(parameter);
    return gradient && nodeOf(gradient).storage!.handle;
  });
}

/** Launches that add up what so many devices have. */
function sumsFor(
  { parameters, layout, sums }: GradientBucket,
  inputs: number,
  divisor: number,
): RepeatedLaunches {
  const key = `${inputs} ${divisor}`;
  let known = sums.get(key);
  if (known) return known;
  const { device, dtype } = parameters[0]!, wire = sumTypeOf(dtype, hasFloat64(device));
  known = recordMeans({ device, layout, dtype, wire }, { sent: dtype, inputs, divisor });
  sums.set(key, known);
  return known;
}
