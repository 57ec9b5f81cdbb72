/**
 * Slopes of gamma and beta numbers by their parameters, with the share below each held: the implicit
 * reparametrisation of M. Figurnov et al. (2018). A slope is `-dF/da / density`, F the distribution function;
 * powers and exponentials cancel in it, and what is left are the factors of F in `incomplete_gamma.ts` and
 * `incomplete_beta.ts` with their derivatives, which have one sign on either side.
 */
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import type { Tensor } from "../../core/mod.ts";
import { callElementKernel, elementKernel } from "./element_kernel.ts";

/** Declares `found`: `log(s) - psi(s)` of a positive `s` by 5.11.2, with `z` and `gap` of its own. */
function logMinusDigamma(s: string, found: string): string {
  return `
    T ${found} = 0;
    {
      T z = ${s};
      T gap = 0;
      while (z < 12) {
        gap += 1 / z;
        z += 1;
      }
      const T w = 1 / (z * z);
      ${found} = log(${s} / z) + gap + 1 / (2 * z)
        + w * ((T)1 / 12 - w * ((T)1 / 120 - w * ((T)1 / 252 - w * ((T)1 / 240 - w / 132))));
    }`;
}

/** Declares `found`: the logarithm of `x / s`; near 1 by its series, which keeps the digits of the distance. */
function logRatio(x: string, s: string, found: string): string {
  return `
    T ${found} = log(${x} / ${s});
    {
      const T r = (${x} - ${s}) / (${x} + ${s});
      if (fabs(r) < (T)1 / 4) {
        T power = 2 * r;
        ${found} = power;
        for (int k = 1; k < 14; k++) {
          power *= r * r;
          ${found} += power / (2 * k + 1);
        }
      }
    }`;
}

/** Above this the normal form of the distribution has all digits, and series would take too many terms. */
const MANY = 100_000_000;

/** Below `a + 1` by the series of the lower function, above it by the continued fraction of the upper one. */
const gammaKernel = elementKernel({
  name: "gamma_slope",
  inputs: { a: 1, x: 1 },
  outputs: ["slope"],
  numbers: [],
  text: `
    const T s = a[i];
    const T v = x[i];
    T found = 0;
    if (!(s > 0) || !(v >= 0)) {
      found = (s - s) / (s - s);
    } else if (s > ${MANY}) {
      found = 1 + (v - s) / (2 * s);
    } else if (v / s > 0) {
      ${logMinusDigamma("s", "bend")}
      ${logRatio("v", "s", "ratio")}
      const T mean = ratio + bend;
      if (v <= s + 1) {
        T term = 1;
        T sum = 1;
        T shares = 0;
        T slopes = 0;
        for (int k = 1; k < 100000 && term > EPS * sum / 4; k++) {
          term *= v / (s + k);
          shares += 1 / (s + k);
          sum += term;
          slopes += term * shares;
        }
        found = v / s * (slopes - sum * (mean - 1 / s));
      } else {
        const T tiny = EPS * EPS * EPS;
        T b = v + 1 - s;
        T c = 1 / tiny;
        T dc = 0;
        T d = 1 / b;
        T dd = d * d;
        T h = d;
        T dh = dd;
        T factor = 0;
        T change = 1;
        for (int k = 1; k < 100000 && (fabs(factor - 1) > EPS || fabs(change) > EPS * dh); k++) {
          const T term = k * (s - k);
          b += 2;
          T below = term * d + b;
          if (fabs(below) < tiny) below = tiny;
          const T dbelow = term * dd + k * d - 1;
          d = 1 / below;
          dd = -dbelow * d * d;
          const T over = 1 / c;
          dc = (k - term * dc * over) * over - 1;
          c = term * over + b;
          if (fabs(c) < tiny) c = tiny;
          factor = d * c;
          change = h * (dd * c + d * dc) + dh * (factor - 1);
          dh += change;
          h *= factor;
        }
        found = v * (h * mean + dh);
      }
    }
    slope[i] = found;
`,
});

/**
 * The slope of a beta number by `a`, over `1 - x`. The continued fraction 8.17.22 is that of the nearer end;
 * each of its terms is carried with the derivative by `a`, which is its first parameter there or its second.
 */
const betaKernel = elementKernel({
  name: "beta_slope",
  inputs: { a: 1, b: 1, x: 1 },
  outputs: ["slope"],
  numbers: [],
  text: `
    const T first = a[i];
    const T second = b[i];
    const T given = x[i];
    const T n = first + second;
    T found = 0;
    if (!(first > 0) || !(second > 0) || !(given >= 0) || !(given <= 1)) {
      found = (given - given) / (first - first);
    } else if (given * n / first > 0) {
      ${logMinusDigamma("first", "bend")}
      ${logMinusDigamma("n", "whole")}
      ${logRatio("given * n", "first", "ratio")}
      T mean = ratio + bend - whole;
      const int isFar = given * (n + 2) > first + 1;
      const T u = isFar ? second : first;
      const T v = isFar ? first : second;
      const T du = isFar ? 0 : 1;
      const T dv = 1 - du;
      const T s = isFar ? 1 - given : given;
      if (!isFar) mean -= 1 / first;
      T c = 1;
      T dc = 0;
      T d = 1 / (1 - n * s / (u + 1));
      T dd = d * d * s * (u + 1 - n * du) / ((u + 1) * (u + 1));
      T h = d;
      T dh = dd;
      T factor = 0;
      T change = 1;
      for (int k = 1; k < 10000 && (fabs(factor - 1) > EPS || fabs(change) > EPS * (fabs(dh) + EPS * h)); k++) {
        for (int part = 0; part < 2; part++) {
          const T low = u + 2 * k - (part ? 0 : 1);
          const T top = part ? -(u + k) * (n + k) : k * (v - k);
          const T dtop = part ? -(du * (n + k) + u + k) : k * dv;
          const T under = low * (low + 1);
          const T term = top * s / under;
          const T dterm = s / under * (dtop - top * du * (2 * low + 1) / under);
          const T below = 1 + term * d;
          dd = -(term * dd + dterm * d) / (below * below);
          d = 1 / below;
          const T over = 1 / c;
          dc = (dterm - term * dc * over) * over;
          c = 1 + term * over;
          factor = d * c;
          change = h * (dd * c + d * dc) + dh * (factor - 1);
          dh += change;
          h *= factor;
        }
      }
      found = (isFar ? given / second : -given / first) * (h * mean + dh);
    }
    slope[i] = found;
`,
});

/** The slope of numbers `x` of gamma distributions of scale 1 by `alpha`: PyTorch's `_standard_gamma_grad`. */
export function gammaSlope(alpha: Tensor, x: Tensor): Tensor {
  return withoutGrad(() =>
    callElementKernel("gamma", gammaKernel, [alpha.detach(), x.detach()])[0]!
  );
}

/**
 * The slope of numbers `x` of beta distributions by `a`, divided by `1 - x`: PyTorch's `_dirichlet_grad`, with
 * `b` the sum of the other concentrations.
 */
export function betaSlope(a: Tensor, b: Tensor, x: Tensor): Tensor {
  return withoutGrad(() =>
    callElementKernel("beta", betaKernel, [a.detach(), b.detach(), x.detach()])[0]!
  );
}
