/** Finds 3x3 convolutions of stride 1 in contractions, by the indices of their operands. */
import { type AffineExpr, coefficient } from "../../../kernel/affine.ts";
import type { Contraction, Load, LoopKernel } from "../../../kernel/kernel.ts";
import { TAPS, TILE } from "./transforms.ts";

/** Loops over windows: `y` and `x` walk positions, `tapY` and `tapX` the taps of a kernel. */
export interface WindowLoops {
  readonly y: number;
  readonly x: number;
  readonly tapY: number;
  readonly tapX: number;
}

/** A convolution, or the gradient of its kernels, with symbols by role. */
export interface WindowProduct {
  readonly kind: "convolution" | "filterGradient";
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

/** The convolution that a contraction is, or null. */
export function windowProduct(
  kernel: LoopKernel,
  contraction: Contraction,
  target: AffineExpr,
): WindowProduct | null {
  return productOf(kernel, contraction, target, true) ??
    productOf(kernel, contraction, target, false);
}

function productOf(
  kernel: LoopKernel,
  { a, b, m, n, k, batch }: Contraction,
  target: AffineExpr,
  isSecond: boolean,
): WindowProduct | null {
  const [image, other] = isSecond ? [b, a] : [a, b];
  const [rows, columns] = isSecond ? [m, n] : [n, m];
  if (image.bounds.length + other.bounds.length > 0) return null;
  const without = (symbols: readonly number[], ...taken: number[]): number[] =>
    symbols.filter((s) => !taken.includes(s));
  const find = (taps: readonly number[], positions: readonly number[], beside: AffineExpr) =>
    findLoops(kernel, image.index, taps, positions, beside);
  const outer = find(k, columns, target);
  if (outer && batch.every((s) => coefficient(other.index, s) === 0)) {
    const { y, x, tapY, tapX } = outer;
    return {
      kind: "convolution",
      ...{ image, other, isSecond, loops: outer, rows },
      channels: without(k, tapY, tapX),
      images: [...batch, ...without(columns, y, x)],
    };
  }
  const inner = batch.length === 0 ? find(columns, k, other.index) : null;
  if (!inner) return null;
  return {
    kind: "filterGradient",
    ...{ image, other, isSecond, loops: inner, rows },
    channels: without(columns, inner.tapY, inner.tapX),
    images: without(k, inner.y, inner.x),
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
  const wide = positions.filter((s) => sizes[s]! >= TILE);
  const tapX = threes.find((s) => step(s) === 1);
  const x = wide.find((s) => step(s) === 1 && coefficient(beside, s) === 1);
  if (tapX === undefined || x === undefined) return null;
  for (const tapY of threes.filter((s) => s !== tapX)) {
    const y = wide.find((s) => s !== x && step(s) === step(tapY));
    if (y !== undefined) return { y, x, tapY, tapX };
  }
  return null;
}
