/** Schedules that come back: one cycle up and down, or a cosine that starts again. */
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";
import type { Optimizer } from "../optimizer/optimizer.ts";
import { requireOptimizer } from "../optimizer/requirements.ts";
import { type MomentumAt, Scheduler } from "./scheduler.ts";

/** Options of {@linkcode OneCycleLR}; names and defaults are PyTorch's. */
export interface OneCycleOptions {
  /** The largest rate. */
  maxLr: number;
  /** Number of steps the cycle takes. */
  totalSteps: number;
  /** The share of the steps in which the rate grows; default 0.3. */
  pctStart?: number;
  /** The form of growth and fall; default "cos". */
  annealStrategy?: "cos" | "linear";
  /** The first rate is `maxLr / divFactor`; default 25. */
  divFactor?: number;
  /** The last rate is the first one divided by this; default 1e4. */
  finalDivFactor?: number;
  /**
   * True when the rate falls to the first one as fast as it grew, and then to the last; false by
   * default.
   */
  threePhase?: boolean;
  /** True when the momentum falls while the rate grows, and the reverse; default true. */
  cycleMomentum?: boolean;
  /** The least momentum, at the largest rate; default 0.85. */
  baseMomentum?: number;
  /** The largest momentum, at the first rate and the last one; default 0.95. */
  maxMomentum?: number;
}

const cycleRules: Rules<OneCycleOptions> = {
  maxLr: takes.positive,
  totalSteps: takes.count,
  pctStart: takes.share,
  annealStrategy: takes.oneOf("cos", "linear"),
  divFactor: takes.positive,
  finalDivFactor: takes.positive,
  threePhase: takes.bool,
  cycleMomentum: takes.bool,
  baseMomentum: takes.belowOne,
  maxMomentum: takes.belowOne,
};

/** A part of a cycle, to `end` steps from the beginning: what a value is at its ends. */
interface Phase {
  readonly end: number;
  readonly from: number;
  readonly to: number;
}

/** The values at the turns of a cycle. */
interface Turns {
  readonly first: number;
  readonly top: number;
  readonly last: number;
}

/**
 * Grows to `maxLr`, then falls far below the first rate (L. Smith, N. Topin, Super-Convergence, 2018).
 * The momentum goes the other way: the option `momentum`, or `beta1`.
 *
 * @example
 * ```ts
 * import { optim, Tensor } from "@netcl/netcl";
 * import { assertAlmostEquals } from "@std/assert";
 *
 * const optimizer = new optim.AdamW([Tensor.ones([1], { requiresGrad: true })]);
 * const scheduler = new optim.OneCycleLR(optimizer, { maxLr: 0.1, totalSteps: 10 });
 * assertAlmostEquals(optimizer.lr, 0.004);
 * scheduler.step(), scheduler.step();
 * assertAlmostEquals(optimizer.lr, 0.1);
 * ```
 */
export class OneCycleLR extends Scheduler {
  /**
   * Makes the schedule.
   *
   * @param optimizer Whose rates; the initial ones are not used.
   * @param options The largest rate, the number of steps, the form.
   * @throws {TypeError} When the optimizer has no momentum, and `cycleMomentum` is not false.
   * @throws {RangeError} From `step`, beyond the last of the steps.
   */
  constructor(optimizer: Optimizer, options: OneCycleOptions) {
    checkOptions("make a OneCycleLR", options, cycleRules, ["maxLr", "totalSteps"]);
    const { maxLr, divFactor = 25, finalDivFactor = 1e4, cycleMomentum = true } = options;
    const first = maxLr / divFactor;
    const rate = cycle({ first, top: maxLr, last: first / finalDivFactor }, options);
    super(
      optimizer,
      (_, time) => rate(time),
      cycleMomentum ? momentumOf(optimizer, options) : null,
    );
  }
}

function momentumOf(optimizer: Optimizer, options: OneCycleOptions): MomentumAt {
  requireOptimizer("make a OneCycleLR", optimizer);
  if (optimizer.groups.some(({ momentum }) => momentum === undefined)) {
    throw new TypeError(
      `Cannot cycle the momentum of ${optimizer.constructor.name}, which has none: pass ` +
        `cycleMomentum: false`,
    );
  }
  const { maxMomentum = 0.95, baseMomentum = 0.85 } = options;
  return cycle({ first: maxMomentum, top: baseMomentum, last: maxMomentum }, options);
}

/** Value that goes from turn to turn. */
function cycle(turns: Turns, options: OneCycleOptions): (time: number) => number {
  const phases = phasesOf(turns, options), { totalSteps, annealStrategy = "cos" } = options;
  return (time) => {
    if (time > totalSteps) {
      throw new RangeError(
        `Cannot step a OneCycleLR beyond its ${totalSteps} steps: pass a larger totalSteps`,
      );
    }
    const at = Math.max(0, phases.findIndex(({ end }) => time <= end));
    const { end, from, to } = phases[time > phases.at(-1)!.end ? phases.length - 1 : at]!;
    const start = at > 0 ? phases[at - 1]!.end : 0;
    const passed = (time - start) / (end - start);
    if (annealStrategy === "linear") return from + (to - from) * passed;
    return to + (from - to) * (1 + Math.cos(Math.PI * passed)) / 2;
  };
}

function phasesOf({ first, top, last }: Turns, options: OneCycleOptions): Phase[] {
  const { totalSteps, pctStart = 0.3 } = options;
  const rise = { end: pctStart * totalSteps - 1, from: first, to: top };
  if (!options.threePhase) return [rise, { end: totalSteps - 1, from: top, to: last }];
  return [
    rise,
    { end: 2 * pctStart * totalSteps - 2, from: top, to: first },
    { end: totalSteps - 1, from: first, to: last },
  ];
}

/**
 * Follows a cosine from the initial rate to `etaMin` in `t0` steps, and starts again; each time it takes
 * `tMult` times as long (I. Loshchilov, F. Hutter, SGDR, 2017).
 */
export class CosineAnnealingWarmRestarts extends Scheduler {
  /**
   * Makes the schedule.
   *
   * @param optimizer Whose rates.
   * @param options `tMult` is 1 and `etaMin` is 0 by default.
   */
  constructor(optimizer: Optimizer, options: { t0: number; tMult?: number; etaMin?: number }) {
    checkOptions("make a CosineAnnealingWarmRestarts", options, restartRules, ["t0"]);
    const { t0, tMult = 1, etaMin = 0 } = options;
    super(optimizer, (initial, time) => {
      let length = t0, passed = time;
      if (tMult === 1) passed = time % t0;
      else for (; passed >= length; length *= tMult) passed -= length;
      return etaMin + (initial - etaMin) * (1 + Math.cos(Math.PI * passed / length)) / 2;
    });
  }
}

const restartRules: Rules<{ t0: number; tMult?: number; etaMin?: number }> = {
  t0: takes.count,
  tMult: takes.count,
  etaMin: takes.nonNegative,
};
