import type { DeviceHandle } from "../../../backend/internal.ts";
import type { Tensor } from "../../core/mod.ts";
import { DeviceScalar } from "./device_scalar.ts";
import { requireValue, takes } from "../../core/rules/options.ts";

/** Options of every optimizer. */
export interface OptimizerOptions {
  /** The learning rate; each optimizer has a default of its own. */
  lr?: number;
}

/** Parameters with options of their own; what is left out is taken from the optimizer's. */
export type GroupOptions<Options> = Options & {
  /** Tensors to learn. */
  parameters: readonly Tensor[];
};

/** Learned parameters of an optimizer, or groups of them with options of their own. */
export type OptimizerParameters<Options> = readonly Tensor[] | readonly GroupOptions<Options>[];

/** Parameters that are updated with the same options. */
export class ParameterGroup<Options extends OptimizerOptions = OptimizerOptions> {
  /** Tensors to learn. */
  readonly parameters: readonly Tensor[];
  /** The options; they may be changed between steps. The learning rate is `lr`. */
  readonly options: Required<Omit<Options, "lr">>;
  readonly #lr: DeviceScalar;
  /** Momentum changed by a schedule. */
  #momentum: DeviceScalar | null = null;

  /**
   * Makes the group.
   *
   * @param parameters What is learned.
   * @param options Every option.
   */
  constructor(parameters: readonly Tensor[], { lr, ...options }: Required<Options>) {
    this.parameters = [...parameters];
    this.#lr = new DeviceScalar(checkedRate(lr as number));
    this.options = options as Required<Omit<Options, "lr">>;
  }

  /** The learning rate. */
  get lr(): number {
    return this.#lr.value;
  }

  /** Takes effect with the next step, also of a compiled one. */
  set lr(value: number) {
    this.#lr.value = checkedRate(value);
  }

  /** The learning rate on a device, as a scalar tensor. */
  rateOn(device: DeviceHandle): Tensor {
    return this.#lr.on(device);
  }

  /**
   * Share of former steps, or of the mean gradient, that is kept: option `momentum`, or `beta1`.
   * Undefined where the optimizer has neither.
   */
  get momentum(): number | undefined {
    const name = this.#momentumName;
    return name === undefined ? undefined : (this.options as Record<string, number>)[name];
  }

  /**
   * Takes effect with the next step. Kernels read it from memory from then on, as they do the rate.
   *
   * @throws {TypeError} When the optimizer has no momentum.
   * @throws {RangeError} When it is not in [0, 1).
   */
  set momentum(value: number) {
    requireValue("change a momentum", "momentum", value, takes.belowOne);
    if (this.#momentum === null) this.#momentum = this.#held(value);
    else this.#momentum.value = value;
  }

  get #momentumName(): string | undefined {
    return ["momentum", "beta1"].find((name) => Object.hasOwn(this.options, name));
  }

  /** From now on the option is what is in memory. */
  #held(momentum: number): DeviceScalar {
    const name = this.#momentumName, scalar = new DeviceScalar(momentum);
    if (name === undefined) {
      throw new TypeError(
        "Cannot change the momentum of an optimizer that has none: make it with momentum, or schedule the rate alone",
      );
    }
    Object.defineProperty(this.options, name, {
      get: () => scalar.value,
      set: (value: number) => scalar.value = value,
      enumerable: true,
    });
    return scalar;
  }

  /** The momentum as updates compute with it: a number, or a scalar tensor where it is scheduled. */
  momentumOn(device: DeviceHandle): Tensor | number {
    return this.#momentum?.on(device) ?? this.momentum ?? 0;
  }

  /** True where there is a momentum to remember: one that is not 0, or changes. */
  get hasMomentum(): boolean {
    return this.#momentum !== null || this.momentum !== 0;
  }

  /** Device values of updates: the learning rate, and a scheduled momentum. */
  scalarsOn(device: DeviceHandle): Tensor[] {
    return [this.rateOn(device), ...this.#momentum ? [this.#momentum.on(device)] : []];
  }

  /** The options that kernels are made for: all but what they read from memory. */
  get fixedOptions(): Readonly<Record<string, unknown>> {
    if (this.#momentum === null) return this.options;
    return { ...this.options, [this.#momentumName!]: "in memory" };
  }

  /** Gives the memory back. */
  dispose(): void {
    this.#lr.dispose();
    this.#momentum?.dispose();
  }
}

/** @throws {TypeError | RangeError} When it is no number, or no learning rate. */
function checkedRate(lr: number): number {
  requireValue("learn", "a rate of", lr, takes.nonNegative);
  return lr;
}
