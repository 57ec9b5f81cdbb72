/** Spectra of short pieces of a signal, and the signal of such spectra. */
import { shapeError } from "../core/rules/errors.ts";
import { aTensor } from "../core/apply.ts";
import { checkOptions, type Rules, takes } from "../core/rules/options.ts";
import { requireReal } from "../linalg/common/matrices.ts";
import { ComplexTensor } from "../ops/complex_tensor.ts";
import { irfft, rfft } from "./fourier.ts";
import { Tensor } from "../class/tensor.ts";

/** Options of {@linkcode stft} and {@linkcode istft}. */
export interface StftOptions {
  /** Samples of a piece. */
  n: number;
  /** Samples from piece to piece; default: a quarter of a piece. */
  hop?: number;
  /** Weights of a piece's samples, [n] or fewer in its middle; default: ones. */
  window?: Tensor;
  /** Pieces lie around their time, the signal is mirrored at its ends; default true. */
  center?: boolean;
}

/** Further options of {@linkcode istft}. */
export interface IstftOptions extends StftOptions {
  /** Samples of the signal; default: those that pieces cover. */
  length?: number;
}

const rules: Rules<StftOptions> = {
  n: takes.count,
  hop: takes.count,
  window: aTensor(),
  center: takes.bool,
};
const inverseRules: Rules<IstftOptions> = { ...rules, length: takes.count };

/** The window of a piece, zeros around a shorter one. */
function windowOf(op: string, x: Tensor, { n, window }: StftOptions): Tensor {
  if (window === undefined) return Tensor.ones([n], { dtype: x.dtype, device: x.device });
  const length = window.shape[0] ?? 0;
  if (window.ndim !== 1 || length > n) {
    throw shapeError(op)`
      Cannot ${op} with a window of shape ${window.shape}: pass up to ${n} weights`;
  }
  const before = (n - length) >> 1;
  return window.cast(x.dtype).pad([[before, n - length - before]]);
}

/** The sample that each place of each piece is, [pieces, n]. */
function places(x: Tensor, pieces: number, n: number, hop: number): Tensor {
  const whole = { dtype: "int32", device: x.device } as const;
  return Tensor.arange(0, pieces, 1, whole).mul(hop).unsqueeze(1).add(
    Tensor.arange(0, n, 1, whole),
  );
}

/**
 * The spectra of overlapping pieces of a signal, as PyTorch's `stft`.
 *
 * @param x Signals [..., samples].
 * @param options See {@linkcode StftOptions}.
 * @returns [..., n / 2 + 1 frequencies, pieces].
 * @throws {ShapeError} When the signal is shorter than a piece.
 */
export function stft(x: Tensor, options: StftOptions): ComplexTensor {
  requireReal("stft", x);
  checkOptions("stft", options, rules, ["n"]);
  const { n, hop = Math.max(1, n >> 2), center = true } = options, half = n >> 1;
  const lead = x.shape.slice(0, -1), samples = x.shape.at(-1) ?? 0;
  const count = samples + (center ? 2 * half : 0);
  if (x.ndim === 0 || count < n || center && samples <= half) {
    throw shapeError("stft")`
      Cannot stft of shape ${x.shape} with pieces of ${n}: the last axis has fewer samples`;
  }
  const padded = center && half > 0 ? x.padReflect([[half, half]]) : x;
  const pieces = 1 + Math.floor((count - n) / hop);
  const cut = padded.indexSelect(lead.length, places(x, pieces, n, hop));
  const spectra = rfft(cut.mul(windowOf("stft", x, options)));
  return spectra.map((part) => part.transpose(-1, -2));
}

/**
 * The signal of spectra, as PyTorch's `istft`: pieces are added where they overlap and divided by the sum
 * of the squares of their windows.
 *
 * @param spectra [..., n / 2 + 1, pieces].
 * @param options Those of {@linkcode stft}, and the length.
 * @returns Signals [..., samples].
 */
export function istft(spectra: ComplexTensor, options: IstftOptions): Tensor {
  if (!(spectra instanceof ComplexTensor)) {
    throw new TypeError("Cannot istft of what is no ComplexTensor: pass what stft gives");
  }
  checkOptions("istft", options, inverseRules, ["n"]);
  const { n, hop = Math.max(1, n >> 2), center = true } = options;
  const [frequencies, pieces] = spectra.shape.slice(-2), lead = spectra.shape.slice(0, -2);
  if (spectra.ndim < 2 || frequencies !== (n >> 1) + 1) {
    throw shapeError("istft")`
      Cannot istft of shape ${spectra.shape} with pieces of ${n}: pass
      [..., ${(n >> 1) + 1}, pieces]`;
  }
  const window = windowOf("istft", spectra.real, options), count = n + hop * (pieces! - 1);
  const signals = irfft(spectra.map((part) => part.transpose(-1, -2)), { n }).mul(window);
  const at = places(spectra.real, pieces!, n, hop).reshape([pieces! * n]);
  const rows = lead.reduce((product, length) => product * length, 1);
  const { dtype, device } = spectra;
  const added = (parts: Tensor, m: number) =>
    Tensor.zeros([m, count], { dtype, device })
      .scatterAdd(1, at.unsqueeze(0).expand([m, at.size]), parts.reshape([m, at.size]));
  const weights = added(window.square().expand([pieces!, n]), 1);
  const sums = added(signals, rows).div(weights.gt(1e-11).where(weights, 1));
  const start = center ? n >> 1 : 0;
  const length = options.length ?? count - 2 * start;
  const missing = Math.max(0, start + length - count);
  const whole = missing > 0 ? sums.pad([[0, 0], [0, missing]]) : sums;
  return whole.slice(null, [start, start + length]).reshape([...lead, length]);
}
