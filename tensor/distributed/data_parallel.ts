/** One model that several ranks or devices train, each on its part of every batch. */
import {
  adviseOnBinding,
  agree,
  alone,
  backendOf,
  type Communicator,
  completedSync,
  type DeviceHandle,
  manager,
} from "../../backend/internal.ts";
import { addAccumulationHook } from "../autograd/accumulation_hooks.ts";
import { giveUpReplay } from "../core/calls.ts";
import { withGradientReceiver } from "../core/gradient_receiver.ts";
import type { Rule } from "../../ffi/host/option_rules.ts";
import { checkOptions, requireValue, type Rules, takes } from "../core/rules/options.ts";
import { Module } from "../nn/module/module.ts";
import type { Tensor } from "../core/mod.ts";
import { DeviceParallel } from "./device_parallel.ts";
import { GradientReducer } from "./gradient_reducer.ts";
import { Group } from "./group.ts";
import { Pipeline } from "./exchange/pipeline.ts";
import { requireSameParameters } from "./same_parameters.ts";
import { SharedState } from "./exchange/shared_state.ts";
import type { Sharing } from "./exchange/shared_turns.ts";
import { StateBroadcast, type StateSender } from "./exchange/state_broadcast.ts";

/** Options of a {@linkcode DataParallel}. */
export interface DataParallelOptions {
  /**
   * Gradients that travel together, in bytes; default 25 MiB, and less towards the end where devices of a
   * host add up.
   */
  bucketBytes?: number;
  /** True when ranks get rank 0's buffers with the gradients, as for BatchNorm; default true. */
  broadcastBuffers?: boolean;
  /**
   * Place of the sum of gradients: "host", by MPI, or "device", where ranks of one host read
   * each other's from shared memory. Default: "device", if all ranks are on one host. Ranks of several
   * hosts add up on the host in any case.
   */
  reduceOn?: "host" | "device";
}

const argumentLists: Rule = {
  takes: "an array with the arguments for each device",
  accepts: (value) => Array.isArray(value) && [...value].every(Array.isArray),
};

const rules: Rules<DataParallelOptions> = {
  bucketBytes: takes.count,
  broadcastBuffers: takes.bool,
  reduceOn: takes.oneOf("host", "device"),
};

/**
 * Trains one model on several ranks, or on several devices of this process.
 *
 * With a group all ranks start from rank 0's parameters and buffers; every `backward`
 * leaves the mean of all ranks' gradients in the parameters, so that all ranks make the same step.
 *
 * Gradients travel in buckets, in the order in which backward makes them: one is reduced while the next
 * is computed. The mean counts ranks, not samples: give all ranks batches of one size (a `DataLoader`
 * with `shard: group` does), or weight the loss. A rank that does not use a parameter counts as zeros;
 * one that no rank uses keeps no gradient.
 *
 * `optim.clipGradNorm` and `amp.GradScaler` work as on one rank, since all see the same gradients.
 * Running statistics of BatchNorm are rank 0's (`SyncBatchNorm` uses the batches of all ranks). Save on
 * rank 0: `if (group.rank === 0) await saveSafetensors(path, parallel.module.stateDict())`.
 *
 * A function that runs `forward` cannot be replayed by `compile`, because ranks communicate in it: it
 * runs as if it were not compiled. Compile what computes the gradients with `module.forward`, and pass
 * it to `onEachDevice`: gradients leave while it is replayed. (Within `noSync`, with `reduceGradients()`
 * behind it, they leave afterwards.)
 *
 * With a list of devices, of which the first has the model, `forward` splits tensors along axis 0, runs
 * each part on its device and puts the outputs together on the first one; `backward` adds the gradients
 * up there, the optimizer learns there, and the other devices get the new parameters with the next
 * `forward`. `onEachDevice` needs no outputs to be gathered, and is faster.
 *
 * @typeParam Inputs What the module's `forward` takes.
 * @typeParam Output What it gives.
 *
 * @example `mpirun -n 2 deno run -A train.ts`
 * ```ts
 * import { DataLoader, distributed, nn, optim, TensorDataset } from "@netcl/netcl";
 *
 * using group = distributed.init();
 * const data = new TensorDataset(
 *   { data: new Float32Array(64), shape: [32, 2] },
 *   { data: new Int32Array(32), shape: [32] },
 * );
 * const model = new nn.Linear(2, 3), parallel = new distributed.DataParallel(model, group);
 * const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
 * for await (const [x, y] of new DataLoader(data, { batchSize: 8, shuffle: true, shard: group })) {
 *   using loss = parallel.forward(x).crossEntropy(y);
 *   optimizer.zeroGrad();
 *   loss.backward();
 *   optimizer.step();
 * }
 * ```
 */
export class DataParallel<Inputs extends unknown[] = [Tensor], Output = Tensor>
  implements Disposable {
  /** The model; its parameters are what the optimizer learns. */
  readonly module: Module<Inputs, Output>;
  /** Devices of this process: one device of a rank, or those that were passed. */
  readonly devices: readonly DeviceHandle[];
  readonly #local: DeviceParallel<Inputs, Output> | null = null;
  readonly #communicator: Communicator;
  readonly #reducer: GradientReducer | null = null;
  readonly #buffers: StateSender | null = null;
  readonly #hook: Disposable | null = null;
  /** Number of running `noSync`. */
  #pauses = 0;
  #isOnEach = false;
  /** Leaves reached by the last `backward` within `onEachDevice`, in its order. */
  #reached: readonly Tensor[] = [];

  /**
   * With a group: compares the parameters of all ranks and gives them those of rank 0; blocks until all
   * ranks came here.
   *
   * @param module The model, the same on every rank.
   * @param where The ranks, see {@linkcode init}; or devices, the model's first.
   * @param options Sizes of buckets, what becomes of buffers.
   * @throws {TypeError} On every rank, when parameters differ in number, name, shape or type; when the
   * model is not on the first of the devices.
   * @throws {InterruptedError} At Ctrl+C.
   */
  constructor(
    module: Module<Inputs, Output>,
    where: Group | readonly (string | DeviceHandle)[],
    options: DataParallelOptions = {},
  ) {
    requireValue("make a DataParallel", "module", module, {
      takes: "an nn.Module",
      accepts: (value) => value instanceof Module,
    });
    requireValue("make a DataParallel", "where", where, {
      takes: "a group, such as distributed.init() returns, or an array of devices",
      accepts: (value) => value instanceof Group || Array.isArray(value) && value.length > 0,
    });
    checkOptions("make a DataParallel", options, rules);
    const { bucketBytes, broadcastBuffers = true } = options;
    this.module = module;
    if (!(where instanceof Group)) {
      this.devices = devicesFor(module, where);
      this.#communicator = alone;
      if (this.devices.length > 1) {
        this.#local = new DeviceParallel(module, this.devices, bucketBytes);
      }
      return;
    }
    this.devices = [deviceOf(module) ?? manager.active];
    this.#communicator = where.communicator();
    if (where.size === 1) return;
    if (this.devices[0]!.deviceType === "gpu" && where.rank === 0) adviseOnBinding();
    const parameters = module.namedParameters(), buffers = module.namedBuffers();
    requireSameParameters([...parameters, ...buffers], this.#communicator);
    this.#sendState();
    const learned = parameters.map(([, tensor]) => tensor)
      .filter(({ requiresGrad }) => requiresGrad);
    if (learned.length === 0) return;
    const sharing = this.#sharing(options.reduceOn);
    if (broadcastBuffers && buffers.length > 0) {
      const state = buffers.map(([, tensor]) => tensor), communicator = this.#communicator;
      const shared = sharing && SharedState.share(state, communicator, sharing);
      this.#buffers = shared ?? new StateBroadcast(state, communicator);
    }
    this.#reducer = new GradientReducer(learned, this.#communicator, {
      bucketBytes,
      state: this.#buffers,
      sharing,
    });
    this.#hook = addAccumulationHook(learned, (leaves) => {
      if (this.#pauses === 0) this.#reducer!.reduce(leaves);
      else if (this.#isOnEach) this.#reached = leaves;
    });
  }

  /**
   * Memory sharing of one host's ranks; null where MPI adds up. A CPU device has no use for
   * copies that wait for others beside its kernels: they are on the same cores.
   */
  #sharing(reduceOn: DataParallelOptions["reduceOn"]): Sharing | null {
    const communicator = this.#communicator, { localSize, size } = communicator;
    const { unifiedMemory } = backendOf(this.devices[0]!).capabilities;
    const isShared = size === localSize && agree(communicator, reduceOn !== "host");
    if (!isShared) return null;
    return { deviceWaits: agree(communicator, reduceOn === "device" || !unifiedMemory) };
  }

  /**
   * Computes the module's output for this rank's part of a batch, or for all parts on their devices.
   *
   * @throws {ShapeError} With several devices, when inputs have different lengths along axis 0.
   * @throws {TypeError} With several devices, when the output is no tensor with one sample an index.
   */
  forward(...inputs: Inputs): Output {
    if (this.#local) {
      giveUpReplay("it computes on several devices");
      return this.#local.forward(inputs);
    }
    if (this.#reducer && this.#pauses === 0) giveUpReplay("ranks communicate in its backward");
    return this.module.forward(...inputs);
  }

  /**
   * Calls a function once for each device of this process, where the module is that device's; the
   * gradients that its `backward` leaves become their mean over devices and ranks. It may be one that
   * `compile` made. Hooks of parameters get the gradient of each device, on that device.
   *
   * @param batches What to call it with, tensors of the device; at most one batch a device.
   * @param fn Computes a loss and goes backward.
   * @returns What the calls return, each on its device.
   * @throws {RangeError} When there are more batches than devices.
   * @throws {InterruptedError} At Ctrl+C.
   *
   * @example A batch for each device
   * ```ts
   * import { distributed, manager, nn, Tensor } from "@netcl/netcl";
   *
   * const model = new nn.Linear(3, 1), { device } = model.weight;
   * const parallel = new distributed.DataParallel(model, [device]); // or all of manager.list()
   * const batches = parallel.devices.map((device) => [Tensor.ones([8, 3], { device })] as [Tensor]);
   * const losses = parallel.onEachDevice(batches, (x) => {
   *   const loss = model.forward(x).square().mean();
   *   loss.backward();
   *   return loss;
   * });
   * console.assert(losses.length === parallel.devices.length && manager.list().length > 0);
   * ```
   */
  onEachDevice<Batch extends unknown[], R>(
    batches: readonly Batch[],
    fn: (...batch: Batch) => R,
  ): R[] {
    requireValue("compute on each device", "batches", batches, argumentLists);
    requireValue("compute on each device", "fn", fn, takes.callback);
    if (batches.length === 0 || batches.length > this.devices.length) {
      throw new RangeError(
        `Cannot compute on each device with ${batches.length} batches: pass 1 to ` +
          `${this.devices.length}, one a device`,
      );
    }
    giveUpReplay("it computes on several devices");
    if (this.#local) return this.#local.onEach(batches, fn);
    const result = this.#withinEach(() => fn(...batches[0]!));
    this.#reducer?.reduce(this.#reached);
    return [result];
  }

  /** Replays give their gradients away as soon as they are enqueued, since a reduction follows. */
  #withinEach<T>(fn: () => T): T {
    this.#isOnEach = true;
    this.#reached = [];
    try {
      return withGradientReceiver(this.#reducer, () => this.noSync(fn));
    } finally {
      this.#isOnEach = false;
    }
  }

  /**
   * Gradients are added up on each rank, and reduced by the next `backward` outside: for batches larger
   * than memory, in several parts.
   *
   * @param fn What calls `backward`; a promise that it returns is waited for.
   * @returns What `fn` returns.
   *
   * @example Two parts of a batch
   * ```ts
   * import { distributed, nn, Tensor } from "@netcl/netcl";
   *
   * using group = distributed.init();
   * const parallel = new distributed.DataParallel(new nn.Linear(2, 1), group);
   * parallel.noSync(() => parallel.forward(Tensor.ones([4, 2])).mean().backward());
   * parallel.forward(Tensor.ones([4, 2])).mean().backward();
   * ```
   */
  noSync<T>(fn: () => T): T {
    requireValue("go without reducing", "fn", fn, takes.callback);
    this.#pauses++;
    let isPending = false;
    try {
      const value = fn();
      isPending = value instanceof Promise;
      if (isPending) (value as Promise<unknown>).finally(() => this.#pauses--).catch(() => {});
      return value;
    } finally {
      if (!isPending) this.#pauses--;
    }
  }

  /**
   * Reduces the gradients that are there, where no `backward` outside of `noSync` did: behind a compiled
   * function that made them.
   *
   * @throws {InterruptedError} At Ctrl+C.
   */
  reduceGradients(): void {
    giveUpReplay("ranks communicate in it");
    this.#reducer?.reduce([]);
  }

  /**
   * Gives all ranks rank 0's parameters and buffers, such as after rank 0 has loaded a checkpoint.
   * Blocks until all ranks came here.
   *
   * @throws {InterruptedError} At Ctrl+C.
   */
  synchronize(): void {
    giveUpReplay("ranks communicate in it");
    if (this.#communicator.size > 1) this.#sendState();
  }

  #sendState(): void {
    const state = [...this.module.namedParameters(), ...this.module.namedBuffers()];
    if (state.length === 0) return;
    using broadcast = new StateBroadcast(state.map(([, tensor]) => tensor), this.#communicator);
    const pipeline = new Pipeline();
    broadcast.begin(pipeline);
    completedSync("send the parameters of rank 0", pipeline);
  }

  /** Reduces no more; the module stays. */
  dispose(): void {
    this.#local?.[Symbol.dispose]();
    this.#hook?.[Symbol.dispose]();
    this.#reducer?.[Symbol.dispose]();
    this.#buffers?.[Symbol.dispose]();
  }

  /** {@linkcode DataParallel.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** The device of a module's parameters; null where it has none. */
function deviceOf(module: { parameters(): Tensor[] }): DeviceHandle | null {
  return module.parameters()[0]?.device ?? null;
}

function devicesFor(
  module: { parameters(): Tensor[] },
  devices: readonly (string | DeviceHandle)[],
): DeviceHandle[] {
  const handles = devices.map((device) => manager.resolve(device)), first = deviceOf(module);
  if (new Set(handles).size < handles.length) {
    throw new TypeError(`Cannot make a DataParallel: pass each device once, not ${handles.join()}`);
  }
  if (first === null || first === handles[0]) return handles;
  throw new TypeError(
    `Cannot make a DataParallel on ${
      handles[0]
    } and others: the model is on ${first}; move it with ` +
      "to(), before the optimizer is made",
  );
}
