import type { Optimizer } from "../optimizer/optimizer.ts";
import {
  checkOptions,
  requireValue,
  type Rules,
  takes,
  withDefaults,
} from "../../core/rules/options.ts";
import { requireOptimizer } from "../optimizer/requirements.ts";

/** Options of {@linkcode ReduceLROnPlateau}; names and defaults are PyTorch's. */
export interface PlateauOptions {
  /** Aim for the metric: small ("min", default) or large ("max"). */
  mode?: "min" | "max";
  /** Factor of the rates; default 0.1. */
  factor?: number;
  /** Number of steps borne without a better metric; default 10. */
  patience?: number;
  /** By how much a metric must be better; default 1e-4. */
  threshold?: number;
  /** Meaning of the threshold: a share of the best ("rel", default) or a difference ("abs"). */
  thresholdMode?: "rel" | "abs";
  /** Number of steps to wait after a reduction; default 0. */
  cooldown?: number;
  /** The least rate; default 0. */
  minLr?: number;
  /** A reduction by less is not made; default 1e-8. */
  eps?: number;
}

const metricRule = { ...takes.number, takes: "a number: await the item() of a loss" };
const rules: Rules<PlateauOptions> = {
  mode: takes.oneOf("min", "max"),
  factor: takes.share,
  patience: takes.whole,
  threshold: takes.nonNegative,
  thresholdMode: takes.oneOf("rel", "abs"),
  cooldown: takes.whole,
  minLr: takes.nonNegative,
  eps: takes.nonNegative,
};

const stateRules: Rules<PlateauState> = {
  best: takes.orNull(takes.number),
  badSteps: takes.whole,
  cooling: takes.whole,
};

const defaults: Required<PlateauOptions> = {
  mode: "min",
  factor: 0.1,
  patience: 10,
  threshold: 1e-4,
  thresholdMode: "rel",
  cooldown: 0,
  minLr: 0,
  eps: 1e-8,
};

/** State of it; plain numbers, for JSON (`best` is null before the first step). */
export interface PlateauState {
  /** The best metric. */
  best: number | null;
  /** Steps since. */
  badSteps: number;
  /** Steps that it still waits. */
  cooling: number;
}

/**
 * Reduces the learning rates when a metric, such as the loss on unseen samples, gets no better.
 *
 * @example
 * ```ts
 * import { optim, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const optimizer = new optim.SGD([Tensor.ones([1], { requiresGrad: true })], { lr: 1 });
 * const scheduler = new optim.ReduceLROnPlateau(optimizer, { factor: 0.5, patience: 1 });
 * for (const loss of [3, 2, 2, 2]) scheduler.step(loss);
 * assertEquals(optimizer.lr, 0.5);
 * ```
 */
export class ReduceLROnPlateau {
  readonly #optimizer: Optimizer;
  readonly #options: Required<PlateauOptions>;
  #state: PlateauState = { best: null, badSteps: 0, cooling: 0 };

  /**
   * Makes the schedule.
   *
   * @param optimizer Whose rates.
   * @param options How patient it is.
   * @throws {RangeError} When the factor is not below 1.
   */
  constructor(optimizer: Optimizer, options: PlateauOptions = {}) {
    this.#optimizer = optimizer;
    requireOptimizer("make a ReduceLROnPlateau", optimizer);
    this.#options = withDefaults("make a ReduceLROnPlateau", options, rules, defaults);
    const { factor } = this.#options;
    if (factor < 1) return;
    throw new RangeError(`Cannot reduce by a factor of ${factor}: pass a number in [0, 1)`);
  }

  /**
   * Takes a metric, and reduces the rates where that is due.
   *
   * @param metric The metric after another epoch.
   */
  step(metric: number): void {
    requireValue("step", "metric", metric, metricRule);
    const state = this.#state;
    if (this.#isBetter(metric)) {
      state.best = metric;
      state.badSteps = 0;
    } else state.badSteps++;
    if (state.cooling > 0) {
      state.cooling--;
      state.badSteps = 0;
    }
    if (state.badSteps <= this.#options.patience) return;
    this.#reduce();
    state.cooling = this.#options.cooldown;
    state.badSteps = 0;
  }

  #isBetter(metric: number): boolean {
    const { mode, threshold, thresholdMode } = this.#options, { best } = this.#state;
    if (best === null) return !Number.isNaN(metric);
    const sign = mode === "min" ? -1 : 1;
    const margin = sign * (thresholdMode === "rel" ? best * threshold : threshold);
    return sign * metric > sign * (best + margin);
  }

  #reduce(): void {
    const { factor, minLr, eps } = this.#options;
    for (const group of this.#optimizer.groups) {
      const rate = Math.max(group.lr * factor, minLr);
      if (group.lr - rate > eps) group.lr = rate;
    }
  }

  /** Its state. */
  stateDict(): PlateauState {
    return { ...this.#state };
  }

  /**
   * Goes on from where one was.
   *
   * @throws {TypeError} When it is no state that `stateDict` returned.
   */
  loadStateDict(state: PlateauState): void {
    checkOptions("load the state of ReduceLROnPlateau", state, stateRules, [
      "best",
      "badSteps",
      "cooling",
    ]);
    this.#state = { ...state };
  }
}
