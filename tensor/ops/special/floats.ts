/** Floating point numbers by their parts: mantissas with exponents, and neighbours. */
import { result } from "../../core/apply.ts";
import type { TensorLike } from "../../core/arguments.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import { compute } from "../../core/operations.ts";
import { dtypeError } from "../../core/rules/errors.ts";
import type { Tensor } from "../../core/mod.ts";
import { floatOperands, requireFloating } from "./arguments.ts";
import { callElementKernel, elementKernel } from "./element_kernel.ts";

/** Sets `m` from 1/2 to below 1 and `e` so that the magnitude `m` was `m * 2 ** e`; halving is exact. */
const split = `
      while (m >= 65536) { m = m / 65536; e += 16; }
      while (m * 65536 < 1) { m = m * 65536; e -= 16; }
      while (m >= 1) { m = m / 2; e++; }
      while (2 * m < 1) { m = 2 * m; e--; }`;

const partsKernel = elementKernel({
  name: "float_parts",
  inputs: { x: 1 },
  outputs: ["mantissa", "exponent"],
  numbers: [],
  text: `
    T m = fabs(x[i]);
    int e = 0;
    if (m > 0 && m - m == 0) {${split}
      mantissa[i] = x[i] < 0 ? -m : m;
    } else {
      mantissa[i] = x[i];
    }
    exponent[i] = e;
`,
});

/** A step is an `EPS`-th of the power of 2 below, half of it down from a power, and never less than the least number. */
const nextKernel = elementKernel({
  name: "next_float",
  inputs: { x: 1, y: 1 },
  outputs: ["next"],
  numbers: [],
  text: `
    const T from = x[i];
    const T to = y[i];
    T m = fabs(from);
    int e = 0;
    if (from == to || from != from || to != to) {
      next[i] = from == to ? to : from + to;
    } else if (m == 0) {
      next[i] = to > 0 ? LEAST : -LEAST;
    } else if (m - m != 0) {
      next[i] = from > 0 ? LARGEST : -LARGEST;
    } else {${split}
      const int isInward = from > 0 ? to < from : to > from;
      if (isInward && 2 * m == 1) e--;
      T step = EPS;
      for (int k = 1; k < e; k++) step = 2 * step;
      for (int k = 1; k > e && step > LEAST; k--) step = step / 2;
      next[i] = to > from ? from + step : from - step;
    }
`,
});

function requireWide(op: string, x: Tensor): void {
  if (x.dtype === "float32" || x.dtype === "float64") return;
  throw dtypeError(op)`Cannot ${op} of ${x.dtype}: cast it with .cast("float32")`;
}

function partsOf(x: Tensor): { mantissa: Tensor; exponent: Tensor } {
  requireFloating("frexp", x);
  requireWide("frexp", x);
  const [m, e] = withoutGrad(() => callElementKernel("frexp", partsKernel, [x.detach()]));
  const mantissa = result("frexp", [x], m!, (g) => [g.mul(e!.neg().exp2())]);
  return { mantissa, exponent: e!.cast("int32") };
}

/**
 * Mantissas from 1/2 to below 1, with the sign, and exponents, int32: `x = mantissa * 2 ** exponent`, as
 * `torch.frexp`. 0, NaN and infinities are their own mantissas, with the exponent 0.
 *
 * @param x Numbers of float32 or float64.
 */
export function frexp(x: Tensor): { mantissa: Tensor; exponent: Tensor } {
  return compute(partsOf, x);
}

function nextOf(x: TensorLike, y: TensorLike): Tensor {
  const [from, to] = floatOperands("nextafter", x, y);
  requireWide("nextafter", from);
  return withoutGrad(() =>
    callElementKernel("nextafter", nextKernel, [from.detach(), to.detach()])[0]!
  );
}

/**
 * The next number of the type after `x` in the direction of `y`, without a gradient.
 *
 * @param x Numbers of float32 or float64.
 * @param y Numbers of the same type, which broadcast with `x`.
 */
export function nextafter(x: TensorLike, y: TensorLike): Tensor {
  return compute(nextOf, x, y);
}
