/** L-BFGS: steps by an estimate of the second derivatives, from the last gradients. */
import { giveUpReplay } from "../../core/calls.ts";
import { enableGrad, noGrad } from "../../core/modes/grad_mode.ts";
import { checkOptions, requireValue, type Rules, takes } from "../../core/rules/options.ts";
import { realizeAll } from "../../execution/realization.ts";
import { Tensor } from "../../class/tensor.ts";
import { type Point, strongWolfe } from "./line_search.ts";
import { type OptimizerOptions, ParameterGroup } from "../optimizer/parameter_group.ts";
import { requireAny, requireParameters } from "../optimizer/requirements.ts";
import { gradientOf, replaceGradient, stateOf } from "../../core/internals.ts";

/** Options of {@linkcode LBFGS}; names and defaults are PyTorch's. */
export interface LBFGSOptions extends OptimizerOptions {
  /** The learning rate; default 1. */
  lr?: number;
  /** The most iterations of a step; default 20. */
  maxIter?: number;
  /** The most evaluations of a step; default 1.25 times as many as iterations. */
  maxEval?: number;
  /** A step ends where no element of the gradient is larger; default 1e-7. */
  toleranceGrad?: number;
  /** A step ends where neither loss nor parameters change more; default 1e-9. */
  toleranceChange?: number;
  /** Number of former gradients remembered; default 100. */
  historySize?: number;
  /**
   * Search for an iteration's length: null (default) for the rate alone, or the strong Wolfe
   * conditions.
   */
  lineSearchFn?: "strongWolfe" | null;
}

const rules: Rules<LBFGSOptions> = {
  lr: takes.nonNegative,
  maxIter: takes.count,
  maxEval: takes.count,
  toleranceGrad: takes.nonNegative,
  toleranceChange: takes.nonNegative,
  historySize: takes.count,
  lineSearchFn: takes.orNull(takes.oneOf("strongWolfe")),
};

/** Data of the last iterations; plain numbers, for JSON. */
export interface LBFGSState {
  /** Number of iterations so far. */
  iterations: number;
  /** The length of the last. */
  length: number;
  /** Its direction, and the gradient before it; null before the first. */
  direction: number[] | null;
  /** See `direction`. */
  gradient: number[] | null;
  /** Changes of the parameters, and the gradients' with them; the oldest first. */
  steps: number[][];
  /** See `steps`. */
  changes: number[][];
  /** The estimated curvature that the recursion begins with. */
  scale: number;
  /** The learning rate. */
  lr: number;
}

const stateRules: Rules<LBFGSState> = {
  iterations: takes.whole,
  length: takes.number,
  direction: takes.orNull(takes.list),
  gradient: takes.orNull(takes.list),
  steps: takes.list,
  changes: takes.list,
  scale: takes.number,
  lr: takes.nonNegative,
};

/** A pair of changes: of the parameters, and of the gradient. */
interface Pair {
  readonly s: Tensor;
  readonly y: Tensor;
  /** `1 / (y * s)`. */
  readonly ro: number;
}

/** Computes the loss and goes backward from it. */
export type Closure = () => Tensor | Promise<Tensor>;

/**
 * L-BFGS, for few parameters and full batches: each step computes the loss several times (D. Liu, J.
 * Nocedal, On the Limited Memory BFGS Method, 1989). It reads losses and products, so its step is
 * asynchronous, and cannot be compiled.
 *
 * @example
 * ```ts
 * import { optim, Tensor } from "@netcl/netcl";
 * import { assert } from "@std/assert";
 *
 * const x = Tensor.fromHost([-1.5, 2], { requiresGrad: true });
 * const optimizer = new optim.LBFGS([x], { lineSearchFn: "strongWolfe" });
 * const rosenbrock = () => {
 *   optimizer.zeroGrad();
 *   const [a, b] = [x.slice(0), x.slice(1)];
 *   const loss = b.sub(a.square()).square().mul(100).add(a.sub(1).square());
 *   loss.backward();
 *   return loss;
 * };
 * for (let k = 0; k < 4; k++) await optimizer.step(rosenbrock);
 * assert(await rosenbrock().item() < 1e-6);
 * ```
 */
export class LBFGS {
  /** The parameters with their options: one group. */
  readonly groups: readonly [ParameterGroup<LBFGSOptions>];
  readonly #parameters: readonly Tensor[];
  #pairs: Pair[] = [];
  #direction: Tensor | null = null;
  #former: Tensor | null = null;
  #length = 0;
  #scale = 1;
  #iterations = 0;
  #isStepping = false;

  /**
   * Makes the optimizer.
   *
   * @param parameters What is learned, on one device.
   * @param options How far it goes, how much it remembers.
   * @throws {TypeError} When there is nothing to learn, or a parameter is no leaf that requires a
   * gradient, or on another device.
   */
  constructor(parameters: readonly Tensor[], options: LBFGSOptions = {}) {
    requireParameters("make LBFGS", parameters);
    checkOptions("make LBFGS", options, rules);
    requireAny("make LBFGS", parameters);
    const first = parameters[0]!;
    for (const parameter of parameters) {
      if (
        parameter.requiresGrad && !stateOf(parameter).gradFn && parameter.device === first.device
      ) continue;
      throw new TypeError(
        `Cannot optimize ${parameter} by LBFGS: pass leaves that require a gradient, on one device`,
      );
    }
    const { maxIter = 20 } = options;
    this.#parameters = [...parameters];
    this.groups = [
      new ParameterGroup<LBFGSOptions>(parameters, {
        lr: options.lr ?? 1,
        maxIter,
        maxEval: options.maxEval ?? Math.floor(maxIter * 5 / 4),
        toleranceGrad: options.toleranceGrad ?? 1e-7,
        toleranceChange: options.toleranceChange ?? 1e-9,
        historySize: options.historySize ?? 100,
        lineSearchFn: options.lineSearchFn ?? null,
      }),
    ];
  }

  /** The learning rate. */
  get lr(): number {
    return this.groups[0].lr;
  }

  /** Takes effect with the next iteration. */
  set lr(value: number) {
    this.groups[0].lr = value;
  }

  /** Gives all gradients back. */
  zeroGrad(): void {
    for (const parameter of this.#parameters) replaceGradient(parameter, null);
  }

  /**
   * Goes several iterations down.
   *
   * @param closure Clears the gradients, computes the loss, goes backward and returns the loss.
   * @returns The loss before the step.
   * @throws {Error} When the last step is not through.
   */
  async step(closure: Closure): Promise<number> {
    requireValue("step", "closure", closure, takes.callback);
    if (this.#isStepping) {
      throw new Error(
        "Cannot step LBFGS while its last step is not through, which reads losses on its way: write " +
          "await optimizer.step(closure)",
      );
    }
    this.#isStepping = true;
    try {
      return await this.#iterate(closure);
    } finally {
      this.#isStepping = false;
    }
  }

  async #iterate(closure: Closure): Promise<number> {
    giveUpReplay("LBFGS reads values");
    this.#follow();
    const { options } = this.groups[0];
    const { toleranceGrad, toleranceChange, maxIter, maxEval } = options;
    let evaluations = 0;
    const evaluate = async (): Promise<[f: number, g: Tensor]> => {
      evaluations++;
      using loss = await enableGrad(closure);
      return [await loss.item(), this.#gradient()];
    };
    let [loss, gradient] = await evaluate();
    const before = loss;
    if (await largest(gradient) <= toleranceGrad) return before;
    for (let k = 1; k <= maxIter; k++) {
      const direction = await this.#nextDirection(gradient);
      const slope = await dot(gradient, direction);
      const isFirst = this.#iterations === 1;
      let t = this.lr *
        (isFirst ? Math.min(1, 1 / await noGrad(() => gradient.abs().sum()).item()) : 1);
      this.#direction = direction, this.#former = gradient, this.#length = t;
      if (slope > -toleranceChange) break;
      const formerLoss = loss, from = this.#flat(this.#parameters);
      if (options.lineSearchFn === "strongWolfe") {
        const at = async (t: number): Promise<Point> => {
          this.#move(from, direction, t);
          const [f, g] = await evaluate();
          return { t, f, g, slope: await dot(g, direction) };
        };
        const start = { t: 0, f: loss, g: gradient, slope };
        const found = await strongWolfe(at, start, t, toleranceChange, await largest(direction));
        t = this.#length = found.t, loss = found.f, gradient = found.g;
        this.#move(from, direction, t);
      } else {
        this.#move(from, direction, t);
        if (k < maxIter) [loss, gradient] = await evaluate();
      }
      if (evaluations >= maxEval || await largest(gradient) <= toleranceGrad) break;
      if (await largest(direction) * t <= toleranceChange) break;
      if (Math.abs(loss - formerLoss) < toleranceChange) break;
    }
    return before;
  }

  /** The direction of the next iteration, by the two loops over the former ones. */
  async #nextDirection(gradient: Tensor): Promise<Tensor> {
    if (this.#iterations++ === 0) return noGrad(() => gradient.neg().realize());
    const { historySize } = this.groups[0].options;
    const s = noGrad(() => this.#direction!.mul(this.#length).realize());
    const y = noGrad(() => gradient.sub(this.#former!).realize());
    const ys = await dot(y, s);
    if (ys > 1e-10) {
      this.#pairs.push({ s, y, ro: 1 / ys });
      if (this.#pairs.length > historySize) this.#pairs.shift();
      this.#scale = ys / await dot(y, y);
    }
    return noGrad(() => {
      let q = gradient.neg();
      const shares = this.#pairs.toReversed().map(({ s, y, ro }) => {
        const share = s.mul(q).sum().mul(ro);
        q = q.sub(y.mul(share)).realize();
        return share;
      }).reverse();
      q = q.mul(this.#scale);
      this.#pairs.forEach(({ s, y, ro }, k) => {
        q = q.add(s.mul(shares[k]!.sub(y.mul(q).sum().mul(ro)))).realize();
      });
      return q.realize();
    });
  }

  /** Takes what it remembers along where the parameters were moved to another device since. */
  #follow(): void {
    const [{ device }] = this.#parameters as readonly [Tensor];
    const there = (tensor: Tensor) => noGrad(() => tensor.to(device));
    this.#pairs = this.#pairs.map(({ s, y, ro }) => ({ s: there(s), y: there(y), ro }));
    this.#direction &&= there(this.#direction);
    this.#former &&= there(this.#former);
  }

  #flat(tensors: readonly Tensor[]): Tensor {
    return noGrad(() => Tensor.concat(tensors.map((t) => t.detach().flatten())).realize());
  }

  /** All gradients one behind the other, zeros where there is none. */
  #gradient(): Tensor {
    return this.#flat(this.#parameters.map((p) => gradientOf(p) ?? p.zerosLike()));
  }

  #move(from: Tensor, direction: Tensor, t: number): void {
    noGrad(() => {
      const all = from.add(direction.mul(t)).realize();
      let at = 0;
      for (const parameter of this.#parameters) {
        const own = all.slice([at, at += parameter.size]).reshape(parameter.shape);
        parameter.assign(own.cast(parameter.dtype));
      }
    });
    realizeAll(this.#parameters);
  }

  /** Its state; waits for the device. */
  stateDict(): LBFGSState {
    const numbers = (tensor: Tensor): number[] => [...tensor.toHostSync()].map(Number);
    return {
      iterations: this.#iterations,
      length: this.#length,
      direction: this.#direction && numbers(this.#direction),
      gradient: this.#former && numbers(this.#former),
      steps: this.#pairs.map(({ s }) => numbers(s)),
      changes: this.#pairs.map(({ y }) => numbers(y)),
      scale: this.#scale,
      lr: this.lr,
    };
  }

  /**
   * Goes on from a state that `stateDict` returned.
   *
   * @throws {RangeError} When it is that of other parameters.
   */
  loadStateDict(state: LBFGSState): void {
    const action = "load the state of LBFGS";
    requireValue(action, "state", state, takes.object("what stateDict() returned"));
    checkOptions(action, state, stateRules, Object.keys(stateRules) as (keyof LBFGSState)[]);
    const size = this.#parameters.reduce((sum, p) => sum + p.size, 0), like = this.#gradient();
    const vectors = [state.direction, state.gradient, ...state.steps, ...state.changes];
    const wrong = vectors.find((vector) => vector && vector.length !== size);
    if (wrong || state.steps.length !== state.changes.length) {
      throw new RangeError(
        `Cannot ${action} of ${wrong?.length} elements: its parameters have ${size}`,
      );
    }
    const { dtype, device } = like;
    const back = (vector: number[]): Tensor => Tensor.fromHost(vector, { dtype, device });
    this.#pairs = state.steps.map((step, k) => {
      const s = back(step), y = back(state.changes[k]!);
      return { s, y, ro: 1 / noGrad(() => y.mul(s).sum()).itemSync() };
    });
    this.#direction = state.direction && back(state.direction);
    this.#former = state.gradient && back(state.gradient);
    this.#iterations = state.iterations, this.#length = state.length;
    this.#scale = state.scale, this.lr = state.lr;
  }
}

function dot(a: Tensor, b: Tensor): Promise<number> {
  return noGrad(() => a.mul(b).sum()).item();
}

function largest(a: Tensor): Promise<number> {
  return noGrad(() => a.abs().max()).item();
}
