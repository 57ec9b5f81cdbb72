import type { Optimizer } from "../optimizer/optimizer.ts";
import { requireValue, type Rules, takes, withDefaults } from "../../core/rules/options.ts";
import { requireOptimizer } from "../optimizer/requirements.ts";

/** Options of {@linkcode ReduceLROnPlateau}; names and defaults are PyTorch's. */
export interface PlateauOptions {
  /** Whether the metric should become small (default) or large. */
  mode?: "min" | "max";
  /** What the rates are multiplied by; default 0.1. */
  factor?: number;
  /** How many steps without a better metric are borne; default 10. */
  patience?: number;
  /** By how much a metric must be better; default 1e-4. */
  threshold?: number;
  /** Whether the threshold is a share of the best ("rel", default) or a difference ("abs"). */
  thresholdMode?: "rel" | "abs";
  /** How many steps to wait after a reduction; default 0. */
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

/** Where it is; plain numbers, for JSON (`best` is null before the first step). */
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

  /** Where it is. */
  stateDict(): PlateauState {
    return { ...this.#state };
  }

  /** Goes on from where one was. */
  loadStateDict(state: PlateauState): void {
    this.#state = { ...state };
  }
}
