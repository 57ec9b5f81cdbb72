/** The elementwise methods of tensors. What they compute, and their gradients, is in `ops/elementwise.ts`. */
import type { DType } from "../backend/internal.ts";
import { widened } from "./core/autocast.ts";
import { distinct } from "./core/apply.ts";
import { ReadingMethods } from "./reading_methods.ts";
import {
  binary,
  cast,
  elu,
  logicalNot,
  select,
  softplus,
  type TensorLike,
  unary,
} from "./ops/elementwise.ts";
import { hardswish, prelu } from "./ops/activations.ts";
import type { Tensor } from "./tensor.ts";

const SQRT_HALF = Math.SQRT1_2;
const SQRT_TWO_OVER_PI = Math.sqrt(2 / Math.PI);

/**
 * Arithmetic, functions and comparisons, element by element. Operands broadcast by NumPy's rules and
 * meet in the type that PyTorch would choose; a shape or type that does not fit is an error.
 */
export abstract class ElementwiseMethods extends ReadingMethods {
  #self(): Tensor {
    return this as unknown as Tensor;
  }

  // ---- of one tensor

  /** The negative. */
  neg(): Tensor {
    return unary("neg", this.#self());
  }

  /** The absolute value. */
  abs(): Tensor {
    return unary("abs", this.#self());
  }

  /** -1, 0 or 1; NaN for NaN. */
  sign(): Tensor {
    return unary("sign", this.#self());
  }

  /** `e ** x`. */
  exp(): Tensor {
    return unary("exp", this.#self());
  }

  /** `2 ** x`. */
  exp2(): Tensor {
    return unary("exp2", this.#self());
  }

  /** `e ** x - 1`, exact for small `x`. */
  expm1(): Tensor {
    return unary("expm1", this.#self());
  }

  /** The natural logarithm. */
  log(): Tensor {
    return unary("log", this.#self());
  }

  /** The logarithm to base 2. */
  log2(): Tensor {
    return unary("log2", this.#self());
  }

  /** The logarithm to base 10. */
  log10(): Tensor {
    return unary("log10", this.#self());
  }

  /** `log(1 + x)`, exact for small `x`. */
  log1p(): Tensor {
    return unary("log1p", this.#self());
  }

  /** The square root. */
  sqrt(): Tensor {
    return unary("sqrt", this.#self());
  }

  /** `1 / sqrt(x)`. */
  rsqrt(): Tensor {
    return unary("rsqrt", this.#self());
  }

  /** `1 / x`. */
  reciprocal(): Tensor {
    return unary("reciprocal", this.#self());
  }

  /** The sine; `x` in radians. */
  sin(): Tensor {
    return unary("sin", this.#self());
  }

  /** The cosine; `x` in radians. */
  cos(): Tensor {
    return unary("cos", this.#self());
  }

  /** The tangent; `x` in radians. */
  tan(): Tensor {
    return unary("tan", this.#self());
  }

  /** The inverse sine, in radians. */
  asin(): Tensor {
    return unary("asin", this.#self());
  }

  /** The inverse cosine, in radians. */
  acos(): Tensor {
    return unary("acos", this.#self());
  }

  /** The inverse tangent, in radians. */
  atan(): Tensor {
    return unary("atan", this.#self());
  }

  /** The hyperbolic sine. */
  sinh(): Tensor {
    return unary("sinh", this.#self());
  }

  /** The hyperbolic cosine. */
  cosh(): Tensor {
    return unary("cosh", this.#self());
  }

  /** The hyperbolic tangent. */
  tanh(): Tensor {
    return unary("tanh", this.#self());
  }

  /** The inverse hyperbolic sine. */
  asinh(): Tensor {
    return unary("asinh", this.#self());
  }

  /** The inverse hyperbolic cosine. */
  acosh(): Tensor {
    return unary("acosh", this.#self());
  }

  /** The inverse hyperbolic tangent. */
  atanh(): Tensor {
    return unary("atanh", this.#self());
  }

  /** The error function. */
  erf(): Tensor {
    return unary("erf", this.#self());
  }

  /** `1 - erf(x)`, exact also where it is small. */
  erfc(): Tensor {
    return unary("erfc", this.#self());
  }

  /** The part behind the point, with the sign of `x`. */
  frac(): Tensor {
    return this.sub(this.trunc());
  }

  /** `this + weight * (end - this)`: this at weight 0, `end` at 1, from whichever is nearer. */
  lerp(end: Tensor, weight: TensorLike): Tensor {
    const x = this.#self();
    const fromStart = (): Tensor => x.add(end.sub(x).mul(weight));
    const fromEnd = (): Tensor =>
      end.sub(end.sub(x).mul(typeof weight === "number" ? 1 - weight : weight.neg().add(1)));
    if (typeof weight === "number") return Math.abs(weight) < 0.5 ? fromStart() : fromEnd();
    return weight.abs().lt(0.5).where(fromStart(), fromEnd());
  }

  /** `log(sigmoid(x))`, without overflow. */
  logSigmoid(): Tensor {
    return this.neg().softplus().neg();
  }

  /** `1 / (1 + exp(-x))`. */
  sigmoid(): Tensor {
    return unary("sigmoid", this.#self());
  }

  /** The next whole number below; no gradient. */
  floor(): Tensor {
    return unary("floor", this.#self());
  }

  /** The next whole number above; no gradient. */
  ceil(): Tensor {
    return unary("ceil", this.#self());
  }

  /** The nearest whole number, halves to even; no gradient. */
  round(): Tensor {
    return unary("round", this.#self());
  }

  /** The whole part; no gradient. */
  trunc(): Tensor {
    return unary("trunc", this.#self());
  }

  /** True where the element is NaN. */
  isNaN(): Tensor {
    return unary("isNaN", this.#self());
  }

  /** True where the element is infinite. */
  isInf(): Tensor {
    return unary("isInf", this.#self());
  }

  /** True where the element is neither infinite nor NaN. */
  isFinite(): Tensor {
    return this.isNaN().logicalOr(this.isInf()).logicalNot();
  }

  /** True where the element is zero. */
  logicalNot(): Tensor {
    return logicalNot(this.#self());
  }

  /** `x * x`. */
  square(): Tensor {
    return this.mul(this.#self());
  }

  // ---- activations

  /** `max(x, 0)`; NaN stays. */
  relu(): Tensor {
    return binary("relu", this.#self(), 0);
  }

  /** `x` where positive, else `slope * x`. */
  leakyRelu(slope = 0.01): Tensor {
    return this.gt(0).where(this.#self(), this.mul(slope));
  }

  /** `x` where positive, else `alpha * (exp(x) - 1)`. */
  elu(alpha = 1): Tensor {
    return elu(this.#self(), alpha);
  }

  /**
   * The Gaussian error linear unit, `x * P(X <= x)`.
   *
   * @param approximate "none" by the error function, "tanh" by the usual approximation (D. Hendrycks,
   * K. Gimpel, Gaussian Error Linear Units, 2016).
   */
  gelu(approximate: "none" | "tanh" = "none"): Tensor {
    const x = this.#self();
    if (approximate === "none") return x.mul(0.5).mul(x.mul(SQRT_HALF).erf().add(1));
    if (approximate !== "tanh") {
      throw new TypeError(`Cannot gelu by "${approximate}": write "none" or "tanh"`);
    }
    const inner = x.mul(x.mul(x).mul(0.044715).add(1)).mul(SQRT_TWO_OVER_PI);
    return x.mul(0.5).mul(inner.tanh().add(1));
  }

  /** `x * sigmoid(x)`. */
  silu(): Tensor {
    return this.mul(this.sigmoid());
  }

  /** `x * clamp(x + 3, 0, 6) / 6` (A. Howard et al., Searching for MobileNetV3, 2019). */
  hardswish(): Tensor {
    return hardswish(this.#self());
  }

  /** `clamp(x + 3, 0, 6) / 6`. */
  hardsigmoid(): Tensor {
    return this.div(6).add(0.5).clamp(0, 1);
  }

  /** `x * tanh(log(1 + exp(x)))` (D. Misra, Mish, 2019). */
  mish(): Tensor {
    return this.mul(softplus(this.#self()).tanh());
  }

  /**
   * `x` where positive, else `weight * x`, with a weight that is learned: one number, or one for each
   * channel of (N, C, ...).
   *
   * @throws {ShapeError} When the weight has neither one element nor one for each channel.
   */
  prelu(weight: Tensor): Tensor {
    return prelu(this.#self(), weight);
  }

  /** `log(1 + exp(x))`, without overflow. */
  softplus(): Tensor {
    return softplus(this.#self());
  }

  // ---- of two tensors, or a tensor and a number

  /** `a + b`; of truth values, or. */
  add(b: TensorLike): Tensor {
    return binary("add", this.#self(), b);
  }

  /** `a - b`. */
  sub(b: TensorLike): Tensor {
    return binary("sub", this.#self(), b);
  }

  /** `a * b`; of truth values, and. */
  mul(b: TensorLike): Tensor {
    return binary("mul", this.#self(), b);
  }

  /** `a / b`; of integers in float32, as in PyTorch. See {@linkcode ElementwiseMethods.floorDivide}. */
  div(b: TensorLike): Tensor {
    return binary("div", this.#self(), b);
  }

  /** `a ** b`; of integers whole, and 0 where `b` is negative and `a` is not 1 or -1. */
  pow(b: TensorLike): Tensor {
    if (b === 0.5 || b === -0.5) {
      const x = widened(this.#self());
      return b > 0 ? x.sqrt() : x.rsqrt();
    }
    return binary("pow", this.#self(), b);
  }

  /** The larger of both; NaN wins. */
  maximum(b: TensorLike): Tensor {
    return binary("maximum", this.#self(), b);
  }

  /** The smaller of both; NaN wins. */
  minimum(b: TensorLike): Tensor {
    return binary("minimum", this.#self(), b);
  }

  /** The remainder with the sign of `b`, as Python's `%`; 0 for integers divided by 0. */
  remainder(b: TensorLike): Tensor {
    return binary("remainder", this.#self(), b);
  }

  /** The quotient rounded down; 0 for integers divided by 0. */
  floorDivide(b: TensorLike): Tensor {
    return binary("floorDivide", this.#self(), b);
  }

  /** The angle of the point (b, a), in radians. */
  atan2(b: TensorLike): Tensor {
    return binary("atan2", this.#self(), b);
  }

  /** True where equal. */
  eq(b: TensorLike): Tensor {
    return binary("eq", this.#self(), b);
  }

  /** True where different. */
  ne(b: TensorLike): Tensor {
    return binary("ne", this.#self(), b);
  }

  /** True where `a < b`. */
  lt(b: TensorLike): Tensor {
    return binary("lt", this.#self(), b);
  }

  /** True where `a <= b`. */
  le(b: TensorLike): Tensor {
    return binary("le", this.#self(), b);
  }

  /** True where `a > b`. */
  gt(b: TensorLike): Tensor {
    return binary("gt", this.#self(), b);
  }

  /** True where `a >= b`. */
  ge(b: TensorLike): Tensor {
    return binary("ge", this.#self(), b);
  }

  /** True where both are not zero. */
  logicalAnd(b: TensorLike): Tensor {
    return binary("logicalAnd", this.#self(), b);
  }

  /** True where one is not zero. */
  logicalOr(b: TensorLike): Tensor {
    return binary("logicalOr", this.#self(), b);
  }

  /** True where exactly one is not zero. */
  logicalXor(b: TensorLike): Tensor {
    return binary("logicalXor", this.#self(), b);
  }

  /**
   * `a` where this tensor of truth values is true, else `b`.
   *
   * @throws {DTypeError} When this tensor is not bool.
   */
  where(a: TensorLike, b: TensorLike): Tensor {
    return select(this.#self(), a, b);
  }

  /**
   * `value` where the mask is true, else this tensor's element.
   *
   * @param mask Truth values that broadcast with this tensor.
   * @param value What takes the place.
   * @throws {DTypeError} When the mask is not bool.
   *
   * @example Attention that does not look ahead
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const ahead = Tensor.ones([2, 2]).triu(1).ne(0);
   * const scores = Tensor.zeros([2, 2]).maskedFill(ahead, -Infinity).softmax();
   * assertEquals(await scores.toArray(), [[1, 0], [0.5, 0.5]]);
   * ```
   */
  maskedFill(mask: Tensor, value: TensorLike): Tensor {
    return select(mask, value, this.#self());
  }

  /** At least `min`, at most `max`, either of which may be left out; NaN stays. */
  clamp(min?: number, max?: number): Tensor {
    const low = min === undefined ? this.#self() : binary("clampMin", this.#self(), min);
    const out = max === undefined ? low : binary("clampMax", low, max);
    return distinct("clamp", this.#self(), out);
  }

  /**
   * The elements in another type: floats to integers towards zero (beyond the range the nearest, NaN
   * is 0), numbers to bool by `!= 0`, floats to shorter ones to the nearest, ties to even. Gradients go
   * through casts between floating types. Half types are computed in float32: what is computed on the
   * way to a stored value is rounded by casts only.
   *
   * @returns This tensor itself where it has that type already.
   * @throws {DTypeError} When there is no such type.
   */
  cast(dtype: DType): Tensor {
    return cast(this.#self(), dtype);
  }
}
