/** Samplers that need loops or special functions: whole numbers, parts of distributions. */
import type { Shape } from "../../../backend/internal.ts";
import type { TensorLike, TensorOptions } from "../../core/arguments.ts";
import { requireValue, type Rules, takes } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import { drawn, gamma, open, parametersOf, plain } from "../creation/samplers.ts";
import { randn } from "../creation/random.ts";
import { full } from "../creation/sequences.ts";
import { callElementKernel, elementKernel } from "./element_kernel.ts";
import { ndtri } from "./normal.ts";
import { logPoisson } from "./poisson_text.ts";

/** Candidates of an element: each is taken with a probability of 0.8 at least. */
const ROUNDS = 12;

/** Half of the correction of Stirling's formula for `k!`. */
function tail(k: string): string {
  return `(((T)1 / 12 - ((T)1 / 360 - (T)1 / 1260 / (${k} + 1) / (${k} + 1)) / (${k} + 1) / (${k} + 1)) / (${k} + 1))`;
}

/**
 * W. Hörmann, 1993: below a mean of 10 the first number at which the distribution function passes a
 * uniform one, else transformed rejection with squeeze (PTRS).
 */
const poissonKernel = elementKernel({
  name: "poisson_numbers",
  inputs: { rate: 1, u: 2 * ROUNDS },
  outputs: ["y"],
  numbers: ["rounds"],
  text: `
    const T r = rate[i];
    T found = 0;
    if (!(r >= 0)) {
      found = (r - r) / (r - r);
    } else if (r < 10) {
      T p = exp(-r);
      T below = p;
      while (u[i * 2 * rounds] > below && (found < r || p > EPS / 16)) {
        found += 1;
        p *= r / found;
        below += p;
      }
    } else {
      const T root = sqrt(r);
      const T b = ((T)931 + 2530 * root) / 1000;
      const T a = b * 2483 / 100000 - (T)59 / 1000;
      const T alpha = (T)11239 / 10000 + (T)11328 / 10000 / (b - (T)34 / 10);
      const T quick = (T)9277 / 10000 - (T)36224 / 10000 / (b - 2);
      found = floor(r);
      for (int k = 0; k < rounds; k++) {
        const T v = u[(i * rounds + k) * 2 + 1];
        const T x = u[(i * rounds + k) * 2] - (T)1 / 2;
        const T side = (T)1 / 2 - fabs(x);
        const T c = floor((2 * a / side + b) * x + r + (T)43 / 100);
        if (side >= (T)7 / 100 && v <= quick) {
          found = c;
          break;
        }
        if (c >= 0 && (side >= (T)13 / 1000 || v <= side)) {
          ${logPoisson("c", "r", "size")}
          if (log(v * alpha / (a / (side * side) + b)) <= size) {
            found = c;
            break;
          }
        }
      }
    }
    y[i] = found;
`,
});

/** The same author's BTRS, 1993; of few expected successes as above. */
const binomialKernel = elementKernel({
  name: "binomial_numbers",
  inputs: { count: 1, probability: 1, u: 2 * ROUNDS },
  outputs: ["y"],
  numbers: ["rounds"],
  text: `
    const T n = count[i];
    const T share = probability[i];
    const T p = share > (T)1 / 2 ? 1 - share : share;
    T found = 0;
    if (!(n >= 0) || !(share >= 0) || !(share <= 1)) {
      found = (p - p) / (p - p);
    } else if (n * p < 10) {
      T size = exp(n * log(1 - p));
      T below = size;
      while (u[i * 2 * rounds] > below && found < n && (found < n * p || size > EPS / 16)) {
        size *= (n - found) / (found + 1) * (p / (1 - p));
        found += 1;
        below += size;
      }
    } else {
      const T root = sqrt(n * p * (1 - p));
      const T b = ((T)115 + 253 * root) / 100;
      const T a = ((T)248 * b + 100 * p - 873) / 10000;
      const T alpha = ((T)283 + 510 / b) / 100 * root;
      const T quick = (T)92 / 100 - (T)42 / 10 / b;
      const T odds = p / (1 - p);
      const T m = floor((n + 1) * p);
      found = m;
      for (int k = 0; k < rounds; k++) {
        const T v = u[(i * rounds + k) * 2 + 1];
        const T x = u[(i * rounds + k) * 2] - (T)1 / 2;
        const T side = (T)1 / 2 - fabs(x);
        const T c = floor((2 * a / side + b) * x + n * p + (T)1 / 2);
        if (side >= (T)7 / 100 && v <= quick) {
          found = c;
          break;
        }
        if (c >= 0 && c <= n) {
          const T bound = (m + (T)1 / 2) * log((m + 1) / (odds * (n - m + 1)))
            + (n + 1) * log((n - m + 1) / (n - c + 1))
            + (c + (T)1 / 2) * log(odds * (n - c + 1) / (c + 1))
            + ${tail("m")} + ${tail("(n - m)")} - ${tail("c")} - ${tail("(n - c)")};
          if (log(v * alpha / (a / (side * side) + b)) <= bound) {
            found = c;
            break;
          }
        }
      }
    }
    y[i] = share > (T)1 / 2 ? n - found : found;
`,
});

/** Uniform numbers for the rounds of each element, laid along a last axis. */
function rounds(shape: Shape, options: TensorOptions): Tensor {
  return open([...shape, 2 * ROUNDS], options);
}

/** See `Tensor.poisson`. */
export function poisson(rate: TensorLike, shape?: Shape, options: TensorOptions = {}): Tensor {
  const op = "draw Poisson's numbers";
  if (typeof rate === "number") requireValue(op, "rate", rate, takes.nonNegative);
  const { all, shape: wanted, wide } = parametersOf(op, [rate], shape, options);
  return drawn("poisson", wanted, all, (shape) => {
    return callElementKernel(op, poissonKernel, [...wide(shape), rounds(shape, all)], [ROUNDS])[0]!;
  });
}

/** See `Tensor.binomial`. */
export function binomial(
  count: TensorLike,
  probability: TensorLike,
  shape?: Shape,
  options: TensorOptions = {},
): Tensor {
  const op = "draw binomial numbers";
  if (typeof count === "number") requireValue(op, "count", count, takes.whole);
  if (typeof probability === "number") requireValue(op, "probability", probability, takes.share);
  const { all, shape: wanted, wide } = parametersOf(op, [count, probability], shape, options);
  return drawn("binomial", wanted, all, (shape) => {
    const inputs = [...wide(shape), rounds(shape, all)];
    return callElementKernel(op, binomialKernel, inputs, [ROUNDS])[0]!;
  });
}

/** See `Tensor.studentT`. */
export function studentT(freedom: TensorLike, shape?: Shape, options: TensorOptions = {}): Tensor {
  const op = "draw Student's numbers";
  if (typeof freedom === "number") requireValue(op, "freedom", freedom, takes.positive);
  const { all, shape: wanted, wide } = parametersOf(op, [freedom], shape, options);
  return drawn("studentT", wanted, all, (shape) => {
    const half = wide(shape)[0]!.mul(0.5);
    return randn(shape, plain(all)).div(gamma(half, shape, plain(all)).div(half).sqrt());
  });
}

const ends: Rules<{ low: number; high: number }> = {
  low: { takes: "a number below high", accepts: (v) => typeof v === "number" && v === v },
  high: { takes: "a number above low", accepts: (v) => typeof v === "number" && v === v },
};

/** See `Tensor.truncatedNormal`. */
export function truncatedNormal(
  low: number,
  high: number,
  shape: Shape,
  options: TensorOptions = {},
): Tensor {
  const op = "draw truncated normal numbers";
  requireValue(op, "low", low, ends.low);
  requireValue(op, "high", high, {
    ...ends.high,
    accepts: (v) => typeof v === "number" && v > low,
  });
  return drawn("truncatedNormal", shape, options, (shape) => {
    // In the lower half, where shares have all of their digits.
    const isAbove = low > 0, [from, to] = isAbove ? [-high, -low] : [low, high];
    const below = (x: number) => full(op, [], x, plain(options)).mul(-Math.SQRT1_2).erfc().mul(0.5);
    const first = below(from), share = open(shape, options).mul(below(to).sub(first)).add(first);
    const x = ndtri(share).clamp(from, to);
    return isAbove ? x.neg() : x;
  });
}
