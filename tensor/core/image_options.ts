/** Options of operations on images and sequences: convolutions, pooling, resampling. */
import type { Axes } from "./arguments.ts";
import type { Tensor } from "./mod.ts";

/** Options of `conv1d`, `conv2d` and `conv3d`: one number, or one for each axis. */
export interface ConvOptions {
  /** One number per output channel. */
  bias?: Tensor;
  /** Steps between positions. */
  stride?: Axes;
  /** Zeros around the image. */
  padding?: Axes;
  /** Steps between the taps of the kernel. */
  dilation?: Axes;
  /** Groups of channels that do not see each other. */
  groups?: number;
}

/** Options of `conv2d`; one number, or height and width. */
export type Conv2dOptions = ConvOptions;

/** Options of `convTranspose1d`, `convTranspose2d` and `convTranspose3d`. */
export interface ConvTransposeOptions extends ConvOptions {
  /**
   * Extra length of the output at its end. Several lengths of an image give one of a strided
   * convolution: this says which of them is meant. Less than the stride or the dilation.
   */
  outputPadding?: Axes;
}

/** Options of pooling. */
export interface PoolOptions {
  /** Steps between windows; default: the kernel's size. */
  stride?: Axes;
  /** Padding around the image. */
  padding?: Axes;
  /** Steps between the elements of a window. */
  dilation?: Axes;
  /** True when padding counts as zeros in a mean (default); else not at all. */
  countIncludePad?: boolean;
}

/** Options of `interpolate`. */
export interface InterpolateOptions {
  /** The output's size: one number, or one for each axis behind the channels. */
  size?: Axes;
  /**
   * By what each axis grows; lengths are rounded down. Places are found by this factor, but an axis
   * that keeps its length stays as it is.
   */
  scaleFactor?: Axes;
  /** The nearest pixel (default), or the mean of four, weighted by distance. */
  mode?: "nearest" | "bilinear";
  /**
   * With "bilinear", whether the centers of the corner pixels lie upon each other, or (default) the
   * corners of the images.
   */
  alignCorners?: boolean;
}
