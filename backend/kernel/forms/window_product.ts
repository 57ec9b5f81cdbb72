/** 3x3 convolutions of stride 1, and the gradients of their kernels, among contractions: by the operands' indices. */
import { type AffineExpr, coefficient } from "../affine.ts";
import type { Load, LoopKernel } from "../kernel.ts";

/** Taps of a kernel along an axis, and the fewest positions of an image. */
const TAPS = 3, MIN_POSITIONS = 4;

/** Loops over windows: `y` and `x` walk positions, `tapY` and `tapX` the taps of a kernel. */
export interface WindowLoops {
  readonly y: number;
  readonly x: number;
  readonly tapY: number;
  readonly tapX: number;
}

/** A convolution, or the gradient of its kernels, with symbols by role. */
export interface WindowProduct {
  /** The contraction is one of this kernel. */
  readonly kernel: LoopKernel;
  /** Destination of its elements. */
  readonly target: AffineExpr;
  readonly isGradient: boolean;
  /** Load that windows read. */
  readonly image: Load;
  /** Kernels, or the gradient of what came out. */
  readonly other: Load;
  /** True when the image is the contraction's second operand. */
  readonly isSecond: boolean;
  readonly loops: WindowLoops;
  /** Symbols of the rows that the other operand has, in order. */
  readonly rows: readonly number[];
  /** Symbols of the image's channels. */
  readonly channels: readonly number[];
  /** Symbols of images: all but the loops over windows. */
  readonly images: readonly number[];
}

/** The convolution that a kernel's contraction is, or null. */
export function windowProduct(kernel: LoopKernel, target: AffineExpr): WindowProduct | null {
  return productOf(kernel, target, true) ?? productOf(kernel, target, false);
}

function productOf(
  kernel: LoopKernel,
  target: AffineExpr,
  isSecond: boolean,
): WindowProduct | null {
  const { a, b, m, n, k, batch } = kernel.contraction!;
  const [image, other] = isSecond ? [b, a] : [a, b];
  const [rows, columns] = isSecond ? [m, n] : [n, m];
  if (image.bounds.length + other.bounds.length > 0) return null;
  const without = (symbols: readonly number[], ...taken: number[]): number[] =>
    symbols.filter((s) => !taken.includes(s));
  const common = { kernel, target, image, other, isSecond, rows };
  const outer = findLoops(kernel, image.index, k, columns, target);
  if (outer && batch.every((s) => coefficient(other.index, s) === 0)) {
    const { y, x, tapY, tapX } = outer, images = [...batch, ...without(columns, y, x)];
    return {
      ...{ ...common, isGradient: false, loops: outer, images },
      channels: without(k, tapY, tapX),
    };
  }
  const inner = batch.length === 0 ? findLoops(kernel, image.index, columns, k, other.index) : null;
  if (!inner) return null;
  const { y, x, tapY, tapX } = inner, images = without(k, y, x);
  return {
    ...{ ...common, isGradient: true, loops: inner, images },
    channels: without(columns, tapY, tapX),
  };
}

/** Taps and positions by which windows move alike, along rows whose elements lie side by side. */
function findLoops(
  { sizes }: LoopKernel,
  image: AffineExpr,
  taps: readonly number[],
  positions: readonly number[],
  beside: AffineExpr,
): WindowLoops | null {
  const step = (s: number): number => coefficient(image, s);
  const threes = taps.filter((s) => sizes[s] === TAPS);
  const wide = positions.filter((s) => sizes[s]! >= MIN_POSITIONS);
  const tapX = threes.find((s) => step(s) === 1);
  const x = wide.find((s) => step(s) === 1 && coefficient(beside, s) === 1);
  if (tapX === undefined || x === undefined) return null;
  for (const tapY of threes.filter((s) => s !== tapX)) {
    const y = wide.find((s) => s !== x && step(s) === step(tapY));
    if (y !== undefined) return { y, x, tapY, tapX };
  }
  return null;
}
