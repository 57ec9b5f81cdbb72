/** Windows of signals, and the filters of the mel scale. */
import type { TensorOptions } from "../core/arguments.ts";
import { checkOptions, requireValue, type Rules, takes } from "../core/rules/options.ts";
import { tensorRules } from "../ops/creation/tensor_options.ts";
import { Tensor } from "../class/tensor.ts";

/** Options of windows beside type and device. */
export interface WindowOptions extends TensorOptions {
  /** True (default): a period of n samples, as the transforms want it; false: symmetric. */
  periodic?: boolean;
}

const rules: Rules<WindowOptions> = { ...tensorRules, periodic: takes.bool };

/** A window of a function of the share of the period, from 0 to 1. */
function windowOf(
  n: number,
  { periodic = true, ...options }: WindowOptions,
  shape: (share: number) => number,
): Tensor {
  const period = periodic ? n : n - 1;
  const values = Float64Array.from({ length: n }, (_, k) => n === 1 ? 1 : shape(k / period));
  return Tensor.fromHost(values, { dtype: "float32", ...options });
}

/** A sum of cosines of multiples of the period, with signs by turns. */
function window(op: string, terms: number[]): (n: number, options?: WindowOptions) => Tensor {
  const shape = (share: number) =>
    terms.reduce(
      (sum, term, at) => sum + (at % 2 === 0 ? term : -term) * Math.cos(2 * Math.PI * at * share),
      0,
    );
  return (n, options = {}) => {
    requireValue(op, "n", n, takes.count);
    checkOptions(op, options, rules);
    return windowOf(n, options, shape);
  };
}

/**
 * Bartlett's window, [n]: a triangle that is 0 at its ends.
 *
 * @param n Samples.
 * @param options See {@linkcode WindowOptions}.
 */
export function bartlett(n: number, options: WindowOptions = {}): Tensor {
  requireValue("bartlett", "n", n, takes.count);
  checkOptions("bartlett", options, rules);
  return windowOf(n, options, (share) => 1 - Math.abs(2 * share - 1));
}

/** Options of {@linkcode kaiser}. */
export interface KaiserOptions extends WindowOptions {
  /** The higher, the narrower is the window and the lower its side lobes; default 12. */
  beta?: number;
}

const kaiserRules: Rules<KaiserOptions> = { ...rules, beta: takes.nonNegative };

/**
 * Kaiser's window, [n].
 *
 * @param n Samples.
 * @param options See {@linkcode KaiserOptions}.
 */
export function kaiser(n: number, options: KaiserOptions = {}): Tensor {
  requireValue("kaiser", "n", n, takes.count);
  checkOptions("kaiser", options, kaiserRules);
  const { beta = 12, ...others } = options;
  const shape = (share: number) =>
    besselI0(beta * Math.sqrt(Math.max(0, 1 - (2 * share - 1) ** 2))) / besselI0(beta);
  return windowOf(n, others, shape);
}

/** The modified Bessel function of order 0, by its series. */
function besselI0(x: number): number {
  let term = 1, sum = 1;
  for (let k = 1; term > sum * 2 ** -54; k++) sum += term *= (x / (2 * k)) ** 2;
  return sum;
}

/** Hann's window, [n]: 0 at its ends. */
export const hann: (n: number, options?: WindowOptions) => Tensor = window("hann", [0.5, 0.5]);

/** Hamming's window, [n]. */
export const hamming: (n: number, options?: WindowOptions) => Tensor = window("hamming", [
  0.54,
  0.46,
]);

/** Blackman's window, [n]. */
export const blackman: (n: number, options?: WindowOptions) => Tensor = window("blackman", [
  0.42,
  0.5,
  0.08,
]);

/** Options of {@linkcode melFilters}. */
export interface MelOptions {
  /** The number of filters. */
  filters: number;
  /** Frequencies of the spectrum: half of the transform's length and 1. */
  frequencies: number;
  /** Samples a second. */
  sampleRate: number;
  /** The lowest frequency in Hz; default 0. */
  from?: number;
  /** The highest one; default: half of the sample rate. */
  to?: number;
  /** "htk" (default): 2595 log10(1 + f / 700); "slaney": linear up to 1 kHz, then logarithmic. */
  scale?: "htk" | "slaney";
  /** "slaney": each filter has one area; default: each has a peak of 1. */
  norm?: "slaney" | null;
}

const melRules: Rules<MelOptions> = {
  filters: takes.count,
  frequencies: takes.count,
  sampleRate: takes.positive,
  from: takes.nonNegative,
  to: takes.positive,
  scale: takes.oneOf("htk", "slaney"),
  norm: takes.orNull(takes.oneOf("slaney")),
};

const SLANEY_STEP = 200 / 3, SLANEY_BREAK = 1000, SLANEY_LOG = Math.log(6.4) / 27;
const melScales = {
  htk: {
    to: (f: number) => 2595 * Math.log10(1 + f / 700),
    from: (m: number) => 700 * (10 ** (m / 2595) - 1),
  },
  slaney: {
    to: (f: number) =>
      f < SLANEY_BREAK
        ? f / SLANEY_STEP
        : SLANEY_BREAK / SLANEY_STEP + Math.log(f / SLANEY_BREAK) / SLANEY_LOG,
    from: (m: number) =>
      m < SLANEY_BREAK / SLANEY_STEP
        ? m * SLANEY_STEP
        : SLANEY_BREAK * Math.exp(SLANEY_LOG * (m - SLANEY_BREAK / SLANEY_STEP)),
  },
};

/**
 * Triangles over a spectrum whose peaks lie evenly on the mel scale, as torchaudio's
 * `melscale_fbanks`: `filters.transpose(0, 1).matmul(power)` is a mel spectrogram.
 *
 * @param options See {@linkcode MelOptions}.
 * @returns Weights [frequencies, filters].
 */
export function melFilters(options: MelOptions): Tensor {
  const op = "make mel filters";
  checkOptions(op, options, melRules, ["filters", "frequencies", "sampleRate"]);
  const { filters, frequencies, sampleRate, from = 0, to = sampleRate / 2 } = options;
  const { scale = "htk", norm = null } = options, mel = melScales[scale];
  const [low, high] = [mel.to(from), mel.to(to)];
  const corners = Array.from(
    { length: filters + 2 },
    (_, k) => mel.from(low + (high - low) * k / (filters + 1)),
  );
  const weights = new Float64Array(frequencies * filters);
  for (let f = 0; f < frequencies; f++) {
    const frequency = frequencies === 1 ? 0 : sampleRate / 2 * f / (frequencies - 1);
    for (let k = 0; k < filters; k++) {
      const [a, b, c] = [corners[k]!, corners[k + 1]!, corners[k + 2]!];
      const height = Math.max(0, Math.min((frequency - a) / (b - a), (c - frequency) / (c - b)));
      weights[f * filters + k] = norm === null ? height : 2 * height / (c - a);
    }
  }
  return Tensor.fromHost(weights, { shape: [frequencies, filters], dtype: "float32" });
}
