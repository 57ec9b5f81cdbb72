/**
 * Finds convolutions of each channel by itself, of stride 1, in contractions: forward, by the image, and
 * by the kernels.
 *
 * This folder (`depthwise/`) imports `products/` for tables and calls, and the assembler of
 * `wasm/`. `kernel_runners.ts` hands {@linkcode findDepthwise} to `products/`.
 */
import { coefficient } from "../../../kernel/affine.ts";
import type { Load } from "../../../kernel/kernel.ts";
import type { FloatContraction } from "../products/contraction.ts";

/** Kernels of more taps along an axis are left to products. */
const MAX_TAPS = 7;
/** Positions of a vector; rows that are computed together. */
export const VECTOR = 4, ROWS = 3;

/** A convolution of channels by themselves, with symbols by role. */
export interface ChannelWindows {
  readonly kind: "convolution" | "filterGradient";
  readonly image: Load;
  /** Kernels, or the gradient of what came out. */
  readonly other: Load;
  /** True when the image is the contraction's second operand. */
  readonly isSecond: boolean;
  readonly y: number;
  readonly x: number;
  readonly tapY: number;
  readonly tapX: number;
  /** Symbols of channels and images. */
  readonly planes: readonly number[];
  /** Images that a gradient sums over. */
  readonly summed: readonly number[];
}

/** The convolution that a contraction is, or null. */
export function channelWindows(given: FloatContraction): ChannelWindows | null {
  return windowsOf(given, true) ?? windowsOf(given, false);
}

function windowsOf(
  { kernel, contraction: { a, b, m, n, k, batch }, target }: FloatContraction,
  isSecond: boolean,
): ChannelWindows | null {
  const [image, other] = isSecond ? [b, a] : [a, b];
  const [rows, columns] = isSecond ? [m, n] : [n, m];
  if (rows.length > 0 || columns.length !== 2) return null;
  const outer = columns as readonly [number, number];
  const inner = k.slice(-2) as [number, number], step = (s: number) => coefficient(image.index, s);
  const size = (s: number): number => kernel.sizes[s]!;
  const isFit = ([y, x]: readonly number[], [tapY, tapX]: readonly number[]): boolean =>
    step(x!) === 1 && step(tapX!) === 1 && step(y!) === step(tapY!) &&
    size(tapY!) <= MAX_TAPS && size(tapX!) <= MAX_TAPS && size(x!) >= VECTOR && size(y!) >= ROWS;
  const common = { image, other, isSecond, planes: batch };
  if (k.length === 2 && isFit(outer, inner) && coefficient(target, outer[1]) === 1) {
    const [y, x] = outer, [tapY, tapX] = inner;
    return { kind: "convolution", ...common, y, x, tapY, tapX, summed: [] };
  }
  if (k.length < 2 || !isFit(inner, outer) || coefficient(other.index, inner[1]) !== 1) return null;
  const [y, x] = inner, [tapY, tapX] = outer;
  return { kind: "filterGradient", ...common, y, x, tapY, tapX, summed: k.slice(0, -2) };
}
