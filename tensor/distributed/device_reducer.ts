/**
 * The sum of several devices' gradients, on the first of them. Those of the others travel in buckets
 * through host memory, while later ones are still computed; the first device waits for them, not the host.
 */
import {
  backendOf,
  type Block,
  completedSync,
  leaveBehind,
  Node,
  type NodeStorage,
  type Progress,
  unrecorded,
} from "../../backend/internal.ts";
import type { GradientReceiver } from "../core/gradient_receiver.ts";
import { exposed, makeTensor, nodeOf } from "../core/internals.ts";
import { internally } from "../core/modes/temporaries.ts";
import { realizeInOrder } from "../execution/realization.ts";
import { RepeatedLaunches } from "../execution/repeated_launches.ts";
import type { Tensor } from "../core/tensor.ts";
import { Bucket, bytesOf, groupBySize } from "./exchange/bucket.ts";
import type { Replica } from "./replicas.ts";

/** Parameters of one type whose gradients travel together. */
interface GradientBucket {
  readonly parameters: readonly Tensor[];
  /** By turn and replica: while the first device is sent what one turn read, the next turn reads. */
  readonly turns: readonly [readonly Bucket[], readonly Bucket[]];
  /** By replica: what was read while a replay went on; null where nothing was. */
  readonly early: ((readonly (Block | null)[]) | null)[];
  /** By which device has which gradient, and what sums are multiplied by. */
  readonly sums: Map<string, RepeatedLaunches>;
}

/** Adds up the gradients of replicas. */
export class DeviceReducer implements Disposable {
  readonly #parameters: readonly Tensor[];
  readonly #replicas: readonly Replica[];
  readonly #bucketBytes: number;
  #buckets: readonly GradientBucket[] | null = null;
  #turn: 0 | 1 = 0;
  /** Reads of the last reduction that the first device waits for. */
  #left: Progress[] = [];

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

  /** What earlier calls left is part of the sums that will be divided by `count`, and stays what it is. */
  keepFormer(count: number): void {
    if (count === 1) return;
    for (const parameter of this.#parameters) {
      const former = parameter.grad;
      if (former === null) continue;
      parameter.grad = internally(() => exposed(former.detach().mul(count)));
      former.dispose();
    }
  }

  /** Has a device begin with its gradients; the first one's are needed where they are. */
  begin(device: number): void {
    if (device > 0) return;
    realizeInOrder([this.#parameters.flatMap(({ grad }) => grad ?? [])], () => {});
  }

  /** Who reads the gradients of a device's replays early; the first one's stay where they are. */
  receiverOf(device: number): GradientReceiver | null {
    const buckets = this.#buckets;
    if (device === 0 || buckets === null) return null;
    const r = device - 1, { copies } = this.#replicas[r]!;
    return {
      groups: buckets.map(({ parameters }) => parameters.map((p) => copies.get(p)!)),
      enqueued: (group, gradients) => {
        const { turns, early } = buckets[group]!;
        turns[this.#turn][r]!.readBlocks(gradients);
        early[r] = gradients;
      },
    };
  }

  #reduce(buckets: readonly GradientBucket[], factor: number): void {
    // The first device works on its own backward meanwhile.
    this.begin(0);
    this.finishLeft();
    this.#replicas.forEach((_, r) => this.#read(buckets, r));
    for (const bucket of buckets) this.#add(bucket, factor);
    this.#turn = this.#turn === 0 ? 1 : 0;
    for (const { copies } of this.#replicas) {
      for (const copy of copies.values()) {
        copy.grad?.dispose();
        copy.grad = null;
      }
    }
  }

  /** Has the gradients of a replica computed, and begins to read them. */
  #read(buckets: readonly GradientBucket[], r: number): void {
    const parts = buckets.map((bucket) => this.#gradientsOf(bucket, r));
    realizeInOrder(parts.map((part) => part.filter((x) => x !== null)), (b) => {
      const { turns, early } = buckets[b]!, part = parts[b]!;
      const known = early[r];
      early[r] = null;
      const isSame = known?.every((block, k) =>
        block === (part[k] && nodeOf(part[k]).storage!.handle)
      );
      if (isSame) return turns[this.#turn][r]!.hold(part);
      turns[this.#turn][r]!.forget();
      turns[this.#turn][r]!.read(part);
    });
  }

  #gradientsOf({ parameters }: GradientBucket, r: number): (Tensor | null)[] {
    const { copies } = this.#replicas[r]!;
    return parameters.map((p) => copies.get(p)!.grad);
  }

  /** Puts the sums of one bucket in the place of the first device's gradients. */
  #add(bucket: GradientBucket, factor: number): void {
    const { parameters, turns } = bucket, { device } = parameters[0]!;
    const present = [
      parameters.map(({ grad }) => grad !== null),
      ...this.#replicas.map((_, r) => this.#gradientsOf(bucket, r).map((grad) => grad !== null)),
    ];
    const senders = turns[this.#turn].filter((_, r) => present[r + 1]!.includes(true));
    const landed = this.#send(senders, bucket);
    const own = parameters.flatMap(({ grad }) => grad ? [nodeOf(grad).storage!] : []);
    try {
      const handles = [...own, ...landed].map(({ handle }) => handle);
      const sums = sumsFor(bucket, present, factor).run(handles);
      parameters.forEach((parameter, k) => {
        if (!present.some((has) => has[k])) return;
        const { shape, dtype } = parameter, node = Node.stored(sums.shift()!, shape, dtype);
        parameter.grad?.dispose();
        parameter.grad = internally(() => exposed(makeTensor(node, device)));
      });
    } finally {
      for (const storage of landed) storage.release();
    }
  }

  /** Copies what is read of replicas to the first device, one block each. */
  #send(senders: readonly Bucket[], { parameters }: GradientBucket): NodeStorage[] {
    const backend = backendOf(parameters[0]!.device), gate = backend.gate() ?? undefined;
    const progress = { isDone: () => senders.every((bucket) => bucket.isRead()) };
    if (gate) {
      this.#left.push(leaveBehind("add up gradients", progress, () => gate.open()));
    } else completedSync("add up gradients", progress);
    return senders.map((bucket) => {
      bucket.forget();
      return bucket.uploadWhole(bucket.bytes, gate, backend);
    });
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
    const groups = alike.flatMap((all) => groupBySize(all, bytesOf, this.#bucketBytes));
    const bucketsFor = (parameters: readonly Tensor[]) =>
      this.#replicas.map(({ device }) => new Bucket(backendOf(device), parameters.map(bytesOf)));
    return groups.map((parameters) => ({
      parameters,
      turns: [bucketsFor(parameters), bucketsFor(parameters)] as const,
      early: this.#replicas.map(() => null),
      sums: new Map(),
    }));
  }

  /** Gives the memory back. */
  [Symbol.dispose](): void {
    this.finishLeft();
    for (const { turns, sums } of this.#buckets ?? []) {
      for (const bucket of turns.flat()) bucket[Symbol.dispose]();
      for (const launches of sums.values()) launches[Symbol.dispose]();
    }
    this.#buckets = null;
  }
}

/** Launches that take the first device's gradients, then the buckets of replicas that have some. */
function sumsFor(
  { parameters, sums }: GradientBucket,
  present: readonly (readonly boolean[])[],
  factor: number,
): RepeatedLaunches {
  const key = `${factor} ${present.map((has) => has.map(Number).join("")).join()}`;
  let known = sums.get(key);
  if (!known) sums.set(key, known = recordSums(parameters, present, factor));
  return known;
}

function recordSums(
  parameters: readonly Tensor[],
  [own, ...others]: readonly (readonly boolean[])[],
  factor: number,
): RepeatedLaunches {
  const { device, dtype } = parameters[0]!, senders = others.filter((has) => has.includes(true));
  const mine = parameters.filter((_, k) => own![k]);
  const total = parameters.reduce((sum, { size }) => sum + size, 0);
  const likes = [
    ...mine.map(({ size }) => ({ shape: [size], dtype })),
    ...senders.map(() => ({ shape: [total], dtype })),
  ];
  return new RepeatedLaunches(device, likes, (inputs) => {
    const gradients = inputs.slice(0, mine.length), wholes = inputs.slice(mine.length);
    let end = 0;
    return parameters.flatMap(({ size }, k) => {
      const start = end;
      end += size;
      const first = own![k] ? [gradients.shift()!] : [];
      const rest = wholes.filter((_, r) => senders[r]![k]).map((all) => all.slice([start, end]));
      const terms = [...first, ...rest];
      if (terms.length === 0) return [];
      const sum = terms.reduce((a, b) => a.add(b));
      return [factor === 1 ? sum : sum.mul(factor)];
    });
  });
}
