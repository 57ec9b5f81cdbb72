/** Options of operations on images and sequences: convolutions, pooling, resampling. */
import type { Sizes } from "./arguments.ts";
import type { Tensor } from "./mod.ts";

/** Options of `conv1d`, `conv2d` and `conv3d`: one number, or one for each axis. */
export interface ConvOptions {
  /** One number per output channel. */
  bias?: Tensor;
  /** Steps between positions; 1 by default. */
  stride?: Sizes;
  /** Zeros around the image; 0 by default. */
  padding?: Sizes;
  /** Steps between the taps of the kernel; 1 by default. */
  dilation?: Sizes;
  /** Groups of channels that do not see each other; 1 by default. */
  groups?: number;
}

/** Options of `conv2d`; one number, or height and width. */
export type Conv2dOptions = ConvOptions;

/** Options of `convTranspose1d`, `convTranspose2d` and `convTranspose3d`. */
export interface ConvTransposeOptions extends ConvOptions {
  /**
   * Extra length of the output at its end; 0 by default. Several lengths of an image give one of a
   * strided convolution: this says which of them is meant. Less than the stride or the dilation.
   */
  outputPadding?: Sizes;
}

/** Options of pooling. */
export interface PoolOptions {
  /** Steps between windows; default: the kernel's size. */
  stride?: Sizes;
  /** Padding around the image; 0 by default. */
  padding?: Sizes;
  /** Steps between the elements of a window; 1 by default. */
  dilation?: Sizes;
  /** True when padding counts as zeros in a mean (default); else not at all. */
  countIncludePad?: boolean;
}

/** Options of `interpolate`. */
export interface InterpolateOptions {
  /**
   * The output's size: one number, or one for each axis behind the channels. Absent where
   * `scaleFactor` is given.
   */
  size?: Sizes;
  /**
   * The factor that each axis grows by; lengths are rounded down. Places are found by this factor,
   * but an axis that keeps its length stays as it is. Absent where `size` is given.
   */
  scaleFactor?: Sizes;
  /** The nearest pixel (default), or the mean of four, weighted by distance. */
  mode?: "nearest" | "bilinear";
  /**
   * With "bilinear": true lays the centers of the corner pixels upon each other, false (default)
   * the corners of the images.
   */
  alignCorners?: boolean;
}
