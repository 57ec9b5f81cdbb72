/** Optimizer state in shards (S. Rajbhandari et al., ZeRO, 2020: stage 1). */
import { type Communicator, completedSync, type DType } from "../../backend/internal.ts";
import { writeAside } from "../core/calls.ts";
import { noGrad } from "../core/modes/grad_mode.ts";
import { requireValue, takes } from "../core/rules/options.ts";
import { requireState } from "../core/apply.ts";
import { replaceGradient } from "../core/internals.ts";
import { requireAny, requireParameters } from "../optim/optimizer/requirements.ts";
import type { Optimizer, StepOptions } from "../optim/optimizer/optimizer.ts";
import { Tensor } from "../class/tensor.ts";
import { bytesOf } from "./exchange/bucket.ts";
import { Group } from "./group.ts";
import { Pipeline } from "./exchange/pipeline.ts";
import { broadcastLines } from "./same_parameters.ts";
import { StateBroadcast } from "./exchange/state_broadcast.ts";

/**
 * An optimizer whose state is divided over the ranks: each remembers moments of its own part of the
 * parameters, changes that part, and sends it to the others. With n ranks the state takes an n-th of the
 * memory; a step sends the parameters once more. Use it with {@linkcode DataParallel}, which leaves the
 * same gradients on all ranks. `amp.GradScaler` steps ordinary optimizers only.
 *
 * @example Adam's moments in shards
 * ```ts
 * import { distributed, nn, optim, Tensor } from "@netcl/netcl";
 *
 * using group = distributed.init();
 * const model = new nn.Linear(4, 2), parallel = new distributed.DataParallel(model, group);
 * const optimizer = new distributed.ShardedOptimizer(
 *   model.parameters(),
 *   group,
 *   (own) => new optim.Adam(own, { lr: 1e-3 }),
 * );
 * optimizer.zeroGrad();
 * parallel.forward(Tensor.ones([8, 4])).square().mean().backward();
 * optimizer.step();
 * ```
 */
export class ShardedOptimizer implements Disposable {
  /** The optimizer of this rank's part; null where there are fewer parameters than ranks. */
  // deno-lint-ignore no-explicit-any -- the options are those of its own constructor
  readonly local: Optimizer<any> | null;
  readonly #parameters: readonly Tensor[];
  /** By rank: the places of its parameters. */
  readonly #shards: readonly (readonly number[])[];
  readonly #communicator: Communicator;
  readonly #broadcasts: readonly StateBroadcast[];

  /**
   * Divides the parameters; blocks until all ranks came here.
   *
   * @param parameters All that is learned, in the same order on every rank.
   * @param group The ranks.
   * @param make Makes the optimizer of this rank's parameters.
   */
  constructor(
    parameters: readonly Tensor[],
    group: Group,
    // deno-lint-ignore no-explicit-any -- the options are those of its own constructor
    make: (own: Tensor[]) => Optimizer<any>,
  ) {
    const action = "make a ShardedOptimizer";
    requireParameters(action, parameters);
    requireAny(action, parameters);
    requireValue(action, "group", group, {
      takes: "a group, such as distributed.init() returns",
      accepts: (value) => value instanceof Group,
    });
    requireValue(action, "make", make, takes.callback);
    this.#parameters = [...parameters];
    this.#communicator = group.communicator();
    this.#shards = divide(this.#parameters, group.size);
    const own = this.#of(group.rank);
    this.local = own.length > 0 ? make(own) : null;
    this.#broadcasts = this.#shards.map((_, rank) =>
      new StateBroadcast(group.size > 1 ? this.#of(rank) : [], this.#communicator, rank)
    );
  }

  #of(rank: number): Tensor[] {
    return this.#shards[rank]!.map((k) => this.#parameters[k]!);
  }

  /** The learning rate; the same on every rank, and NaN on one without parameters. */
  get lr(): number {
    return this.local?.lr ?? NaN;
  }

  /** Changes it; to be done on every rank. */
  set lr(value: number) {
    if (this.local) this.local.lr = value;
  }

  /** Gives all gradients back, those of other ranks' parameters too. */
  zeroGrad(): void {
    for (const parameter of this.#parameters) replaceGradient(parameter, null);
  }

  /**
   * Changes this rank's parameters by their gradients, and gets those of the others. A function that
   * `compile` made is replayed with it, unless it uses the parameters, or steps another optimizer, behind it.
   *
   * @param options As those of `Optimizer.step`.
   * @throws {InterruptedError} At Ctrl+C.
   */
  step(options: StepOptions = {}): void {
    this.local?.step(options);
    // A compiled function is replayed to its end before ranks communicate.
    writeAside(this, this.#parameters, () => {
      const pipeline = new Pipeline();
      for (const broadcast of this.#broadcasts) broadcast.begin(pipeline);
      completedSync("share the parameters of all ranks", pipeline);
    });
  }

  /**
   * The state of all ranks together, under the names of an optimizer of all parameters, for a checkpoint:
   * every rank must call it, and has room for all of it meanwhile.
   *
   * @throws {InterruptedError} At Ctrl+C.
   */
  stateDict(): Record<string, Tensor> {
    const all: Record<string, Tensor> = {}, { rank, size } = this.#communicator;
    for (let owner = 0; owner < size; owner++) {
      const own = owner === rank ? this.#ownState() : {};
      Object.assign(all, size === 1 ? own : this.#received(own, owner));
    }
    return all;
  }

  /** The state of this rank's part, under the names of the whole. */
  #ownState(): Record<string, Tensor> {
    const shard = this.#shards[this.#communicator.rank]!;
    return Object.fromEntries(
      Object.entries(this.local?.stateDict() ?? {}).map(([name, tensor]) => [
        name.replace(/^state\.(\d+)\./, (_, k) => `state.${shard[Number(k)]}.`),
        tensor,
      ]),
    );
  }

  #received(own: Record<string, Tensor>, owner: number): Record<string, Tensor> {
    const lines = Object.entries(own)
      .map(([name, { shape, dtype }]) => JSON.stringify([name, shape, dtype]));
    const { device } = this.#parameters[0]!;
    const tensors = broadcastLines(lines, this.#communicator, owner).map((line) => {
      const [name, shape, dtype] = JSON.parse(line) as [string, number[], DType];
      return [name, own[name] ?? Tensor.zeros(shape, { dtype, device })] as const;
    });
    if (tensors.length === 0) return {};
    const pipeline = new Pipeline();
    using broadcast = new StateBroadcast(
      tensors.map(([, tensor]) => tensor),
      this.#communicator,
      owner,
    );
    noGrad(() => broadcast.begin(pipeline));
    completedSync("collect the state of all ranks", pipeline);
    return Object.fromEntries(tensors);
  }

  /**
   * Goes on from what `stateDict` returned, or that of an ordinary optimizer of all parameters.
   *
   * @throws {RangeError} When names of this rank's part are missing; nothing is changed then.
   * @throws {ShapeError} When a shape differs; nothing is changed then.
   */
  loadStateDict(state: Readonly<Record<string, Tensor>>): void {
    requireState("load the state of a ShardedOptimizer", state);
    const places = new Map(this.#shards[this.#communicator.rank]!.map((k, at) => [String(k), at]));
    const own = Object.entries(state).flatMap(([name, tensor]) => {
      const [, k, rest] = /^state\.(\d+)\.(.*)$/.exec(name) ?? [];
      if (k === undefined) return [[name, tensor] as const];
      return places.has(k) ? [[`state.${places.get(k)}.${rest}`, tensor] as const] : [];
    });
    this.local?.loadStateDict(Object.fromEntries(own));
  }

  /** Gives the memory of the state back; the parameters stay. */
  dispose(): void {
    this.local?.dispose();
    for (const broadcast of this.#broadcasts) broadcast[Symbol.dispose]();
  }

  /** {@linkcode ShardedOptimizer.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** The places of each rank's parameters: the largest first, each to the rank that has least. */
function divide(parameters: readonly Tensor[], ranks: number): number[][] {
  const shards = Array.from({ length: ranks }, () => ({ bytes: 0, places: [] as number[] }));
  const places = parameters.map((_, k) => k)
    .toSorted((a, b) => bytesOf(parameters[b]!) - bytesOf(parameters[a]!) || a - b);
  for (const k of places) {
    const least = shards.reduce((a, b) => b.bytes < a.bytes ? b : a);
    least.bytes += bytesOf(parameters[k]!);
    least.places.push(k);
  }
  return shards.map((shard) => shard.places.sort((a, b) => a - b));
}
