import type { Axes } from "../ops/axes.ts";
import { pair } from "../ops/axes.ts";
import type { Tensor } from "../tensor.ts";
import { kaimingUniform, uniform } from "./init.ts";
import { requireTensor } from "../apply.ts";
import { Module } from "./module.ts";
import { parameter } from "./parameter.ts";
import { requireSizes } from "./sizes.ts";
import { checkOptions, pairFrom, requireValue, type Rules, takes } from "../options.ts";

/** Options of {@linkcode Conv2d}; one number, or height and width. */
export interface Conv2dLayerOptions {
  /** Steps between positions. */
  stride?: Axes;
  /** Zeros around the image. */
  padding?: Axes;
  /** Steps between the taps of the kernel. */
  dilation?: Axes;
  /** Groups of channels that do not see each other. */
  groups?: number;
  /** False for none. */
  bias?: boolean;
}

const rules: Rules<Conv2dLayerOptions> = {
  stride: pairFrom(1),
  padding: pairFrom(0),
  dilation: pairFrom(1),
  groups: takes.count,
  bias: takes.bool,
};

/**
 * 2-D convolution of images (N, inChannels, H, W).
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const layer = new nn.Conv2d(3, 8, 3, { padding: 1, stride: 2 });
 * assertEquals(layer.forward(Tensor.zeros([1, 3, 16, 16])).shape, [1, 8, 8, 8]);
 * ```
 */
export class Conv2d extends Module {
  /** (outChannels, inChannels / groups, kernel height, kernel width). */
  weight: Tensor;
  /** (outChannels), or null. */
  bias: Tensor | null;
  readonly #options: Conv2dLayerOptions;

  /**
   * Makes the layer.
   *
   * @param inChannels Channels of the input.
   * @param outChannels Channels of the output.
   * @param kernel The kernel's size: one number, or height and width.
   * @param options Stride, padding, dilation, groups, bias.
   * @throws {RangeError} When channels are no whole numbers, or do not divide by the groups.
   */
  constructor(
    inChannels: number,
    outChannels: number,
    kernel: Axes,
    options: Conv2dLayerOptions = {},
  ) {
    super();
    requireSizes("Conv2d", { inChannels, outChannels });
    requireValue("make a Conv2d", "kernel", kernel, pairFrom(1));
    checkOptions("make a Conv2d", options, rules);
    const groups = options.groups ?? 1;
    if (inChannels % groups !== 0 || outChannels % groups !== 0) {
      throw new RangeError(
        `Cannot make a Conv2d from ${inChannels} to ${outChannels} channels in ${groups} groups: ` +
          `both must divide by the number of groups`,
      );
    }
    const size = pair("make a Conv2d", "kernel", kernel);
    const shape = [outChannels, inChannels / groups, ...size];
    this.weight = parameter(kaimingUniform(shape, { slope: Math.sqrt(5) }));
    const bound = 1 / Math.sqrt(Math.max(1, shape[1]! * size[0] * size[1]));
    this.bias = options.bias === false ? null : parameter(uniform([outChannels], -bound, bound));
    this.#options = options;
  }

  /**
   * Convolves a batch of images.
   *
   * @throws {ShapeError} When the channels or sizes do not fit.
   */
  forward(x: Tensor): Tensor {
    requireTensor("run Conv2d", x);
    const { bias: _, ...options } = this.#options;
    return x.conv2d(this.weight, this.bias ? { ...options, bias: this.bias } : options);
  }
}
