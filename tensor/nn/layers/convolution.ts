/** Convolutions as modules, along one, two or three axes. */
import { requireTensor } from "../../core/apply.ts";
import type { Sizes } from "../../core/arguments.ts";
import { tuple } from "../../ops/shaping/axes.ts";
import type { ConvTransposeOptions } from "../../core/image_options.ts";
import type { Tensor } from "../../core/mod.ts";
import { kaimingUniform, uniform } from "../module/init.ts";
import { Module } from "../module/module.ts";
import { parameter } from "../module/parameter.ts";
import { requireSizes } from "../module/sizes.ts";
import {
  checkOptions,
  requireValue,
  type Rules,
  takes,
  tupleFrom,
} from "../../core/rules/options.ts";

/** Options of the convolutions: one number, or one for each axis. */
export interface ConvLayerOptions {
  /** Steps between positions; 1 by default. */
  stride?: Sizes;
  /** Zeros around the image; 0 by default. */
  padding?: Sizes;
  /** Steps between the taps of the kernel; 1 by default. */
  dilation?: Sizes;
  /** Groups of channels that do not see each other; 1 by default. */
  groups?: number;
  /** False to leave out the bias; true by default. */
  bias?: boolean;
}

/** Options of {@linkcode Conv2d}; one number, or height and width. */
export type Conv2dLayerOptions = ConvLayerOptions;

/** Options of the transposed convolutions: one number, or one for each axis. */
export interface ConvTransposeLayerOptions extends ConvLayerOptions {
  /** Extra length of the output at its end: less than the stride or the dilation; 0 by default. */
  outputPadding?: Sizes;
}

/** The operations of tensors that convolution layers run. */
type ConvolutionOperation =
  | "conv1d"
  | "conv2d"
  | "conv3d"
  | "convTranspose1d"
  | "convTranspose2d"
  | "convTranspose3d";

/** Their effect on the channels of the weight. */
const operations: Readonly<
  Record<ConvolutionOperation, { readonly dims: number; readonly isTransposed: boolean }>
> = {
  conv1d: { dims: 1, isTransposed: false },
  conv2d: { dims: 2, isTransposed: false },
  conv3d: { dims: 3, isTransposed: false },
  convTranspose1d: { dims: 1, isTransposed: true },
  convTranspose2d: { dims: 2, isTransposed: true },
  convTranspose3d: { dims: 3, isTransposed: true },
};

function rulesOf(operation: ConvolutionOperation): Rules<ConvTransposeLayerOptions> {
  const { dims, isTransposed } = operations[operation];
  const rules = {
    stride: tupleFrom(1, dims),
    padding: tupleFrom(0, dims),
    dilation: tupleFrom(1, dims),
    groups: takes.count,
    bias: takes.bool,
  };
  const all = isTransposed ? { ...rules, outputPadding: tupleFrom(0, dims) } : rules;
  return all as Rules<ConvTransposeLayerOptions>;
}

/**
 * The common part of convolutions along one, two or three axes.
 *
 * @internal
 */
export abstract class Convolution extends Module {
  readonly #operation: ConvolutionOperation;
  /**
   * (outChannels, inChannels / groups, kernel...); of transposed ones (inChannels,
   * outChannels / groups, kernel...).
   */
  weight: Tensor;
  /** (outChannels), or null. */
  bias: Tensor | null;
  readonly #options: ConvTransposeLayerOptions;

  /** Makes a layer that runs an operation of tensors. */
  constructor(
    operation: ConvolutionOperation,
    inChannels: number,
    outChannels: number,
    kernel: Sizes,
    options: ConvTransposeLayerOptions,
  ) {
    super();
    const layer = new.target.name, action = `make a ${layer}`;
    const { dims, isTransposed } = operations[operation];
    requireSizes(layer, { inChannels, outChannels });
    requireValue(action, "kernel", kernel, tupleFrom(1, dims));
    checkOptions(action, options, rulesOf(operation));
    const groups = options.groups ?? 1;
    if (inChannels % groups !== 0 || outChannels % groups !== 0) {
      throw new RangeError(
        `Cannot ${action} from ${inChannels} to ${outChannels} channels in ${groups} groups: ` +
          `both must divide by the number of groups`,
      );
    }
    const size = tuple(action, "kernel", kernel, dims);
    const [rows, columns] = isTransposed ? [inChannels, outChannels] : [outChannels, inChannels];
    const shape = [rows, columns / groups, ...size];
    this.weight = parameter(kaimingUniform(shape, { slope: Math.sqrt(5) }));
    const fanIn = size.reduce((product, n) => product * n, columns / groups);
    const bound = 1 / Math.sqrt(Math.max(1, fanIn));
    this.bias = options.bias === false
      ? null
      : parameter(uniform([outChannels], { low: -bound, high: bound }));
    this.#operation = operation;
    this.#options = options;
  }

  /**
   * Convolves a batch (N, inChannels, spatial...).
   *
   * @throws {ShapeError} When the channels or sizes do not fit.
   */
  forward(x: Tensor): Tensor {
    requireTensor(`run ${this.constructor.name}`, x);
    const { bias: _, ...others } = this.#options;
    const options: ConvTransposeOptions = this.bias ? { ...others, bias: this.bias } : others;
    return x[this.#operation](this.weight, options);
  }
}

/**
 * 1-D convolution: sequences (N, inChannels, L) become (N, outChannels, length), see
 * {@linkcode Tensor.conv1d}.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const layer = new nn.Conv1d(3, 8, 5, { padding: 2 });
 * assertEquals(layer.forward(Tensor.zeros([1, 3, 16])).shape, [1, 8, 16]);
 * ```
 */
export class Conv1d extends Convolution {
  /**
   * Makes the layer. The weights begin uniform, by the number of a result's inputs, as PyTorch's.
   *
   * @param inChannels Channels of the input.
   * @param outChannels Channels of the output.
   * @param kernel The kernel's size: one number.
   * @param options Stride, padding, dilation, groups, bias.
   * @throws {RangeError} When channels are no whole numbers, or do not divide by the groups.
   */
  constructor(
    inChannels: number,
    outChannels: number,
    kernel: Sizes,
    options: ConvLayerOptions = {},
  ) {
    super("conv1d", inChannels, outChannels, kernel, options);
  }
}

/**
 * 2-D convolution: images (N, inChannels, H, W) become (N, outChannels, height, width), see
 * {@linkcode Tensor.conv2d}.
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
export class Conv2d extends Convolution {
  /**
   * Makes the layer. The weights begin uniform, by the number of a result's inputs, as PyTorch's.
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
    kernel: Sizes,
    options: ConvLayerOptions = {},
  ) {
    super("conv2d", inChannels, outChannels, kernel, options);
  }
}

/**
 * 3-D convolution: volumes (N, inChannels, D, H, W) become (N, outChannels, depth, height, width), see
 * {@linkcode Tensor.conv3d}.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const layer = new nn.Conv3d(1, 2, [3, 1, 1]);
 * assertEquals(layer.forward(Tensor.zeros([1, 1, 5, 4, 4])).shape, [1, 2, 3, 4, 4]);
 * ```
 */
export class Conv3d extends Convolution {
  /**
   * Makes the layer. The weights begin uniform, by the number of a result's inputs, as PyTorch's.
   *
   * @param inChannels Channels of the input.
   * @param outChannels Channels of the output.
   * @param kernel The kernel's size: one number, or depth, height and width.
   * @param options Stride, padding, dilation, groups, bias.
   * @throws {RangeError} When channels are no whole numbers, or do not divide by the groups.
   */
  constructor(
    inChannels: number,
    outChannels: number,
    kernel: Sizes,
    options: ConvLayerOptions = {},
  ) {
    super("conv3d", inChannels, outChannels, kernel, options);
  }
}

/**
 * Transposed 1-D convolution: sequences (N, inChannels, L) become (N, outChannels,
 * (L - 1) * stride - 2 * padding + dilation * (kernel - 1) + outputPadding + 1).
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const layer = new nn.ConvTranspose1d(4, 2, 4, { stride: 2, padding: 1 });
 * assertEquals(layer.forward(Tensor.zeros([1, 4, 8])).shape, [1, 2, 16]);
 * ```
 */
export class ConvTranspose1d extends Convolution {
  /**
   * Makes the layer. The weights begin uniform, by the number of a result's inputs, as PyTorch's.
   *
   * @param inChannels Channels of the input.
   * @param outChannels Channels of the output.
   * @param kernel The kernel's size: one number.
   * @param options Stride, padding, output padding, dilation, groups, bias.
   * @throws {RangeError} When channels are no whole numbers, or do not divide by the groups.
   */
  constructor(
    inChannels: number,
    outChannels: number,
    kernel: Sizes,
    options: ConvTransposeLayerOptions = {},
  ) {
    super("convTranspose1d", inChannels, outChannels, kernel, options);
  }
}

/**
 * Transposed 2-D convolution (M. Zeiler et al., Deconvolutional networks, 2010): each pixel of images
 * (N, inChannels, H, W) is spread over the window that a strided convolution would have read it from.
 *
 * @example The way up of a U-Net
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const up = new nn.ConvTranspose2d(8, 4, 2, { stride: 2 });
 * assertEquals(up.forward(Tensor.zeros([1, 8, 16, 16])).shape, [1, 4, 32, 32]);
 * ```
 */
export class ConvTranspose2d extends Convolution {
  /**
   * Makes the layer. The weights begin uniform, by the number of a result's inputs, as PyTorch's.
   *
   * @param inChannels Channels of the input.
   * @param outChannels Channels of the output.
   * @param kernel The kernel's size: one number, or height and width.
   * @param options Stride, padding, output padding, dilation, groups, bias.
   * @throws {RangeError} When channels are no whole numbers, or do not divide by the groups.
   */
  constructor(
    inChannels: number,
    outChannels: number,
    kernel: Sizes,
    options: ConvTransposeLayerOptions = {},
  ) {
    super("convTranspose2d", inChannels, outChannels, kernel, options);
  }
}

/**
 * Transposed 3-D convolution of volumes (N, inChannels, D, H, W).
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const up = new nn.ConvTranspose3d(2, 1, 2, { stride: 2 });
 * assertEquals(up.forward(Tensor.zeros([1, 2, 2, 3, 4])).shape, [1, 1, 4, 6, 8]);
 * ```
 */
export class ConvTranspose3d extends Convolution {
  /**
   * Makes the layer. The weights begin uniform, by the number of a result's inputs, as PyTorch's.
   *
   * @param inChannels Channels of the input.
   * @param outChannels Channels of the output.
   * @param kernel The kernel's size: one number, or depth, height and width.
   * @param options Stride, padding, output padding, dilation, groups, bias.
   * @throws {RangeError} When channels are no whole numbers, or do not divide by the groups.
   */
  constructor(
    inChannels: number,
    outChannels: number,
    kernel: Sizes,
    options: ConvTransposeLayerOptions = {},
  ) {
    super("convTranspose3d", inChannels, outChannels, kernel, options);
  }
}
