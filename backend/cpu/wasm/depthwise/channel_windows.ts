/**
 * Convolutions of each channel by itself, forward and by the image, and the gradients of their kernels of
 * stride 1.
 *
 * This folder (`depthwise/`) imports `products/` for tables and calls, `kernel/`, and the assembler of
 * `wasm/`. `kernel_runners.ts` hands {@linkcode findDepthwise} to `products/`.
 */
import { coefficient } from "../../../kernel/affine.ts";
import type { Load } from "../../../kernel/kernel.ts";
import type { FloatContraction } from "../products/contraction.ts";

/** Kernels of more taps along an axis are left to products. */
const MAX_TAPS = 7;
/** Positions of a vector. */
export const VECTOR = 4;

/** A gradient of the kernels of channels by themselves, with symbols by role. */
export interface ChannelWindows {
  readonly image: Load;
  /** The gradient of what came out. */
  readonly other: Load;
  /** True when the image is the contraction's second operand. */
  readonly isSecond: boolean;
  readonly y: number;
  readonly x: number;
  readonly tapY: number;
  readonly tapX: number;
  /** Symbols of channels. */
  readonly planes: readonly number[];
  /** Images that it sums over. */
  readonly summed: readonly number[];
}

/** The gradient that a contraction is, or null. */
export function channelWindows(given: FloatContraction): ChannelWindows | null {
  return windowsOf(given, true) ?? windowsOf(given, false);
}

function windowsOf(
  { kernel, contraction: { a, b, m, n, k, batch } }: FloatContraction,
  isSecond: boolean,
): ChannelWindows | null {
  const [image, other] = isSecond ? [b, a] : [a, b];
  const [rows, columns] = isSecond ? [m, n] : [n, m];
  if (rows.length > 0 || columns.length !== 2 || k.length < 2 || image.bounds.length > 0) {
    return null;
  }
  const [tapY, tapX] = columns as [number, number], [y, x] = k.slice(-2) as [number, number];
  const step = (s: number): number => coefficient(image.index, s);
  const size = (s: number): number => kernel.sizes[s]!;
  const isFit = step(x) === 1 && step(tapX) === 1 && step(y) === step(tapY) &&
    size(tapY) <= MAX_TAPS && size(tapX) <= MAX_TAPS && size(x) >= VECTOR &&
    coefficient(other.index, x) === 1;
  if (!isFit) return null;
  return { image, other, isSecond, y, x, tapY, tapX, planes: batch, summed: k.slice(0, -2) };
}
