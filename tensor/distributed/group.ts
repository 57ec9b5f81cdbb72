/**
 * The ranks that train together, and what they tell each other.
 *
 * The file is long because it is one class, most of it the documentation of its operations.
 */
import {
  backendOf,
  type Communicator,
  completed,
  completedSync,
  formatShape,
  isFloat,
  keepLinesWhole,
  setCommunicationTimeout,
  type WireType,
  worldCommunicator,
} from "../../backend/internal.ts";
import { Storage } from "../../memory/mod.ts";
import { requireTensor } from "../core/apply.ts";
import { giveUpReplay } from "../core/calls.ts";
import { shapeError } from "../core/rules/errors.ts";
import { checkOptions, requireValue, type Rules, takes } from "../core/rules/options.ts";
import { manualSeed, setDeterministic } from "../core/random_state.ts";
import { realizeAll } from "../execution/realization.ts";
import { internally } from "../core/modes/temporaries.ts";
import { exposed, nodeOf, stateOf } from "../core/internals.ts";
import { Tensor } from "../class/tensor.ts";
import {
  Bucket,
  BUCKET_BYTES,
  bytesOf,
  groupBySize,
  storagesOf,
  storedTensor,
  tensorOf,
} from "./exchange/bucket.ts";
import { FlatLayout } from "./exchange/flat_layout.ts";
import { type Passage, Pipeline } from "./exchange/pipeline.ts";
import { type ReduceOp, reduceOp, wireOps, wireTypeOf } from "./exchange/wire.ts";

/** Options of communication. */
export interface InitOptions {
  /** Milliseconds that a rank waits for the others before that is an error; default 30 minutes. */
  timeoutMs?: number;
}

const initRules: Rules<InitOptions> = { timeoutMs: takes.positiveOrInfinite };

let current: Group | null = null;

/**
 * The ranks that `mpirun` started, one process each; without it, one rank of one. libmpi is opened
 * here and nowhere else, and MPI ends with the program. Every rank must call it, and must make the
 * same collective calls in the same order.
 *
 * Lines of `console.log` come out whole under mpirun, also long ones.
 *
 * Under mpirun, "auto" and "gpu" mean the device of the rank's number on its host: the second process of
 * a host computes on its second GPU.
 *
 * @returns The group; the same one every time.
 * @throws {MPIUnavailableError} When mpirun started the program and libmpi cannot be used.
 *
 * @example Every rank learns the same: `mpirun -n 4 deno run -A train.ts`
 * ```ts
 * import { distributed, nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * using group = distributed.init();
 * const parallel = new distributed.DataParallel(new nn.Linear(4, 2), group);
 * parallel.forward(Tensor.ones([8, 4])).sum().backward(); // gradients are the mean over all ranks
 * const counts = Tensor.full([3], 1);
 * await group.allReduce([counts], "sum");
 * assertEquals(await counts.toArray(), [group.size, group.size, group.size]);
 * ```
 */
export function init(options: InitOptions = {}): Group {
  checkOptions("begin distributed training", options, initRules);
  if (options.timeoutMs !== undefined) setCommunicationTimeout(options.timeoutMs);
  if (current && !current.disposed) return current;
  current = new Group(worldCommunicator());
  if (current.size > 1) {
    keepLinesWhole();
    // Each rank computes the same update: all by the same kernels, or their parameters drift apart.
    setDeterministic(true);
  }
  return current;
}

/**
 * Ranks that communicate. Operations on tensors begin in the order in which they were called; each
 * settles when its result is there, and the event loop goes on meanwhile. Sums are made in an order that
 * depends on the number of ranks alone, so the same program gives the same bits again.
 */
export class Group implements Disposable {
  /** This process's number, from 0. */
  readonly rank: number;
  /** Number of processes. */
  readonly size: number;
  /** This process's number among those of its host. */
  readonly localRank: number;
  /** A number that all ranks share: a `DataLoader` of this shard draws its orders by it. */
  readonly seed: number;
  readonly #world: Communicator;
  readonly #communicator: Communicator;
  /** Settles when the operations called so far are over. */
  #last: Promise<unknown> = Promise.resolve();
  #disposed = false;

  /** Made by {@linkcode init}. */
  constructor(world: Communicator) {
    this.rank = world.rank;
    this.size = world.size;
    this.localRank = world.localRank;
    this.#world = world;
    this.#communicator = world.duplicate();
    const seed = Float64Array.of(Math.floor(Math.random() * 2 ** 32));
    const sent = this.#communicator.broadcast(new Uint8Array(seed.buffer), 0);
    completedSync("agree on a seed", sent);
    this.seed = seed[0]!;
  }

  /** True after `dispose()`. */
  get disposed(): boolean {
    return this.#disposed;
  }

  /**
   * The same ranks, whose operations do not wait for those of this group. Every rank must call it; it
   * blocks until all have.
   *
   * @throws {ReferenceError} After `dispose()`.
   */
  communicator(): Communicator {
    this.#requireOpen("use a group");
    return this.#world.duplicate();
  }

  /**
   * Seeds random tensors so that every rank draws others: noise that must differ, such as dropout's.
   * The order of a `DataLoader` is that of all ranks nevertheless, where this group is its shard.
   *
   * @param seed A whole number, the same on every rank.
   * @throws {RangeError} When it is not a safe whole number.
   */
  manualSeed(seed: number): void {
    requireValue("seed by rank", "seed", seed, takes.integer);
    // Folded as a 64-bit number is: seeds of neighbouring ranks have nothing in common.
    manualSeed(Math.imul(this.rank + 1, 0x9e3779b1) ^ seed);
  }

  /**
   * Reduces tensors over all ranks, element by element; each gets the result as its value. Halves are
   * reduced in float32. NaN on any rank gives NaN.
   *
   * @param tensors Leaves, of the same shapes and types on every rank, in the same order.
   * @param op "sum", "mean", "max" or "min".
   * @throws {DTypeError} For a mean of whole numbers, or a sum of truth values.
   * @throws {TypeError} For a tensor that was computed from others and is recorded for `backward`.
   * @throws {MPIError} When MPI fails, such as where ranks pass different sizes.
   * @throws {InterruptedError} When Ctrl+C arrives while it waits.
   */
  async allReduce(tensors: readonly Tensor[], op: ReduceOp): Promise<void> {
    const action = "reduce over ranks";
    this.#checkLeaves(action, tensors);
    requireValue(action, "op", op, reduceOp);
    for (const { dtype } of tensors) wireTypeOf(dtype, op);
    if (this.size === 1) return;
    const results = await this.#reduced(tensors, op);
    assignAll(tensors, results);
  }

  /** The reduced tensors, in the types in which they travel. */
  async #reduced(tensors: readonly Tensor[], op: ReduceOp): Promise<Tensor[]> {
    const sent = internally(() => tensors.map((tensor) => widened(tensor, op, this.size)));
    const extreme = op === "max" || op === "min" ? op : null;
    const marked = extreme ? sent.filter(({ dtype }) => isFloat(dtype)) : [];
    const parts = internally(() => [
      ...sent.map((x) => extreme && isFloat(x.dtype) ? withoutNaN(x, extreme) : x),
      ...marked.map((x) => markOfNaN(x, extreme!)),
    ]);
    const results = await this.#exchange(
      "reduce over ranks",
      parts,
      (bytes, { dtype }) => this.#communicator.allReduce(bytes, dtype as WireType, wireOps[op]),
    );
    return internally(() =>
      sent.map((x, k) => {
        const mark = marked.indexOf(x);
        if (mark < 0) return results[k]!;
        return results[sent.length + mark]!.ne(0).where(NaN, results[k]!);
      })
    );
  }

  /**
   * Gives tensors the values of one rank.
   *
   * @param tensors Leaves, of the same shapes and types on every rank, in the same order.
   * @param root The rank whose values they get; default 0.
   * @throws {RangeError} When there is no such rank.
   * @throws {TypeError} For a tensor that was computed from others and is recorded for `backward`.
   * @throws {InterruptedError} When Ctrl+C arrives while it waits.
   */
  async broadcast(tensors: readonly Tensor[], root = 0): Promise<void> {
    const action = "broadcast";
    this.#checkLeaves(action, tensors);
    requireValue(action, "root", root, takes.whole);
    if (root >= this.size) {
      throw new RangeError(
        `Cannot broadcast from rank ${root}: ranks go from 0 to ${this.size - 1}`,
      );
    }
    if (this.size === 1) return;
    const sent = internally(() => tensors.map((tensor) => tensor.detach()));
    const results = await this.#exchange(
      action,
      sent,
      (bytes) => this.#communicator.broadcast(bytes, root),
    );
    assignAll(tensors, results);
  }

  /**
   * The tensors of all ranks, one behind the other along axis 0, in the order of ranks. Ranks may have
   * different lengths there, such as last batches.
   *
   * @param tensor At least one axis; the others have the same lengths on every rank.
   * @returns A new tensor on the same device, not recorded for `backward`.
   * @throws {ShapeError} For a scalar.
   * @throws {InterruptedError} When Ctrl+C arrives while it waits.
   */
  allGather(tensor: Tensor): Promise<Tensor> {
    const action = "gather over ranks";
    this.#checkAxis(action, tensor);
    const own = internally(() => tensor.detach().contiguous());
    return this.#inOrder(async () => {
      const lengths = await this.#lengths(own.shape[0]!), longest = Math.max(...lengths);
      const [length, ...rest] = own.shape, missing = longest - length!;
      const padded = internally(() =>
        missing === 0 ? own : own.pad([[0, missing], ...rest.map(() => [0, 0] as const)])
      );
      const bytes = await this.#gathered(action, await bytesOn(padded));
      const backend = backendOf(own.device);
      const all = internally(() =>
        tensorOf(
          new Storage(backend.memory, backend.upload(bytes)),
          [longest * this.size, ...rest],
          own,
        )
      );
      if (lengths.every((n) => n === longest)) return exposed(all);
      const parts = lengths.map((n, rank) => all.slice([rank * longest, rank * longest + n]));
      return exposed(internally(() => Tensor.concat(parts)).realize());
    });
  }

  /** The lengths of all ranks. */
  async #lengths(length: number): Promise<number[]> {
    const own = new Uint8Array(Float64Array.of(length).buffer);
    return [...new Float64Array((await this.#gathered("compare lengths", own)).buffer)];
  }

  async #gathered(action: string, part: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = new Uint8Array(part.byteLength * this.size);
    bytes.set(part, this.rank * part.byteLength);
    await completed(action, this.#communicator.allGather(bytes));
    return bytes;
  }

  /**
   * Reduces tensors over all ranks, of which each rank gets its part along axis 0.
   *
   * @param tensor Of the same shape and type on every rank; axis 0 is divided by the number of ranks.
   * @param op "sum", "mean", "max" or "min".
   * @returns This rank's part, a new tensor of the same type.
   * @throws {ShapeError} When axis 0 does not divide.
   * @throws {DTypeError} For a mean of whole numbers, or a sum of truth values.
   * @throws {InterruptedError} When Ctrl+C arrives while it waits.
   */
  async reduceScatter(tensor: Tensor, op: ReduceOp): Promise<Tensor> {
    const action = "reduce and scatter over ranks";
    this.#checkAxis(action, tensor);
    requireValue(action, "op", op, reduceOp);
    wireTypeOf(tensor.dtype, op);
    const [length, ...rest] = tensor.shape, part = length! / this.size;
    if (!Number.isInteger(part)) {
      throw shapeError(action)`
        Cannot ${action} a tensor of shape ${tensor.shape}: ${length} does not divide by
        ${this.size} ranks; pad() it`;
    }
    if (this.size === 1) return tensor.detach();
    if (op === "max" || op === "min") {
      const [all] = await this.#reduced([tensor], op);
      const own = internally(() => all!.slice([this.rank * part, (this.rank + 1) * part]));
      return exposed(internally(() => own.cast(tensor.dtype)).realize());
    }
    const wide = internally(() => widened(tensor, op, this.size)),
      backend = backendOf(tensor.device);
    return await this.#inOrder(async () => {
      const bytes = new Uint8Array(await bytesOn(wide));
      await completed(
        action,
        this.#communicator.reduceScatter(bytes, wide.dtype as WireType, "sum"),
      );
      const own = backend.upload(bytes.subarray(0, bytes.byteLength / this.size));
      const reduced = internally(() =>
        tensorOf(new Storage(backend.memory, own), [part, ...rest], wide).cast(tensor.dtype)
      );
      return exposed(reduced.realize());
    });
  }

  /**
   * Settles when every rank has called it.
   *
   * @throws {InterruptedError} When Ctrl+C arrives while it waits.
   */
  barrier(): Promise<void> {
    this.#requireOpen("wait for all ranks");
    return this.#inOrder(() => completed("pass a barrier", this.#communicator.barrier()));
  }

  /** Sends buckets of tensors; gives new tensors with what came. */
  #exchange(
    action: string,
    tensors: readonly Tensor[],
    communicate: (bytes: Uint8Array<ArrayBuffer>, first: Tensor) => ReturnType<
      Passage["communicate"]
    >,
  ): Promise<Tensor[]> {
    return this.#inOrder(async () => {
      realizeAll(tensors);
      const results = new Map<Tensor, Tensor>(), pipeline = new Pipeline();
      const buckets: Bucket[] = [];
      for (const part of alike(tensors).flatMap((all) => groupBySize(all, bytesOf, BUCKET_BYTES))) {
        const layout = new FlatLayout(part.map(bytesOf)), backend = backendOf(part[0]!.device);
        const bucket = new Bucket(backend, layout.size), storages = storagesOf(part);
        buckets.push(bucket);
        bucket.readParts(
          layout.places(1).map(({ offset, nbytes }, k) => ({
            block: storages[k]!.handle,
            bytes: bucket.bytes.subarray(offset, offset + nbytes),
          })),
        );
        pipeline.add({
          bucket,
          communicate: () => communicate(bucket.bytes, part[0]!),
          take: () => {
            const stored = layout.divide(backend, bucket.upload(), 1);
            internally(() => part.forEach((t, k) => results.set(t, storedTensor(stored[k]!, t))));
          },
        });
      }
      // After Ctrl+C MPI goes on with the memory: it is given back at the good end alone.
      await completed(action, pipeline);
      for (const bucket of buckets) bucket[Symbol.dispose]();
      return tensors.map((tensor) => results.get(tensor)!);
    });
  }

  /** Runs `work` when the operations that were called before are over. */
  #inOrder<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => {});
    return turn;
  }

  #checkLeaves(action: string, tensors: readonly Tensor[]): void {
    this.#requireOpen(action);
    giveUpReplay("it communicates with other ranks");
    requireValue(action, "tensors", tensors, takes.list);
    for (const tensor of tensors) {
      requireTensor(action, tensor);
      if (stateOf(tensor).gradFn === null) continue;
      throw new TypeError(
        `Cannot ${action} a tensor of shape ${formatShape(tensor.shape)} that was computed from ` +
          "others and is recorded for backward: detach() it first",
      );
    }
  }

  #checkAxis(action: string, tensor: Tensor): void {
    this.#requireOpen(action);
    giveUpReplay("it communicates with other ranks");
    requireTensor(action, tensor);
    if (tensor.ndim > 0) return;
    throw shapeError(action)`Cannot ${action} a scalar: it has no axis; reshape([1]) first`;
  }

  #requireOpen(action: string): void {
    if (!this.#disposed) return;
    throw new ReferenceError(
      `Cannot ${action} with a group that was disposed of: call init() again`,
    );
  }

  /** Ends the use of this group; MPI goes on until the program ends, for another `init()`. */
  dispose(): void {
    this.#disposed = true;
  }

  /** {@linkcode Group.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** A tensor as it travels: halves in float32, a mean as a sum of parts. */
function widened(tensor: Tensor, op: ReduceOp, size: number): Tensor {
  const wide = tensor.detach().cast(wireTypeOf(tensor.dtype, op));
  return op === "mean" ? wide.div(size) : wide;
}

/** MPI's comparisons leave open what becomes of NaN: it travels as a mark beside the numbers. */
function withoutNaN(x: Tensor, op: "max" | "min"): Tensor {
  return x.isNaN().where(op === "max" ? -Infinity : Infinity, x);
}

function markOfNaN(x: Tensor, op: "max" | "min"): Tensor {
  return x.isNaN().where(op === "max" ? 1 : -1, x.zerosLike());
}

/** Tensors of one device and type, which may share a bucket; groups in the order of their first. */
function alike(tensors: readonly Tensor[]): Tensor[][] {
  const groups = new Map<string, Tensor[]>();
  for (const tensor of new Set(tensors)) {
    const key = `${tensor.device.selector} ${tensor.dtype}`;
    const known = groups.get(key);
    if (known) known.push(tensor);
    else groups.set(key, [tensor]);
  }
  return [...groups.values()];
}

/** The bytes of a value, as they are in memory. */
async function bytesOn(tensor: Tensor): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(bytesOf(tensor)), backend = backendOf(tensor.device);
  const storage = nodeOf(tensor.realize()).storage!.retain();
  try {
    await backend.read(storage.handle, bytes);
    return bytes;
  } finally {
    storage.release();
  }
}

/** Gives tensors new values, which are there. */
function assignAll(tensors: readonly Tensor[], values: readonly Tensor[]): void {
  internally(() => tensors.forEach((tensor, k) => tensor.assign(values[k]!)));
  realizeAll(tensors);
}
