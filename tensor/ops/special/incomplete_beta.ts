/** The incomplete beta function: the shares of beta, binomial, F and Student distributions. */
import { result } from "../../core/apply.ts";
import type { TensorLike } from "../../core/arguments.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import { compute } from "../../core/operations.ts";
import type { Tensor } from "../../core/mod.ts";
import { unbroadcast } from "../elementwise/elementwise.ts";
import { floatOperands } from "./arguments.ts";
import { callElementKernel, elementKernel } from "./element_kernel.ts";
import { logBeta } from "./incomplete_gamma.ts";
import { logPoisson } from "./poisson_text.ts";

/**
 * The continued fraction 8.17.22 by the method of W. Lentz, from the nearer end. The power before it is a
 * quotient of Poisson's probabilities, as C. Loader writes binomial ones (2000): no logarithms of large
 * gamma functions are subtracted.
 */
const kernel = elementKernel({
  name: "incomplete_beta",
  inputs: { a: 1, b: 1, x: 1 },
  outputs: ["p"],
  numbers: [],
  text: `
    const T given = x[i];
    if (!(a[i] > 0) || !(b[i] > 0) || !(given >= 0) || !(given <= 1)) {
      p[i] = (given - given) / (a[i] - a[i]);
    } else if (given == 0 || given == 1) {
      p[i] = given;
    } else {
      const int isFar = given * (a[i] + b[i] + 2) > a[i] + 1;
      const T u = isFar ? b[i] : a[i];
      const T v = isFar ? a[i] : b[i];
      const T n = u + v;
      const T s = isFar ? 1 - given : given;
      const T rest = isFar ? given : 1 - given;
      T size = log(u * v / n);
      {
        ${logPoisson("u", "n * s", "first")}
        size += first;
      }
      {
        ${logPoisson("v", "n * rest", "second")}
        size += second;
      }
      {
        ${logPoisson("n", "n", "both")}
        size -= both;
      }
      const T tiny = EPS * EPS * EPS;
      T c = 1;
      T d = 1 - n * s / (u + 1);
      if (fabs(d) < tiny) d = tiny;
      d = 1 / d;
      T h = d;
      T factor = 0;
      for (int k = 1; k < 10000 && fabs(factor - 1) > EPS; k++) {
        const T even = k * (v - k) * s / ((u + 2 * k - 1) * (u + 2 * k));
        d = 1 + even * d;
        if (fabs(d) < tiny) d = tiny;
        c = 1 + even / c;
        if (fabs(c) < tiny) c = tiny;
        d = 1 / d;
        h *= d * c;
        const T odd = -(u + k) * (n + k) * s / ((u + 2 * k) * (u + 2 * k + 1));
        d = 1 + odd * d;
        if (fabs(d) < tiny) d = tiny;
        c = 1 + odd / c;
        if (fabs(c) < tiny) c = tiny;
        d = 1 / d;
        factor = d * c;
        h *= factor;
      }
      const T share = exp(size) * h / u;
      p[i] = isFar ? 1 - share : share;
    }
`,
});

function incompleteOf(a: TensorLike, b: TensorLike, x: TensorLike): Tensor {
  const [left, right, at] = floatOperands("betainc", a, b, x);
  if (left.requiresGrad || right.requiresGrad) {
    throw new Error(
      "Cannot compute betainc with a gradient of its first two arguments: none is known; detach() them",
    );
  }
  const value = withoutGrad(() =>
    callElementKernel("betainc", kernel, [left, right, at.detach()])[0]!
  );
  return result("betainc", [at], value, (g) => {
    const below = left.sub(1).xlogy(at), above = right.sub(1).xlogy(at.neg().add(1));
    return [unbroadcast(g.mul(below.add(above).sub(logBeta(left, right)).exp()), at.shape)];
  });
}

/**
 * The regularized incomplete beta function I_x(a, b), from 0 at 0 to 1 at 1: SciPy's `betainc`. Gradients go
 * to `x`.
 *
 * @param a Positive numbers.
 * @param b Positive numbers.
 * @param x Numbers from 0 to 1; all three broadcast. Others give NaN.
 * @example The share of Student's distribution of 4 degrees below 2
 * ```ts
 * import { special, Tensor } from "@netcl/netcl";
 *
 * const tail = special.betainc(2, 0.5, Tensor.fromHost(4 / (4 + 2 ** 2))).div(2);
 * console.assert(Math.abs(1 - await tail.item() - 0.9419) < 1e-4);
 * ```
 */
export function betainc(a: TensorLike, b: TensorLike, x: TensorLike): Tensor {
  return compute(incompleteOf, a, b, x);
}
