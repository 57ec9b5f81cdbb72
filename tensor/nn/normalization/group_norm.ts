/** Normalization of groups of channels of each sample. */
import { atLeastSingle } from "../../core/autocast.ts";
import { requireTensor } from "../../core/apply.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { Tensor } from "../../class/tensor.ts";
import { Module } from "../module/module.ts";
import { standardize } from "./batch_norm.ts";
import { parameter } from "../module/parameter.ts";
import { requireSizes } from "../module/sizes.ts";
import { checkOptions, requireValue, type Rules, takes } from "../../core/rules/options.ts";

/** Options of {@linkcode GroupNorm} and {@linkcode InstanceNorm2d}. */
export interface GroupNormOptions {
  /** Added to the variance; default 1e-5. */
  eps?: number;
  /** True when there are weight and bias: the default of GroupNorm, not of InstanceNorm. */
  affine?: boolean;
}

const rules: Rules<GroupNormOptions> = { eps: takes.nonNegative, affine: takes.bool };

/**
 * Normalizes groups of channels of each sample (N, C, ...) (Y. Wu, K. He, Group Normalization, 2018).
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertAlmostEquals } from "@std/assert";
 *
 * const layer = new nn.GroupNorm(2, 6);
 * const y = layer.forward(Tensor.randn([4, 6, 8, 8]).mul(5).add(2));
 * assertAlmostEquals(await y.slice(0, [0, 3]).mean().item(), 0, 1e-4);
 * ```
 */
export class GroupNorm extends Module {
  /** Factor of the normalized channels, or null. */
  weight: Tensor | null;
  /** Term added then, or null. */
  bias: Tensor | null;
  readonly #groups: number;
  readonly #channels: number;
  readonly #eps: number;

  /**
   * Makes the layer.
   *
   * @param groups How many groups there are.
   * @param channels The length of axis 1.
   * @param options Epsilon, `affine: false` to leave out weight and bias.
   * @throws {RangeError} When the channels do not divide by the groups.
   */
  constructor(groups: number, channels: number, options: GroupNormOptions = {}) {
    super();
    requireValue(`make a ${new.target.name}`, "groups", groups, takes.count);
    requireSizes(new.target.name, { channels });
    checkOptions(`make a ${new.target.name}`, options, rules);
    if (channels % groups !== 0) {
      throw new RangeError(
        `Cannot make a ${new.target.name} of ${channels} channels in ${groups} groups: the ` +
          `channels must divide by the number of groups`,
      );
    }
    const { eps = 1e-5, affine = true } = options;
    this.weight = affine ? parameter(Tensor.ones([channels])) : null;
    this.bias = affine ? parameter(Tensor.zeros([channels])) : null;
    this.#groups = groups;
    this.#channels = channels;
    this.#eps = eps;
  }

  /**
   * Normalizes each group of each sample.
   *
   * @throws {ShapeError} When axis 1 does not have the layer's channels.
   */
  forward(x: Tensor): Tensor {
    requireTensor(`run ${this.constructor.name}`, x);
    if (x.ndim < 2 || x.shape[1] !== this.#channels) {
      throw shapeError(this.constructor.name)`
        Cannot run ${this.constructor.name} on a tensor of shape ${x.shape}: it must have
        ${this.#channels} channels on axis 1`;
    }
    const [samples, channels, ...spatial] = x.shape as [number, number, ...number[]];
    const grouped = atLeastSingle(x)
      .reshape([samples, this.#groups, channels / this.#groups, ...spatial]);
    const axes = grouped.shape.map((_, axis) => axis).slice(2);
    const { value } = standardize(grouped, axes, this.#eps);
    const perChannel = [channels, ...spatial.map(() => 1)];
    const normalized = value.reshape(x.shape);
    const scaled = this.weight ? normalized.mul(this.weight.reshape(perChannel)) : normalized;
    return (this.bias ? scaled.add(this.bias.reshape(perChannel)) : scaled).cast(x.dtype);
  }
}

/** Options of a group normalization in which each channel is a group. */
function instanceOptions(layer: string, options: GroupNormOptions): GroupNormOptions {
  checkOptions(`make a ${layer}`, options, rules);
  return { affine: false, ...options };
}

/**
 * The common part of instance normalization.
 *
 * @internal
 */
export abstract class InstanceNorm extends GroupNorm {
  readonly #rank: number;

  /** Makes a layer for inputs of `rank` axes. */
  constructor(channels: number, options: GroupNormOptions, rank: number) {
    super(
      typeof channels === "number" && channels < 1 ? 1 : channels,
      channels,
      instanceOptions(new.target.name, options),
    );
    this.#rank = rank;
  }

  /**
   * Normalizes each channel of each sample.
   *
   * @throws {ShapeError} When the axes or channels do not fit, or a channel has one element only.
   */
  override forward(x: Tensor): Tensor {
    requireTensor(`run ${this.constructor.name}`, x);
    const elements = x.shape.slice(2).reduce((product, n) => product * n, 1);
    if (x.ndim === this.#rank && (elements !== 1 || !this.training)) return super.forward(x);
    throw shapeError(this.constructor.name)`
      Cannot run ${this.constructor.name} on a tensor of shape ${x.shape}: it must have
      ${this.#rank} axes, and more than one element in a channel`;
  }
}

/** Normalizes each channel of each sequence (N, C, L), as {@linkcode InstanceNorm2d}. */
export class InstanceNorm1d extends InstanceNorm {
  /**
   * Makes the layer.
   *
   * @param channels The length of axis 1.
   * @param options Epsilon, `affine: true` for weight and bias.
   */
  constructor(channels: number, options: GroupNormOptions = {}) {
    super(channels, options, 3);
  }
}

/**
 * Normalizes each channel of each image (N, C, H, W) (D. Ulyanov et al., Instance Normalization, 2016).
 * It keeps no running statistics.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertAlmostEquals } from "@std/assert";
 *
 * const y = new nn.InstanceNorm2d(3).forward(Tensor.randn([2, 3, 8, 8]).add(7));
 * assertAlmostEquals(await y.slice(1, 2).mean().item(), 0, 1e-4);
 * ```
 */
export class InstanceNorm2d extends InstanceNorm {
  /**
   * Makes the layer.
   *
   * @param channels The length of axis 1.
   * @param options Epsilon, `affine: true` for weight and bias.
   */
  constructor(channels: number, options: GroupNormOptions = {}) {
    super(channels, options, 4);
  }
}

/** Normalizes each channel of each volume (N, C, D, H, W), as {@linkcode InstanceNorm2d}. */
export class InstanceNorm3d extends InstanceNorm {
  /**
   * Makes the layer.
   *
   * @param channels The length of axis 1.
   * @param options Epsilon, `affine: true` for weight and bias.
   */
  constructor(channels: number, options: GroupNormOptions = {}) {
    super(channels, options, 5);
  }
}
