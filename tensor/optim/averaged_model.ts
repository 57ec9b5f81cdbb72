/** Averages of a model's parameters over its training. */
import { NEED } from "../../backend/internal.ts";
import { requireState } from "../core/apply.ts";
import { atLeastSingle } from "../core/autocast.ts";
import { ShapeError } from "../core/rules/errors.ts";
import { noGrad } from "../core/modes/grad_mode.ts";
import type { AnyModule } from "../nn/module/module.ts";
import { checkOptions, requireValue, type Rules, takes } from "../core/rules/options.ts";
import { realizeAll } from "../execution/realization.ts";
import { internally } from "../core/modes/temporaries.ts";
import { full } from "../ops/functional.ts";
import type { Tensor } from "../core/tensor.ts";
import { isTensor, stateOf } from "../core/internals.ts";

/** Options of {@linkcode AveragedModel}. */
export interface AveragedModelOptions {
  /**
   * How much of the average is kept at each update, for an exponential moving average (EMA), such as
   * 0.999; without it all updates count alike, as in stochastic weight averaging (SWA).
   */
  decay?: number;
  /** Whether running statistics are averaged too; default false: the model's own are used. */
  buffers?: boolean;
}

const rules: Rules<AveragedModelOptions> = { decay: takes.share, buffers: takes.bool };

/** A tensor of the model and its average. */
interface Average {
  readonly name: string;
  readonly source: Tensor;
  readonly value: Tensor;
}

/**
 * Averages a model's parameters while it learns, as PyTorch's `swa_utils.AveragedModel`: they often
 * predict better than the last ones (P. Izmailov et al., Averaging Weights Leads to Wider Optima,
 * 2018). Averages of half precision are float32. Call {@linkcode AveragedModel.update} after each step
 * (EMA) or each epoch (SWA), and {@linkcode AveragedModel.use} to predict.
 *
 * @example
 * ```ts
 * import { nn, optim, Tensor } from "@netcl/netcl";
 * import { assertAlmostEquals } from "@std/assert";
 *
 * const model = new nn.Linear(1, 1, { bias: false });
 * const ema = new optim.AveragedModel(model, { decay: 0.9 });
 * for (const w of [1, 2]) {
 *   model.weight.assign(Tensor.full([1, 1], w));
 *   ema.update();
 * }
 * const x = Tensor.ones([1, 1]);
 * assertAlmostEquals(await ema.use(() => model.forward(x).item()), 1.1, 1e-6);
 * assertAlmostEquals(await model.forward(x).item(), 2);
 * ```
 */
export class AveragedModel implements Disposable {
  readonly #model: AnyModule;
  readonly #decay: number | null;
  readonly #averages: readonly Average[];
  /** How many updates there were: float32, on the device, so that a compiled step counts on. */
  readonly #count: Tensor;
  #isInUse = false;

  /**
   * Begins with the present values; the first update replaces them.
   *
   * @param model Whose parameters.
   * @param options What kind of average.
   * @throws {TypeError} When it is no model, or has nothing that learns.
   */
  constructor(model: AnyModule, options: AveragedModelOptions = {}) {
    const action = "average a model";
    requireValue(action, "model", model, {
      takes: "a module with parameters",
      accepts: (value) => typeof (value as AnyModule | null)?.namedParameters === "function",
    });
    checkOptions(action, options, rules);
    const sources = model.namedParameters();
    if (sources.length === 0) throw new TypeError(`Cannot ${action} of no parameters`);
    if (options.buffers) {
      sources.push(...model.namedBuffers().filter(([, { dtype }]) => dtype.includes("float")));
    }
    this.#model = model;
    this.#decay = options.decay ?? null;
    this.#averages = noGrad(() =>
      sources.map(([name, source]) => ({
        name,
        source,
        value: atLeastSingle(source.detach()).contiguous(),
      }))
    );
    this.#count = full([], 0, { device: sources[0]![1].device });
    realizeAll([this.#count, ...this.#averages.map(({ value }) => value)]);
  }

  /** Takes the present parameters in. */
  update(): void {
    this.#requireOwn("update averages");
    const targets = [this.#count, ...this.#averages.map(({ value }) => value)];
    internally(() => {
      const isFirst = this.#count.eq(0), next = this.#count.add(1);
      const share = this.#decay === null ? next.reciprocal() : 1 - this.#decay;
      for (const { source, value } of this.#averages) {
        const present = atLeastSingle(source), { device } = source;
        const part = isTensor(share) ? share.to(device) : share;
        const mixed = value.add(present.sub(value).mul(part));
        value.assign(isFirst.to(device).where(present, mixed));
      }
      this.#count.assign(next);
    }, NEED.none);
    realizeAll(targets);
    for (const target of targets) stateOf(target).dropFormer();
  }

  /**
   * Runs `fn` while the model has the averages, and gives it its own parameters back.
   *
   * @param fn What to run, such as an evaluation; may be asynchronous.
   * @returns What `fn` returns.
   * @throws {Error} When they are in use already.
   */
  use<T>(fn: () => T): T {
    requireValue("use averages", "fn", fn, takes.callback);
    this.#requireOwn("use averages");
    const own = noGrad(() => this.#averages.map(({ source }) => source.realize().detach()));
    this.#give(this.#averages.map(({ value }) => value));
    this.#isInUse = true;
    const giveBack = (): void => {
      this.#give(own);
      for (const tensor of own) tensor.dispose();
      this.#isInUse = false;
    };
    let isLater = false;
    try {
      const result = fn();
      if (!(result instanceof Promise)) return result;
      isLater = true;
      return result.finally(giveBack) as T;
    } finally {
      if (!isLater) giveBack();
    }
  }

  #give(values: readonly Tensor[]): void {
    noGrad(() =>
      this.#averages.forEach(({ source }, k) => source.assign(values[k]!.cast(source.dtype)))
    );
    const sources = this.#averages.map(({ source }) => source);
    realizeAll(sources);
    for (const source of sources) stateOf(source).dropFormer();
  }

  #requireOwn(action: string): void {
    if (!this.#isInUse) return;
    throw new Error(`Cannot ${action} while the model has them: wait for use() to end`);
  }

  /** The averages under the model's own names, with its other state: another model can load them. */
  averages(): Record<string, Tensor> {
    const state = this.#model.stateDict();
    for (const { name, source, value } of this.#averages) {
      state[name] = noGrad(() => value.cast(source.dtype).detach().realize());
    }
    return state;
  }

  /** The averages under PyTorch's names (`module.0.weight`), and `n_averaged`, the number of updates. */
  stateDict(): Record<string, Tensor> {
    const averages = this.#averages.map(({ name, value }) => [`module.${name}`, value.detach()]);
    return {
      n_averaged: noGrad(() => this.#count.cast("int64").realize()),
      ...Object.fromEntries(averages),
    };
  }

  /**
   * Goes on from a state that `stateDict` returned.
   *
   * @throws {RangeError} When names are missing or not known; nothing is changed then.
   * @throws {ShapeError} When a shape differs; nothing is changed then.
   */
  loadStateDict(state: Readonly<Record<string, Tensor>>): void {
    const action = "load the state of an AveragedModel";
    requireState(action, state);
    const targets = new Map(this.#averages.map(({ name, value }) => [`module.${name}`, value]));
    targets.set("n_averaged", this.#count);
    const missing = [...targets.keys()].filter((name) => !Object.hasOwn(state, name));
    const unknown = Object.keys(state).filter((name) => !targets.has(name));
    if (missing.length + unknown.length > 0) {
      throw new RangeError(
        `Cannot ${action}: missing are [${missing.join(", ")}], not known are [${
          unknown.join(", ")
        }]`,
      );
    }
    for (const [name, { shape }] of targets) {
      if (`${shape}` === `${state[name]!.shape}`) continue;
      throw new ShapeError(
        `Cannot ${action}: ${name} is [${shape}] and got [${state[name]!.shape}]`,
      );
    }
    noGrad(() => {
      for (const [name, target] of targets) {
        target.assign(state[name]!.to(target.device).cast(target.dtype));
      }
    });
    realizeAll([...targets.values()]);
    for (const target of targets.values()) stateOf(target).dropFormer();
  }

  /** Gives the memory of the averages back; the model stays. */
  dispose(): void {
    for (const { value } of this.#averages) value.dispose();
    this.#count.dispose();
  }

  /** {@linkcode AveragedModel.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}
