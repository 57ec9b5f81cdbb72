/** Averages of a model's parameters over its training. */
import { isFloat, NEED } from "../../backend/internal.ts";
import { atLeastSingle } from "../core/autocast.ts";
import { noGrad } from "../core/modes/grad_mode.ts";
import { type AnyModule, stateOfModule } from "../nn/module/module.ts";
import { loadState } from "../nn/module/state.ts";
import { checkOptions, requireValue, type Rules, takes } from "../core/rules/options.ts";
import { realizeAll } from "../execution/realization.ts";
import { internally } from "../core/modes/temporaries.ts";
import { requireAny } from "./optimizer/requirements.ts";
import { Tensor } from "../class/tensor.ts";
import { isTensor, stateOf } from "../core/internals.ts";

/** Options of {@linkcode AveragedModel}. */
export interface AveragedModelOptions {
  /**
   * Share of the average kept at each update, for an exponential moving average (EMA), such as
   * 0.999; without it all updates count alike, as in stochastic weight averaging (SWA).
   */
  decay?: number;
  /** True when running statistics are averaged too; default false: the model's own are used. */
  buffers?: boolean;
}

const rules: Rules<AveragedModelOptions> = { decay: takes.share, buffers: takes.bool };

/** A tensor of the model and its average. */
interface Average {
  readonly names: readonly string[];
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
  /** Number of updates so far: float32, on the device, so that a compiled step counts on. */
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
    const learned = new Set(model.parameters());
    requireAny(action, [...learned]);
    const sources = stateOfModule(model).filter(({ tensor }) =>
      learned.has(tensor) || options.buffers && isFloat(tensor.dtype)
    );
    this.#model = model;
    this.#decay = options.decay ?? null;
    this.#averages = noGrad(() =>
      sources.map(({ names, tensor: source }) => ({
        names,
        source,
        value: atLeastSingle(source.detach()).contiguous(),
      }))
    );
    this.#count = Tensor.full([], 0, { device: sources[0]!.tensor.device });
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
    for (const { names, source, value } of this.#averages) {
      state[names[0]!] = noGrad(() => value.cast(source.dtype).detach().realize());
    }
    return state;
  }

  /** The averages under PyTorch's names (`module.0.weight`), and `n_averaged`, the number of updates. */
  stateDict(): Record<string, Tensor> {
    const averages = this.#averages.map(({ names, value }) => [
      `module.${names[0]!}`,
      value.detach(),
    ]);
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
    const entries = this.#averages.map(({ names, value }) => ({
      names: names.map((name) => `module.${name}`),
      tensor: value,
    }));
    entries.push({ names: ["n_averaged"], tensor: this.#count });
    loadState("an AveragedModel", entries, state, "Pass what its stateDict() returned");
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
