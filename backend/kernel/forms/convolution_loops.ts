/**
 * Loops of a contraction that are a convolution's along two axes. Templates of all backends ask
 * here; what a loop does is read from the operands' indices, so that the gradient of an image, which is
 * a convolution with the taps reversed, is one, too.
 *
 * This folder (`forms/`) tells what a kernel computes from its loops; it imports `kernel/`.
 */
import { coefficient } from "../affine.ts";
import type { Load, LoopKernel } from "../kernel.ts";

/** One axis of the image. */
export interface ImageAxis {
  /** The loop over positions, and over taps. */
  readonly position: number;
  readonly tap: number;
  /** Elements of the image from one to the next. */
  readonly step: number;
  /** Elements of the axis from one position to the next, and from tap to tap. */
  readonly stride: number;
  readonly dilation: number;
  /** Element that the first position's first tap sees; below 0: padding. */
  readonly first: number;
  /** Elements that exist; null where none is outside. */
  readonly size: number | null;
}

/** The loops of a convolution by their roles. */
export interface ConvolutionLoops {
  readonly line: ImageAxis;
  readonly column: ImageAxis;
  /** Channels of the result, and those that are summed; null where there is one, or several loops. */
  readonly output: number | null;
  readonly input: number | null;
  /** The loop over images that share their weights; the longest, if there are several. */
  readonly image: number | null;
  /** All other loops around: groups of channels, phases. */
  readonly others: readonly number[];
}

/** The loops of a convolution of images `b` with weights `a`; null for all other contractions. */
export function convolutionLoops({ contraction, sizes }: LoopKernel): ConvolutionLoops | null {
  if (contraction === null) return null;
  const { batch, m, n, k, a, b } = contraction;
  if (n.length !== 2 || k.length < 2 || k.length > 3) return null;
  if (a.bounds.length > 0 || n.some((s) => coefficient(a.index, s) !== 0)) return null;
  const axes = imageAxes(b, n, k.slice(-2));
  if (axes === null) return null;
  const images = batch.filter((s) => coefficient(a.index, s) === 0)
    .toSorted((s, t) => sizes[t]! - sizes[s]!);
  const image = images[0] ?? null;
  return {
    ...axes,
    output: m.length === 1 ? m[0]! : null,
    input: k.length === 3 ? k[0]! : null,
    image,
    others: [...batch.filter((s) => s !== image), ...m.length > 1 ? m : []],
  };
}

/** The loops of the gradient of a convolution's weight, whose positions are summed. */
export interface WeightGradientLoops extends Pick<ConvolutionLoops, "line" | "column"> {
  /** The loop over images, which is summed, too; null where there is one. */
  readonly image: number | null;
  /** All loops around those over taps. */
  readonly others: readonly number[];
}

/** The loops of a gradient, from `a`, of the weight by which images `b` were convolved; else null. */
export function weightGradientLoops({ contraction }: LoopKernel): WeightGradientLoops | null {
  if (contraction === null) return null;
  const { batch, m, n, k, a, b } = contraction;
  if (n.length !== 2 || k.length < 2 || k.length > 3 || a.bounds.length > 0) return null;
  const axes = imageAxes(b, k.slice(-2), n);
  return axes && { ...axes, image: k.length === 3 ? k[0]! : null, others: [...batch, ...m] };
}

/** Elements along an axis that are read and exist, counted from the first position's first tap on. */
export function existingElements(
  { sizes }: Pick<LoopKernel, "sizes">,
  { position, tap, stride, dilation, first, size }: ImageAxis,
): [start: number, end: number] {
  const end = (sizes[position]! - 1) * stride + (sizes[tap]! - 1) * dilation + 1;
  return size === null ? [0, end] : [-first, Math.min(end, size - first)];
}

/** Two axes of an image that loops over positions and over taps walk; null for all other indices. */
function imageAxes(
  image: Load,
  positions: readonly number[],
  taps: readonly number[],
): Pick<ConvolutionLoops, "line" | "column"> | null {
  const [line, column] = positions.map((s, k) => axisOf(image, s, taps[k]!));
  if (!line || !column) return null;
  const bounded = [line, column].filter(({ size }) => size !== null).length;
  return image.bounds.length === bounded ? { line, column } : null;
}

/** The axis that a loop over positions and one over taps walk together; null where they do not. */
function axisOf(image: Load, position: number, tap: number): ImageAxis | null {
  const along = coefficient(image.index, position), between = coefficient(image.index, tap);
  if (along <= 0 || between <= 0) return null;
  const touching = image.bounds.filter(({ index }) =>
    coefficient(index, position) !== 0 || coefficient(index, tap) !== 0
  );
  if (touching.length > 1) return null;
  const [bound] = touching, common = { position, tap };
  if (bound === undefined) {
    // Without padding the step is the largest that both loops are multiples of, if it is one of them.
    const step = Math.min(along, between), stride = along / step, dilation = between / step;
    const fits = Number.isInteger(stride) && Number.isInteger(dilation);
    return fits ? { ...common, step, stride, dilation, first: 0, size: null } : null;
  }
  const { index, size } = bound;
  const stride = coefficient(index, position), dilation = coefficient(index, tap);
  const step = along / stride;
  const fits = stride > 0 && dilation > 0 && Number.isInteger(step) &&
    between === step * dilation && index.terms.length === 2;
  return fits ? { ...common, step, stride, dilation, first: index.offset, size } : null;
}

/** True for kernels of three by three taps without steps: those that Winograd's F(2x2, 3x3) is for. */
export function isThreeByThree({ sizes }: LoopKernel, { line, column }: ConvolutionLoops): boolean {
  return [line, column].every(({ tap, stride, dilation }) =>
    sizes[tap] === 3 && stride === 1 && dilation === 1
  );
}
