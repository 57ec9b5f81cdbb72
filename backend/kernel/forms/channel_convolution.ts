/** Contractions that convolve each channel by itself, padded as they are read or not. */
import type { Load, LoopKernel } from "../kernel.ts";
import { convolutionLoops, type ImageAxis } from "./convolution_loops.ts";

/** A convolution of channels by themselves. */
export interface ChannelConvolution {
  readonly image: Load;
  readonly taps: Load;
  /** True when the image is the contraction's second operand. */
  readonly isSecond: boolean;
  readonly line: ImageAxis;
  readonly column: ImageAxis;
  /** Symbols of channels and images. */
  readonly planes: readonly number[];
}

/** Kernels of more taps along an axis are left to products. */
const MAX_TAPS = 7;
/** Shorter rows fill no vector of four. */
const MIN_WIDTH = 4;
/** The rows of an image are read in steps of so many elements at most. */
const MAX_STEP = 2;

/** The float32 convolution that a contraction is, or null. */
export function channelConvolution(kernel: LoopKernel): ChannelConvolution | null {
  const { contraction: c } = kernel;
  if (c === null || c.a.dtype !== "float32" || c.b.dtype !== "float32") return null;
  const swapped = { ...kernel, contraction: { ...c, a: c.b, b: c.a, m: c.n, n: c.m } };
  return imageSecond(kernel, true) ?? imageSecond(swapped, false);
}

function imageSecond(kernel: LoopKernel, isSecond: boolean): ChannelConvolution | null {
  const { m, k, a, b, batch } = kernel.contraction!, { sizes } = kernel;
  const loops = convolutionLoops(kernel);
  if (loops === null || m.length > 0 || k.length !== 2) return null;
  const { line, column } = loops;
  const isFit = column.step === 1 && column.stride <= MAX_STEP &&
    sizes[column.position]! >= MIN_WIDTH && Math.max(line.first, column.first) <= 0 &&
    [line, column].every(({ tap }) => sizes[tap]! <= MAX_TAPS);
  return isFit ? { image: b, taps: a, isSecond, line, column, planes: batch } : null;
}
