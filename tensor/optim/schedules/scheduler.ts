/**
 * Learning rates that change over time. A schedule is a function of the first rate and the time; what
 * passes with a call of `step`, an epoch or a batch, is the caller's choice.
 *
 * This folder (`schedules/`) imports `optimizer/` and `core/`. It sets the learning rates of
 * groups, and touches no tensor.
 */
import type { Optimizer } from "../optimizer/optimizer.ts";
import type { ParameterGroup } from "../optimizer/parameter_group.ts";
import { checkOptions, requireValue, type Rules, takes } from "../../core/rules/options.ts";
import { requireOptimizer } from "../optimizer/requirements.ts";
import type { Rule } from "../../../ffi/host/option_rules.ts";

/** The rate at a time, from the rate at the beginning. */
export type Rate = (initial: number, time: number) => number;

/** The momentum at a time; undefined where it is to stay as it is. */
export type MomentumAt = (time: number) => number | undefined;

/** State of a schedule; plain numbers, for JSON. */
export interface SchedulerState {
  /** Number of calls of `step`. */
  time: number;
  /** The rates of the groups at the beginning. */
  initialRates: number[];
}

/** The rates before the first of several schedules was made. */
const beginnings = new WeakMap<ParameterGroup, number>();

/**
 * Sets the learning rates of an optimizer by a function of time.
 *
 * @example Any schedule
 * ```ts
 * import { optim, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const optimizer = new optim.SGD([Tensor.ones([1], { requiresGrad: true })], { lr: 1 });
 * const scheduler = new optim.Scheduler(optimizer, (initial, time) => initial / (1 + time));
 * scheduler.step();
 * assertEquals(optimizer.lr, 0.5);
 * ```
 */
export class Scheduler {
  /** The function of time. */
  readonly rate: Rate;
  /** The momentum by time, where the schedule sets one. */
  readonly momentum: MomentumAt | null;
  readonly #groups: readonly ParameterGroup[];
  #initialRates: number[];
  #time = 0;

  /**
   * Makes the schedule, and sets the rates for time 0.
   *
   * @param optimizer Whose rates.
   * @param rate The function of time.
   * @param momentum The momentum by time: the option `momentum`, or `beta1`.
   */
  constructor(optimizer: Optimizer, rate: Rate, momentum: MomentumAt | null = null) {
    requireOptimizer(`make a ${new.target.name}`, optimizer);
    requireValue(`make a ${new.target.name}`, "rate", rate, takes.callback);
    if (momentum !== null) {
      requireValue(`make a ${new.target.name}`, "momentum", momentum, takes.callback);
    }
    this.rate = rate;
    this.momentum = momentum;
    this.#groups = optimizer.groups;
    this.#initialRates = this.#groups.map((group) => {
      const initial = beginnings.get(group) ?? group.lr;
      beginnings.set(group, initial);
      return initial;
    });
    this.#apply();
  }

  #apply(): void {
    // Groups that were added to the optimizer since have their rates to themselves.
    const momentum = this.momentum?.(this.#time);
    this.#initialRates.forEach((initial, k) => {
      const group = this.#groups[k]!;
      group.lr = this.rate(initial, this.#time);
      if (momentum !== undefined) group.momentum = momentum;
    });
  }

  /** Number of calls of `step`. */
  get time(): number {
    return this.#time;
  }

  /** Lets time pass; call it after the optimizer's steps. */
  step(): void {
    this.#time++;
    this.#apply();
  }

  /** State of the schedule. */
  stateDict(): SchedulerState {
    return { time: this.#time, initialRates: [...this.#initialRates] };
  }

  /**
   * Goes on from where a schedule was.
   *
   * @throws {RangeError} When it was made for another number of groups.
   */
  loadStateDict(state: SchedulerState): void {
    checkOptions("load the state of a schedule", state, stateRules, ["time", "initialRates"]);
    const { time, initialRates } = state;
    if (initialRates.length !== this.#initialRates.length) {
      throw new RangeError(
        `Cannot load a schedule of ${initialRates.length} groups: the optimizer has ${this.#initialRates.length}`,
      );
    }
    this.#time = time;
    this.#initialRates = [...initialRates];
    this.#apply();
  }
}

/** The initial rate times a function of time. */
export class LambdaLR extends Scheduler {
  /**
   * Makes the schedule.
   *
   * @param optimizer Whose rates.
   * @param factor The factor at each time.
   */
  constructor(optimizer: Optimizer, factor: (time: number) => number) {
    requireValue("make a LambdaLR", "factor", factor, takes.callback);
    super(optimizer, (initial, time) => initial * factor(time));
  }
}

/** Multiplies by `gamma` every `stepSize` steps. */
export class StepLR extends Scheduler {
  /**
   * Makes the schedule.
   *
   * @param optimizer Whose rates.
   * @param options `gamma` is 0.1 by default.
   */
  constructor(optimizer: Optimizer, options: { stepSize: number; gamma?: number }) {
    checkOptions("make a StepLR", options, stepRules, ["stepSize"]);
    const { stepSize, gamma = 0.1 } = options;
    super(optimizer, (initial, time) => initial * gamma ** Math.floor(time / stepSize));
  }
}

/** Multiplies by `gamma` at given times. */
export class MultiStepLR extends Scheduler {
  /**
   * Makes the schedule.
   *
   * @param optimizer Whose rates.
   * @param options The times; `gamma` is 0.1 by default.
   */
  constructor(optimizer: Optimizer, options: { milestones: readonly number[]; gamma?: number }) {
    checkOptions("make a MultiStepLR", options, multiStepRules, ["milestones"]);
    const { milestones, gamma = 0.1 } = options;
    super(optimizer, (initial, time) => {
      return initial * gamma ** milestones.filter((milestone) => milestone <= time).length;
    });
  }
}

/** Multiplies by `gamma` every step. */
export class ExponentialLR extends Scheduler {
  /**
   * Makes the schedule.
   *
   * @param optimizer Whose rates.
   * @param options The factor of a step.
   */
  constructor(optimizer: Optimizer, options: { gamma: number }) {
    checkOptions("make an ExponentialLR", options, exponentialRules, ["gamma"]);
    const { gamma } = options;
    super(optimizer, (initial, time) => initial * gamma ** time);
  }
}

/**
 * Follows a cosine from the initial rate to `etaMin` in `tMax` steps, and back (I. Loshchilov, F.
 * Hutter, SGDR, 2017).
 */
export class CosineAnnealingLR extends Scheduler {
  /**
   * Makes the schedule.
   *
   * @param optimizer Whose rates.
   * @param options `etaMin` is 0 by default.
   */
  constructor(optimizer: Optimizer, options: { tMax: number; etaMin?: number }) {
    checkOptions("make a CosineAnnealingLR", options, cosineRules, ["tMax"]);
    const { tMax, etaMin = 0 } = options;
    super(optimizer, (initial, time) => {
      return etaMin + (initial - etaMin) * (1 + Math.cos(Math.PI * time / tMax)) / 2;
    });
  }
}

/** Goes on a line from `startFactor` to `endFactor` in `totalIters` steps, then stays: a warm-up. */
export class LinearLR extends Scheduler {
  /**
   * Makes the schedule.
   *
   * @param optimizer Whose rates.
   * @param options By default from 1/3 to 1 in 5 steps.
   */
  constructor(
    optimizer: Optimizer,
    options: { startFactor?: number; endFactor?: number; totalIters?: number } = {},
  ) {
    checkOptions("make a LinearLR", options, linearRules);
    const { startFactor = 1 / 3, endFactor = 1, totalIters = 5 } = options;
    super(optimizer, (initial, time) => {
      const passed = Math.min(time, totalIters) / totalIters;
      return initial * (startFactor + (endFactor - startFactor) * passed);
    });
  }
}

/**
 * One schedule after the other: the second begins, at its own time 0, at the first milestone.
 *
 * @example A warm-up of 5 epochs, then a cosine
 * ```ts
 * import { optim, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const optimizer = new optim.AdamW([Tensor.ones([1], { requiresGrad: true })], { lr: 0.1 });
 * const scheduler = new optim.SequentialLR(optimizer, [
 *   new optim.LinearLR(optimizer, { startFactor: 0.1, totalIters: 5 }),
 *   new optim.CosineAnnealingLR(optimizer, { tMax: 45 }),
 * ], [5]);
 * for (let epoch = 0; epoch < 50; epoch++) scheduler.step();
 * assertEquals(optimizer.lr, 0);
 * ```
 */
export class SequentialLR extends Scheduler {
  /**
   * Makes the schedule.
   *
   * @param optimizer Whose rates.
   * @param schedulers The schedules; they are not stepped themselves.
   * @param milestones When each but the first begins, in ascending order.
   * @throws {RangeError} When there is not one milestone less than schedules.
   */
  constructor(
    optimizer: Optimizer,
    schedulers: readonly Scheduler[],
    milestones: readonly number[],
  ) {
    requireValue("make a SequentialLR", "schedulers", schedulers, scheduleList);
    requireValue("make a SequentialLR", "milestones", milestones, takes.wholeNumbers);
    if (schedulers.length === 0 || schedulers.length !== milestones.length + 1) {
      throw new RangeError(
        `Cannot join ${schedulers.length} schedules at ${milestones.length} milestones: pass one ` +
          `milestone less than schedules`,
      );
    }
    const present = (time: number): [scheduler: Scheduler, time: number] => {
      const at = milestones.filter((milestone) => milestone <= time).length;
      return [schedulers[at]!, time - (at > 0 ? milestones[at - 1]! : 0)];
    };
    const rate: Rate = (initial, time) => {
      const [scheduler, passed] = present(time);
      return scheduler.rate(initial, passed);
    };
    super(optimizer, rate, (time) => {
      const [scheduler, passed] = present(time);
      return scheduler.momentum?.(passed);
    });
  }
}

/** Follows a polynomial from the initial rate to 0 in `totalIters` steps, then stays. */
export class PolynomialLR extends Scheduler {
  /**
   * Makes the schedule.
   *
   * @param optimizer Whose rates.
   * @param options By default a line (`power` 1) of 5 steps.
   */
  constructor(optimizer: Optimizer, options: { totalIters?: number; power?: number } = {}) {
    checkOptions("make a PolynomialLR", options, polynomialRules);
    const { totalIters = 5, power = 1 } = options;
    super(optimizer, (initial, time) => {
      return initial * (1 - Math.min(time, totalIters) / totalIters) ** power;
    });
  }
}

const polynomialRules: Rules<{ totalIters?: number; power?: number }> = {
  totalIters: takes.positive,
  power: takes.nonNegative,
};
const stateRules: Rules<SchedulerState> = {
  time: takes.whole,
  initialRates: takes.list,
};
const stepRules: Rules<{ stepSize: number; gamma?: number }> = {
  stepSize: takes.positive,
  gamma: takes.nonNegative,
};
const multiStepRules: Rules<{ milestones: readonly number[]; gamma?: number }> = {
  milestones: takes.wholeNumbers,
  gamma: takes.nonNegative,
};
const exponentialRules: Rules<{ gamma: number }> = { gamma: takes.nonNegative };
const cosineRules: Rules<{ tMax: number; etaMin?: number }> = {
  tMax: takes.positive,
  etaMin: takes.nonNegative,
};
const linearRules: Rules<{ startFactor?: number; endFactor?: number; totalIters?: number }> = {
  startFactor: takes.nonNegative,
  endFactor: takes.nonNegative,
  totalIters: takes.positive,
};
const scheduleList: Rule = {
  takes: "an array of schedules",
  accepts: (value) => Array.isArray(value) && [...value].every((part) => part instanceof Scheduler),
};
