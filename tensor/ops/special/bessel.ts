/** Modified Bessel functions of the first kind. */
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import { compute } from "../../core/operations.ts";
import type { Tensor } from "../../core/mod.ts";
import { withSlope } from "../elementwise/series.ts";
import { requireFloating } from "./arguments.ts";
import { callElementKernel, elementKernel } from "./element_kernel.ts";

/** The power series 10.25.2, whose terms are all positive; for large numbers the asymptotic one, 10.40.1. */
const kernel = elementKernel({
  name: "modified_bessel",
  inputs: { x: 1 },
  outputs: ["y"],
  numbers: ["order", "scaled"],
  text: `
    const T v = fabs(x[i]);
    T sum = 1;
    T term = 1;
    T log_size = 0;
    if (v < 25) {
      if (order == 1) {
        term = v / 2;
        sum = term;
      }
      for (int k = 1; k < 200 && term > EPS * sum / 4; k++) {
        term *= v * v / (4 * k * (k + order));
        sum += term;
      }
      log_size = scaled == 1 ? -v : 0;
    } else {
      const T m = 4 * order;
      for (int k = 1; k < 60 && fabs(term) > EPS * sum / 4; k++) {
        term *= ((2 * k - 1) * (2 * k - 1) - m) / (8 * k * v);
        sum += term;
      }
      sum /= sqrt(2 * PI * v);
      log_size = scaled == 1 ? 0 : v;
    }
    const T size = v > 1 / EPS && scaled == 0 ? exp(v) : sum * exp(log_size);
    y[i] = order == 1 && x[i] < 0 ? -size : size;
`,
});

function bessel(name: string, x: Tensor, order: 0 | 1, scaled: boolean): Tensor {
  requireFloating(name, x);
  const value = (x: Tensor) =>
    withoutGrad(() => callElementKernel(name, kernel, [x], [order, +scaled])[0]!);
  return withSlope(name, x, value, (x, y) => {
    const other = bessel(name, x, order === 0 ? 1 : 0, scaled);
    const scale = scaled ? y.mul(x.sign()) : null;
    const isZero = x.eq(0);
    const slope = order === 0 ? other : other.sub(isZero.where(0.5, y.div(isZero.where(1, x))));
    return scale === null ? slope : slope.sub(scale);
  });
}

/**
 * The modified Bessel function of order 0.
 *
 * @example
 * ```ts
 * import { special, Tensor } from "@netcl/netcl";
 *
 * console.assert(Math.abs(await special.i0(Tensor.ones([])).item() - 1.2661) < 1e-4);
 * ```
 */
export function i0(x: Tensor): Tensor {
  return compute(bessel, "i0", x, 0, false);
}

/** The modified Bessel function of order 0 times exp(-|x|): it stays in range. */
export function i0e(x: Tensor): Tensor {
  return compute(bessel, "i0e", x, 0, true);
}

/** The modified Bessel function of order 1. */
export function i1(x: Tensor): Tensor {
  return compute(bessel, "i1", x, 1, false);
}

/** The modified Bessel function of order 1 times exp(-|x|). */
export function i1e(x: Tensor): Tensor {
  return compute(bessel, "i1e", x, 1, true);
}
