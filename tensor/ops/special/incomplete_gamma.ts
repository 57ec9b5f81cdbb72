/** The incomplete gamma functions, and what else is made of gamma functions. */
import { result } from "../../core/apply.ts";
import type { TensorLike } from "../../core/arguments.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import { compute } from "../../core/operations.ts";
import type { Rule } from "../../../ffi/host/option_rules.ts";
import { requireValue, takes } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import { unbroadcast } from "../elementwise/elementwise.ts";
import { inFloat, withSlope, zeta as zetaOf } from "../elementwise/series.ts";
import { lgamma } from "../elementwise/special.ts";
import { floatOperands, requireFloating } from "./arguments.ts";
import { callElementKernel, elementKernel } from "./element_kernel.ts";
import { logPoisson } from "./poisson_text.ts";

/** 8.11.4 below `a + 1`, above it the continued fraction 8.9.2 by the method of W. Lentz. */
const kernel = elementKernel({
  name: "incomplete_gamma",
  inputs: { a: 1, x: 1 },
  outputs: ["p", "q"],
  numbers: [],
  text: `
    const T s = a[i];
    const T v = x[i];
    const T top = 1 / EPS / EPS / EPS;
    if (!(s >= 0) || !(v >= 0) || (s == 0 && v == 0) || (s > top && v > top)) {
      p[i] = (s - s) / (s - s);
      q[i] = p[i];
    } else if (v == 0 || s > top) {
      p[i] = 0;
      q[i] = 1;
    } else if (s == 0 || v > top) {
      p[i] = 1;
      q[i] = 0;
    } else {
      ${logPoisson("s", "v", "size")}
      if (v <= s + 1) {
        T term = 1;
        T sum = 1;
        for (int k = 1; k < 100000 && term > EPS * sum / 4; k++) {
          term *= v / (s + k);
          sum += term;
        }
        p[i] = fmin(1, sum * exp(size));
        q[i] = 1 - p[i];
      } else {
        const T tiny = EPS * EPS * EPS;
        T b = v + 1 - s;
        T c = 1 / tiny;
        T d = 1 / b;
        T h = d;
        T factor = 0;
        for (int k = 1; k < 100000 && fabs(factor - 1) > EPS; k++) {
          const T term = k * (s - k);
          b += 2;
          d = term * d + b;
          if (fabs(d) < tiny) d = tiny;
          c = b + term / c;
          if (fabs(c) < tiny) c = tiny;
          d = 1 / d;
          factor = d * c;
          h *= factor;
        }
        q[i] = s * h * exp(size);
        p[i] = 1 - q[i];
      }
    }
`,
});

function incomplete(name: "gammainc" | "gammaincc", a: Tensor, x: Tensor): Tensor {
  const part = name === "gammainc" ? 0 : 1;
  const value = withoutGrad(() => callElementKernel(name, kernel, [a.detach(), x.detach()])[part]!);
  return result(name, [x], value, (g) => {
    // 8.8.13
    const slope = a.sub(1).xlogy(x).sub(x).sub(lgamma(a)).exp();
    const all = g.mul(part === 0 ? slope : slope.neg());
    return [unbroadcast(all, x.shape)];
  });
}

function incompleteOf(name: "gammainc" | "gammaincc", a: TensorLike, x: TensorLike): Tensor {
  const [left, right] = floatOperands(name, a, x);
  if (!left.requiresGrad) return incomplete(name, left, right);
  throw new Error(
    `Cannot compute ${name} with a gradient of its first argument: none is known, as in PyTorch; detach() it`,
  );
}

/**
 * The regularized lower incomplete gamma function P(a, x), from 0 at 0 to 1; NaN for negative numbers.
 * Gradients go to `x`.
 *
 * @param a Numbers of at least 0.
 * @param x Numbers of at least 0, which broadcast with `a`.
 * @example The share of Poisson's numbers above 2 at a mean of 1
 * ```ts
 * import { special, Tensor } from "@netcl/netcl";
 *
 * console.assert(Math.abs(await special.gammainc(3, Tensor.ones([])).item() - 0.0803) < 1e-4);
 * ```
 */
export function gammainc(a: TensorLike, x: TensorLike): Tensor {
  return compute(incompleteOf, "gammainc", a, x);
}

/**
 * The regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), with the digits of small ones.
 *
 * @param a Numbers of at least 0.
 * @param x Numbers of at least 0, which broadcast with `a`.
 */
export function gammaincc(a: TensorLike, x: TensorLike): Tensor {
  return compute(incompleteOf, "gammaincc", a, x);
}

function logBetaOf(a: TensorLike, b: TensorLike): Tensor {
  const [x, y] = floatOperands("logBeta", a, b);
  return lgamma(x).add(lgamma(y)).sub(lgamma(x.add(y)));
}

/** The logarithm of the beta function of positive numbers: SciPy's `betaln`. */
export function logBeta(a: TensorLike, b: TensorLike): Tensor {
  return compute(logBetaOf, a, b);
}

function betaOf(a: TensorLike, b: TensorLike): Tensor {
  return logBetaOf(a, b).exp();
}

/** The beta function of positive numbers, gamma(a) gamma(b) / gamma(a + b). */
export function beta(a: TensorLike, b: TensorLike): Tensor {
  return compute(betaOf, a, b);
}

function multigammalnOf(x: Tensor, dimension: number): Tensor {
  requireFloating("multigammaln", x);
  requireValue("multigammaln", "dimension", dimension, takes.count);
  let sum = lgamma(x);
  for (let k = 1; k < dimension; k++) sum = sum.add(lgamma(x.sub(k / 2)));
  return sum.add(dimension * (dimension - 1) / 4 * Math.log(Math.PI));
}

/**
 * The logarithm of the multivariate gamma function.
 *
 * @param x Numbers above (dimension - 1) / 2.
 * @param dimension How many dimensions.
 */
export function multigammaln(x: Tensor, dimension: number): Tensor {
  return compute(multigammalnOf, x, dimension);
}

/** Larger ones are no numbers of float32. */
const MAX_EXPONENT = 1e30;
const exponents: Rule = {
  takes: `a number above 1, at most ${MAX_EXPONENT}`,
  accepts: (v) => typeof v === "number" && v > 1 && v <= MAX_EXPONENT,
};

function hurwitz(s: number, x: Tensor): Tensor {
  requireFloating("zeta", x);
  requireValue("zeta", "s", s, exponents);
  return withSlope("zeta", x, (x) => zetaOf(s, x), (x) => hurwitz(s + 1, x).mul(-s));
}

/**
 * The zeta function of Hurwitz: the sum of `(x + k) ** -s` over k = 0, 1, ...
 *
 * @param s A number above 1.
 * @param x Positive numbers; 1 gives the zeta function of Riemann.
 */
export function zeta(s: number, x: Tensor): Tensor {
  return compute(hurwitz, s, x);
}

function entropyOf(x: Tensor): Tensor {
  requireFloating("entr", x);
  return inFloat(x, (x) => x.lt(0).where(-Infinity, x.xlogy(x).neg()));
}

/** `-x log(x)`, 0 at 0, of negative numbers -Infinity: what sums to an entropy. */
export function entr(x: Tensor): Tensor {
  return compute(entropyOf, x);
}
