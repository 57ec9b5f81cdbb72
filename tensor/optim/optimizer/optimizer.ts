/**
 * Common part of all optimizers: groups, state, and one schedule for all updates of a step.
 *
 * This folder (`optimizer/`) imports `ops/`, `execution/` and `core/`; `algorithms/` and
 * `schedules/` import it. The file is long because it is one class that users extend, and half of
 * it is documentation.
 */
import { type DeviceHandle, type DType, formatShape, NEED } from "../../../backend/internal.ts";
import { atLeastSingle } from "../../core/autocast.ts";
import { giveUpReplay, unobserved } from "../../core/calls.ts";
import { observedCall } from "../../core/operations.ts";
import { realizeAll } from "../../execution/realization.ts";
import { DisposedError } from "../../core/rules/errors.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import { internally } from "../../core/modes/temporaries.ts";
import { Tensor } from "../../class/tensor.ts";
import { completed, isDeterminedByOptions } from "./declared_options.ts";
import {
  type GroupOptions,
  type OptimizerOptions,
  type OptimizerParameters,
  ParameterGroup,
} from "./parameter_group.ts";
import { StepCounter } from "./step_counter.ts";
import { UpdateTemplates } from "./update_template.ts";
import { checkOptions, requireValue, takes } from "../../core/rules/options.ts";
import { checkParameters, checkState, requireParameters } from "./requirements.ts";
import { requireState } from "../../core/apply.ts";
import { become, gradientOf, isTensor, replaceGradient, stateOf } from "../../core/internals.ts";

/** Says that `target` has the value `value` after the step. */
export type Assign = (target: Tensor, value: Tensor) => void;

/** Data of an update. */
export interface Update<Options extends OptimizerOptions> {
  /** The learned tensor. */
  readonly parameter: Tensor;
  /** Its gradient, in float32 where the parameter has half precision. */
  readonly gradient: Tensor;
  /** Optimizer state of it. */
  readonly state: Readonly<Record<string, Tensor>>;
  /** Number of this update, from 1: float32, shape [2], the same number twice. */
  readonly step: Tensor;
  /** The options. */
  readonly group: ParameterGroup<Options>;
  /** The learning rate, a scalar. */
  readonly lr: Tensor;
}

/** Conditions that hold back a step. */
export interface StepOptions {
  /** A bool scalar for each device: where it is true when the step is computed, nothing changes. */
  skip?: (device: DeviceHandle) => Tensor;
}

interface Entry<Options extends OptimizerOptions> {
  readonly parameter: Tensor;
  readonly group: ParameterGroup<Options>;
  readonly state: Record<string, Tensor>;
  counter: StepCounter;
  /** The device and type of the parameter for which the state was made. */
  at: { readonly device: DeviceHandle; readonly dtype: DType };
}

/**
 * Changes parameters by their gradients. A step is lazy until its end, when all parameters and all
 * state are computed in one schedule, together with the backward pass that they need.
 *
 * @typeParam Options What the optimizer can be told, for all parameters or group by group.
 */
export abstract class Optimizer<Options extends OptimizerOptions = OptimizerOptions>
  implements Disposable {
  readonly #groups: ParameterGroup<Options>[] = [];
  readonly #entries: Entry<Options>[] = [];
  readonly #defaults: Required<Options>;
  /** The options of each group as they were when its state was made. */
  readonly #known = new WeakMap<ParameterGroup<Options>, Readonly<Record<string, unknown>>>();
  /** Grows when options change, and when state is kept in other tensors: what a step was made for. */
  #version = 0;
  readonly #templates = new UpdateTemplates();

  /**
   * Makes the optimizer.
   *
   * @param parameters What is learned, or groups of it with options of their own.
   * @param options For the groups that do not say otherwise. A class of your own passes every option;
   * those of this module have defaults.
   * @throws {TypeError} When there is nothing to learn, or a parameter is no leaf that requires a
   * gradient, or is there twice, or an option is not known.
   * @throws {RangeError} When an option is out of range.
   */
  constructor(parameters: OptimizerParameters<Options>, options: Options) {
    this.#defaults = completed(new.target, options);
    this.#add(this.#groupsOf(parameters));
  }

  /** Parameters with their options. */
  get groups(): readonly ParameterGroup<Options>[] {
    return this.#groups;
  }

  /**
   * Learns more parameters from now on, such as those of a layer that was frozen so far. Schedules that
   * were made before leave their learning rate alone.
   *
   * @param group The parameters, with options of their own; those left out are the optimizer's.
   * @throws {TypeError} When there is nothing to learn, or a parameter is no leaf that requires a
   * gradient, or is learned already.
   *
   * @example
   * ```ts
   * import { nn, optim } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const body = new nn.Linear(4, 4), head = new nn.Linear(4, 2);
   * const optimizer = new optim.Adam(head.parameters(), { lr: 1e-3 });
   * optimizer.addParamGroup({ parameters: body.parameters(), lr: 1e-4 });
   * assertEquals(optimizer.groups.map(({ lr }) => lr), [1e-3, 1e-4]);
   * ```
   */
  addParamGroup(group: GroupOptions<Options>): void {
    const action = `add a group to ${this.constructor.name}`;
    requireValue(action, "group", group, takes.object("an object { parameters, ...options }"));
    giveUpReplay("it adds parameters to an optimizer");
    this.#add(this.#groupsOf([group]));
    this.#version++;
  }

  #groupsOf(parameters: OptimizerParameters<Options>): ParameterGroup<Options>[] {
    const { name } = this.constructor;
    const isGrouped = Array.isArray(parameters) &&
      Array.from(parameters).every((group) => group?.parameters !== undefined);
    if (!isGrouped) requireParameters(`make ${name}`, parameters);
    if (isTensor(parameters[0])) {
      return [new ParameterGroup<Options>(parameters as readonly Tensor[], this.#defaults)];
    }
    return (parameters as readonly GroupOptions<Options>[]).map(({ parameters, ...options }) => {
      requireParameters(`make ${name}`, parameters);
      const all = completed(this.constructor, options as unknown as Options, this.#defaults);
      return new ParameterGroup<Options>(parameters, all);
    });
  }

  #add(groups: readonly ParameterGroup<Options>[]): void {
    for (const { options } of groups) this.checkGroup(options);
    checkParameters([...this.#groups, ...groups].flatMap((group) => group.parameters));
    const added = groups.flatMap((group) => {
      const counters = new Map<DeviceHandle, StepCounter>();
      return group.parameters.map((parameter) => {
        const { device, dtype } = parameter;
        const counter = counters.get(device) ?? StepCounter.at(0, device);
        counters.set(device, counter);
        const state = withoutGrad(() => this.initialState(parameter, group));
        return { parameter, group, state, counter, at: { device, dtype } };
      });
    });
    for (const { group, parameter } of added) group.rateOn(parameter.device);
    // Before the first step, so that all steps are the same work.
    realizeAll(added.flatMap((entry) => [entry.parameter, ...Object.values(entry.state)]));
    for (const group of groups) this.#known.set(group, { ...group.fixedOptions });
    this.#groups.push(...groups);
    this.#entries.push(...added);
  }

  /** Options may have changed: then there may be more to remember, as momentum where there was none. */
  #completeState(): void {
    for (const group of this.#groups) {
      if (!haveEqualValues(this.#known.get(group)!, group.fixedOptions)) this.#adapt(group);
    }
  }

  #adapt(group: ParameterGroup<Options>): void {
    const { options } = group;
    if (isDeterminedByOptions(this.constructor)) {
      completed(this.constructor, options as unknown as Options, this.#defaults);
    }
    this.checkGroup(options);
    giveUpReplay("options of an optimizer have changed", { isPassing: true });
    const entries = this.#entries.filter((entry) => entry.group === group);
    unobserved(() => entries.forEach((entry) => this.#remember(entry)));
    this.#known.set(group, { ...group.fixedOptions });
    this.#version++;
  }

  /** Sets what an entry lacks as before the first step. */
  #remember({ parameter, group, state }: Entry<Options>): void {
    const initial = withoutGrad(() => this.initialState(parameter, group));
    group.scalarsOn(parameter.device);
    for (const [name, tensor] of Object.entries(initial)) {
      if (Object.hasOwn(state, name)) tensor.dispose();
      else state[name] = tensor.realize();
    }
  }

  /** Throws where the options of a group do not go together; it knows nothing of the optimizer yet. */
  protected checkGroup(_options: Required<Omit<Options, "lr">>): void {}

  /** State of a parameter before the first step, under PyTorch's names. */
  protected abstract initialState(
    parameter: Tensor,
    group: ParameterGroup<Options>,
  ): Record<string, Tensor>;

  /**
   * Says what becomes of a parameter and its state. Tensors that it makes are temporaries: one that is
   * to be read after the step must be assigned, or realized here.
   */
  protected abstract update(update: Update<Options>, assign: Assign): void;

  /** True when updates depend on how many there were before. */
  protected counts(_group: ParameterGroup<Options>): boolean {
    return false;
  }

  /** The learning rate of the first group. */
  get lr(): number {
    return this.groups[0]!.lr;
  }

  /** The learning rate of every group. */
  set lr(value: number) {
    for (const group of this.groups) group.lr = value;
  }

  /** Gives all gradients back. */
  zeroGrad(): void {
    for (const { parameter } of this.#entries) replaceGradient(parameter, null);
  }

  /**
   * Changes every parameter that has a gradient, and computes all that this takes.
   *
   * @param options Whether to hold the step back, which the device decides.
   * @throws {DisposedError} When a parameter was disposed.
   * @throws {OutOfMemoryError} When the new values do not fit.
   */
  step(options: StepOptions = {}): void {
    checkOptions("step", options, { skip: takes.callback });
    // One call for `compile`, where it depends on nothing but what is told here.
    this.#follow();
    if (!isDeterminedByOptions(this.constructor)) return this.#step(options);
    this.#completeState();
    const skips = options.skip ? this.#devices.map(options.skip) : [];
    observedCall("step", this.#stepAsTold, this, [this.#version, skips]);
  }

  #stepAsTold(_version: number, skips: readonly Tensor[]): void {
    if (skips.length === 0) return this.#step({});
    const devices = this.#devices;
    this.#step({ skip: (device) => skips[devices.indexOf(device)]! });
  }

  /** Takes state along where parameters were moved to another device, or cast, since it was made. */
  #follow(): void {
    const moved = this.#entries.filter(({ parameter, at }) =>
      parameter.device !== at.device || parameter.dtype !== at.dtype
    );
    if (moved.length === 0) return;
    giveUpReplay("parameters of an optimizer have moved", { isPassing: true });
    const counters = new Map<string, StepCounter>(),
      known = [...this.#entries.map((e) => e.counter)];
    unobserved(() => {
      for (const entry of moved) {
        const { parameter: { device, dtype }, group, state, counter } = entry;
        for (const value of Object.values(state)) {
          if (value.device !== device) become(value, withoutGrad(() => value.to(device)));
        }
        const key = `${known.indexOf(counter)} ${device}`;
        if (counter.count.device !== device) {
          entry.counter = counters.get(key) ?? counter.copy(device);
        }
        counters.set(key, entry.counter);
        group.scalarsOn(device);
        entry.at = { device, dtype };
      }
    });
    this.#version++;
  }

  /** Devices of the parameters. */
  get #devices(): DeviceHandle[] {
    return [...new Set(this.#entries.map(({ parameter }) => parameter.device))];
  }

  #step(options: StepOptions): void {
    const gone = this.#entries.find(({ parameter }) => parameter.disposed)?.parameter;
    if (gone) {
      throw new DisposedError(
        `Cannot optimize the parameter of shape ${
          formatShape(gone.shape)
        }: it was disposed; make ` +
          `an optimizer of the parameters that are left`,
      );
    }
    const active = this.#entries.filter(({ parameter }) => gradientOf(parameter) !== null);
    this.#separateCounters(new Set(active));
    const targets: Tensor[] = [], skips = new Set<Tensor>();
    internally(() => {
      const values = [...this.#nextValues(active)].map(([target, value]) => {
        const skip = options.skip?.(target.device);
        if (skip) skips.add(skip);
        return [target, skip ? skip.where(target, value) : value] as const;
      });
      for (const [target, value] of values) targets.push(target.assign(value));
    }, NEED.none);
    try {
      // Whoever holds the step back asks again, when what it was found from is gone.
      realizeAll([...targets, ...skips]);
    } catch (error) {
      // An error or Ctrl+C that cuts a step short leaves every parameter as it was.
      for (const target of targets) stateOf(target).restoreFormer();
      throw error;
    }
    // What was computed from the former parameters may still be read; nobody reads former state.
    const parameters = new Set(active.map(({ parameter }) => parameter));
    for (const target of targets) if (!parameters.has(target)) stateOf(target).dropFormer();
  }

  /** Next values of parameters and state, by their tensors. */
  #nextValues(active: readonly Entry<Options>[]): Map<Tensor, Tensor> {
    if (!isDeterminedByOptions(this.constructor)) return this.#updates(active);
    const key = {
      parameters: active.map(({ parameter }) => parameter),
      version: this.#version,
      inputs: [
        ...active.flatMap(({ parameter, state }) => [
          parameter,
          gradientOf(parameter)!,
          ...Object.values(state),
        ]),
        ...new Set(active.map(({ counter }) => counter.count)),
        ...new Set(active.flatMap(({ group, parameter }) => group.scalarsOn(parameter.device))),
      ],
    };
    return this.#templates.nextValues(key, () => this.#updates(active));
  }

  #updates(active: readonly Entry<Options>[]): Map<Tensor, Tensor> {
    const next = new Map<Tensor, Tensor>();
    const assign: Assign = (target, value) => next.set(target, value.cast(target.dtype));
    const steps = countOn(active.filter((e) => this.counts(e.group)), assign);
    for (const { parameter, group, state, counter } of active) {
      const gradient = atLeastSingle(gradientOf(parameter)!),
        step = steps.get(counter) ?? counter.count;
      const lr = group.rateOn(parameter.device);
      this.update({ parameter, gradient, state, step, group, lr }, assign);
    }
    return next;
  }

  /** Parameters that are not updated now no longer count with those that are. */
  #separateCounters(active: ReadonlySet<Entry<Options>>): void {
    const resting = new Set<StepCounter>();
    for (const entry of this.#entries) if (!active.has(entry)) resting.add(entry.counter);
    const copies = new Map<StepCounter, StepCounter>();
    for (const entry of active) {
      const { counter } = entry;
      if (!resting.has(counter)) continue;
      const copy = copies.get(counter) ?? counter.copy();
      copies.set(counter, copy);
      entry.counter = copy;
      this.#version++;
    }
  }

  /**
   * State of the optimizer, as tensors: `state.0.exp_avg` of the first parameter, and so on,
   * with its number of steps, and the learning rates of the groups. It can be saved as safetensors.
   */
  stateDict(): Record<string, Tensor> {
    this.#follow();
    this.#completeState();
    const state: Record<string, Tensor> = {};
    this.#entries.forEach((entry, k) => {
      for (const [name, value] of Object.entries(entry.state)) {
        state[`state.${k}.${name}`] = value.detach();
      }
      state[`state.${k}.step`] = entry.counter.count.slice(0).realize();
    });
    const { device } = this.#entries[0]!.parameter;
    this.groups.forEach(({ lr }, k) => {
      state[`param_groups.${k}.lr`] = Tensor.fromHost(lr, { device });
    });
    return state;
  }

  /**
   * Goes on from a state that `stateDict` returned for an optimizer of the same parameters.
   *
   * @throws {RangeError} When names are missing or not known; nothing is changed then.
   * @throws {ShapeError} When a shape differs; nothing is changed then.
   */
  loadStateDict(state: Readonly<Record<string, Tensor>>): void {
    requireState(`load the state of ${this.constructor.name}`, state);
    const own = this.stateDict();
    checkState(this.constructor.name, own, state);
    const counters = new Map<string, StepCounter>();
    const former = new Set(this.#entries.map((entry) => entry.counter));
    const loaded: Tensor[] = [];
    this.#entries.forEach((entry, k) => {
      const { device } = entry.parameter;
      for (const [name, target] of Object.entries(entry.state)) {
        loaded.push(target.assign(state[`state.${k}.${name}`]!.to(device)));
      }
      const steps = state[`state.${k}.step`]!.itemSync();
      const key = `${this.groups.indexOf(entry.group)} ${device} ${steps}`;
      const counter = counters.get(key) ?? StepCounter.at(steps, device);
      counters.set(key, counter);
      entry.counter = counter;
    });
    this.#version++;
    realizeAll(loaded);
    for (const target of loaded) stateOf(target).dropFormer();
    this.groups.forEach((group, k) => {
      group.lr = shortest(state[`param_groups.${k}.lr`]!.itemSync());
    });
    for (const tensor of [...Object.values(own), ...former]) tensor.dispose();
  }

  /** Gives the memory of the state back; the parameters stay. */
  dispose(): void {
    for (const { state, counter } of this.#entries) {
      for (const tensor of Object.values(state)) tensor.dispose();
      counter.dispose();
    }
    for (const group of this.groups) group.dispose();
  }

  /** {@linkcode Optimizer.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** Zeros to remember a moment of a parameter in; half precision would be too coarse. */
export function zerosFor(parameter: Tensor): Tensor {
  return atLeastSingle(parameter.zerosLike());
}

/** True where both have the same names with the same values. */
function haveEqualValues(
  a: Readonly<Record<string, unknown>>,
  b: Readonly<Record<string, unknown>>,
): boolean {
  for (const name in a) if (!Object.is(a[name], b[name])) return false;
  for (const name in b) if (!(name in a)) return false;
  return true;
}

/** Counts the step that is being made; the new counts by their counters. */
function countOn(
  entries: readonly Entry<OptimizerOptions>[],
  assign: Assign,
): Map<StepCounter, Tensor> {
  const steps = new Map<StepCounter, Tensor>();
  for (const counter of new Set(entries.map((entry) => entry.counter))) {
    const next = counter.count.add(1);
    steps.set(counter, next);
    assign(counter.count, next);
  }
  return steps;
}

/** The shortest decimal number that is the same in float32: 0.001, not 0.0010000000474974513. */
function shortest(value: number): number {
  for (let digits = 1; digits < 9; digits++) {
    const rounded = Number(value.toPrecision(digits));
    if (Math.fround(rounded) === Math.fround(value)) return rounded;
  }
  return value;
}
