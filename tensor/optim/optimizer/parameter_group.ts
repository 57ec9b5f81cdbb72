import type { DeviceHandle } from "../../../backend/internal.ts";
import type { Tensor } from "../../core/tensor.ts";
import { DeviceScalar } from "./device_scalar.ts";
import { shown } from "../../core/rules/options.ts";

/** What every optimizer can be told. */
export interface OptimizerOptions {
  /** The learning rate. */
  lr?: number;
}

/** Parameters with options of their own; what is left out is taken from the optimizer's. */
export type GroupOptions<Options> = Options & {
  /** What is learned. */
  parameters: readonly Tensor[];
};

/** What an optimizer learns: parameters, or groups of them with options of their own. */
export type OptimizerParameters<Options> = readonly Tensor[] | readonly GroupOptions<Options>[];

/** Parameters that are updated with the same options. */
export class ParameterGroup<Options extends OptimizerOptions = OptimizerOptions> {
  /** What is learned. */
  readonly parameters: readonly Tensor[];
  /** The options; they may be changed between steps. The learning rate is `lr`. */
  readonly options: Required<Omit<Options, "lr">>;
  readonly #lr: DeviceScalar;

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

  /** Gives the memory back. */
  dispose(): void {
    this.#lr.dispose();
  }
}

/** @throws {RangeError} When it is no learning rate. */
function checkedRate(lr: number): number {
  if (lr >= 0 && Number.isFinite(lr)) return lr;
  throw new RangeError(`Cannot learn with a rate of ${shown(lr)}: pass a number of at least 0`);
}
