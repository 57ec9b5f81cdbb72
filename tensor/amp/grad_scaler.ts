/** Keeps the gradients of half precision from vanishing. */
import type { DeviceHandle } from "../../backend/internal.ts";
import { realizeAll } from "../execution/realization.ts";
import { dtypeError } from "../core/rules/errors.ts";
import { internally } from "../core/modes/temporaries.ts";
import type { Optimizer } from "../optim/optimizer/optimizer.ts";
import { Tensor } from "../class/tensor.ts";
import { atLeastSingle } from "../core/autocast.ts";
import {
  checkOptions,
  deviceChoice,
  type Rules,
  takes,
  withDefaults,
} from "../core/rules/options.ts";
import { requireState, requireTensor } from "../core/apply.ts";
import { requireOptimizer } from "../optim/optimizer/requirements.ts";
import { exposed, gradientOf, letGoOfGradient, setGradient, stateOf } from "../core/internals.ts";

/** Options of {@linkcode GradScaler}; names and defaults are PyTorch's. */
export interface GradScalerOptions {
  /** The first factor; default 65536. */
  initScale?: number;
  /** Factor of the scale after `growthInterval` steps without overflow; default 2. */
  growthFactor?: number;
  /** Factor of the scale after an overflow; default 0.5. */
  backoffFactor?: number;
  /** Number of steps without overflow before it grows; default 2000. */
  growthInterval?: number;
  /** False to do nothing; default true. */
  enabled?: boolean;
  /** Its device; default: the active device. */
  device?: string | DeviceHandle;
}

type Factors = Omit<GradScalerOptions, "device">;

const factorRules: Rules<Factors> = {
  initScale: takes.positive,
  growthFactor: takes.positive,
  backoffFactor: takes.positive,
  growthInterval: takes.count,
  enabled: takes.bool,
};

const defaults: Required<Factors> = {
  initScale: 65536,
  growthFactor: 2,
  backoffFactor: 0.5,
  growthInterval: 2000,
  enabled: true,
};

/** The largest power of two that is safe to multiply a loss by. */
const LARGEST = 2 ** 120;

/**
 * Multiplies the loss by a large factor, so that gradients of float16 do not vanish, and divides the
 * gradients by it before they are used. A step whose gradients are infinite or NaN is left out and the
 * factor reduced; after many good steps it grows. All of it is decided on the device: nothing waits.
 *
 * @example
 * ```ts
 * import { amp, nn, optim, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const model = new nn.Linear(4, 1);
 * const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
 * const scaler = new amp.GradScaler({ initScale: 1024 });
 * for (let step = 0; step < 3; step++) {
 *   using loss = amp.autocast("float16", () => model.forward(Tensor.ones([2, 4])).square().mean());
 *   optimizer.zeroGrad();
 *   scaler.scale(loss).backward();
 *   scaler.step(optimizer);
 *   scaler.update();
 * }
 * assertEquals(await scaler.currentScale(), 1024);
 * ```
 */
export class GradScaler implements Disposable {
  readonly #options: Required<Factors>;
  /** The factor, and how many steps have been good since it changed: float32 scalars. */
  readonly #scale: Tensor;
  readonly #goodSteps: Tensor;
  /** For each optimizer whose gradients are divided already: true where one is not finite. */
  readonly #overflows = new Map<Optimizer, Tensor>();

  /**
   * Makes the scaler.
   *
   * @param options The factor, and how it changes.
   * @throws {RangeError} When the factors do not grow and shrink.
   */
  constructor(options: GradScalerOptions = {}) {
    const action = "make a GradScaler", rules = { ...factorRules, device: deviceChoice };
    checkOptions<GradScalerOptions>(action, options, rules);
    const { device, ...others } = options;
    this.#options = withDefaults(action, others, factorRules, defaults);
    const { initScale, growthFactor, backoffFactor } = this.#options;
    if (!(initScale > 0 && growthFactor > 1 && backoffFactor > 0 && backoffFactor < 1)) {
      throw new RangeError(
        `Cannot scale by ${initScale}, growing by ${growthFactor}, backing off by ${backoffFactor}: ` +
          `pass a positive scale, a growth above 1 and a backoff between 0 and 1`,
      );
    }
    const where = device === undefined ? {} : { device };
    this.#scale = Tensor.fromHost(initScale, where);
    this.#goodSteps = Tensor.fromHost(0, where);
  }

  /**
   * The loss times the factor: go backward from it.
   *
   * @param loss Any tensor; half precision is scaled in float32.
   */
  scale(loss: Tensor): Tensor {
    requireTensor("scale a loss", loss);
    if (!this.#options.enabled) return loss;
    return atLeastSingle(loss).mul(this.#scale.to(loss.device).detach());
  }

  /**
   * Divides the gradients of an optimizer by the factor; `step` does it where you have not, for
   * example to clip them.
   *
   * @throws {Error} When it was done since the last `update`.
   * @throws {DTypeError} When a gradient has half precision itself: keep parameters in float32.
   */
  unscale(optimizer: Optimizer): void {
    requireOptimizer("unscale gradients", optimizer);
    if (!this.#options.enabled) return;
    if (this.#overflows.has(optimizer)) {
      throw new Error("Cannot unscale gradients twice: call update() after each step()");
    }
    const learned = optimizer.groups.flatMap((group) => group.parameters)
      .filter((parameter) => gradientOf(parameter) !== null);
    const half = learned.find((parameter) => gradientOf(parameter)!.dtype.endsWith("float16"));
    if (half) {
      throw dtypeError("unscale")`
        Cannot unscale a gradient of ${half.dtype}: keep parameters in float32 and use autocast`;
    }
    internally(() => {
      const flags = learned.map((parameter) => this.#divide(parameter));
      const overflow = flags.length > 0
        ? flags.reduce((a, b) => a.logicalOr(b))
        : Tensor.fromHost(false, { device: this.#scale.device });
      this.#overflows.set(optimizer, overflow.contiguous());
    });
  }

  /** Divides one gradient; true, on the scaler's device, where it is not finite. */
  #divide(parameter: Tensor): Tensor {
    const scaled = gradientOf(parameter)!, { device } = this.#scale;
    setGradient(parameter, exposed(scaled.div(this.#scale.to(scaled.device))));
    const overflow = scaled.isFinite().logicalNot().any().to(device);
    letGoOfGradient(scaled);
    return overflow;
  }

  /**
   * Lets the optimizer step, unless a gradient is infinite or NaN.
   *
   * @param optimizer Whose gradients come from a scaled loss.
   */
  step(optimizer: Optimizer): void {
    requireOptimizer("step", optimizer);
    if (!this.#options.enabled) return optimizer.step();
    if (!this.#overflows.has(optimizer)) this.unscale(optimizer);
    const overflow = this.#overflows.get(optimizer)!;
    optimizer.step({ skip: (device) => overflow.to(device) });
  }

  /**
   * Changes the factor by what happened since the last time. Call it once after the steps of all
   * optimizers.
   *
   * @throws {Error} When nothing was stepped or unscaled.
   */
  update(): void {
    if (!this.#options.enabled) return;
    const flags = [...this.#overflows.values()];
    if (flags.length === 0) {
      throw new Error("Cannot update the scale: call step() for each optimizer first");
    }
    const { growthFactor, backoffFactor, growthInterval } = this.#options;
    internally(() => {
      const overflow = flags.reduce((a, b) => a.logicalOr(b));
      const good = this.#goodSteps.add(1), grows = good.ge(growthInterval);
      const grown = this.#scale.mul(growthFactor).minimum(LARGEST);
      const scale = overflow.where(
        this.#scale.mul(backoffFactor),
        grows.where(grown, this.#scale),
      );
      const reset = overflow.logicalOr(grows).where(0, good);
      this.#scale.assign(scale);
      this.#goodSteps.assign(reset);
    });
    realizeAll([this.#scale, this.#goodSteps]);
    for (const state of [this.#scale, this.#goodSteps]) stateOf(state).dropFormer();
    for (const flag of flags) flag.dispose();
    this.#overflows.clear();
  }

  /** The factor; waits for the device. */
  currentScale(): Promise<number> {
    return this.#options.enabled ? this.#scale.item() : Promise.resolve(1);
  }

  /** The factor and the number of good steps, as tensors. */
  stateDict(): Record<string, Tensor> {
    return { scale: this.#scale.detach(), growth_tracker: this.#goodSteps.detach() };
  }

  /**
   * Goes on from a state that `stateDict` returned.
   *
   * @throws {RangeError} When a value is missing.
   * @throws {TypeError} When it is no state.
   */
  loadStateDict(state: Readonly<Record<string, Tensor>>): void {
    requireState("load the state of GradScaler", state);
    const { scale, growth_tracker: goodSteps } = state;
    if (!scale || !goodSteps) {
      throw new RangeError(
        `Cannot load the state of GradScaler: it has ${
          Object.keys(state).join(", ")
        }, needed are ` +
          `scale and growth_tracker`,
      );
    }
    this.#scale.assign(scale.to(this.#scale.device));
    this.#goodSteps.assign(goodSteps.to(this.#scale.device));
    realizeAll([this.#scale, this.#goodSteps]);
  }

  /** Gives its memory back. */
  dispose(): void {
    for (const flag of this.#overflows.values()) flag.dispose();
    this.#overflows.clear();
    this.#scale.dispose();
    this.#goodSteps.dispose();
  }

  /** {@linkcode GradScaler.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}
