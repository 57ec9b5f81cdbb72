/** Activations that few models have: functions with PyTorch's names and defaults, and the same as modules. */
import { requireTensor } from "../../core/apply.ts";
import { compute } from "../../core/operations.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { requireValue, takes } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import { normalizeAxis } from "../../ops/shaping/axes.ts";
import { Module } from "../module/module.ts";

/** Calls an operation on a tensor and numbers. */
function applied<N extends number[]>(
  name: string,
  fn: (x: Tensor, ...numbers: N) => Tensor,
  x: Tensor,
  ...numbers: N
): Tensor {
  requireTensor(name, x);
  for (const number of numbers) requireValue(name, "a parameter", number, takes.finite);
  return compute(fn, x, ...numbers);
}

const celuOf = (x: Tensor, alpha: number) =>
  x.gt(0).where(x, x.clamp(undefined, 0).div(alpha).expm1().mul(alpha));

/**
 * `x` where positive, else `alpha * (exp(x / alpha) - 1)`: smooth at 0 (J. Barron, 2017); `alpha`
 * is 1 by default.
 */
export function celu(x: Tensor, alpha = 1): Tensor {
  return applied("celu", celuOf, x, alpha);
}

/** The factor of {@linkcode selu}, and that below 0 (G. Klambauer et al., 2017). */
const [SELU_SCALE, SELU_ALPHA] = [1.0507009873554805, 1.6732632423543772];
const seluOf = (x: Tensor) =>
  x.gt(0).where(x, x.clamp(undefined, 0).expm1().mul(SELU_ALPHA)).mul(SELU_SCALE);

/**
 * The exponential unit that keeps mean 0 and variance 1 from layer to layer (G. Klambauer et al.,
 * Self-Normalizing Neural Networks, 2017).
 */
export function selu(x: Tensor): Tensor {
  return applied("selu", seluOf, x);
}

const gluOf = (x: Tensor, axis: number) => {
  const [value, gate] = x.chunk(2, axis);
  return value!.mul(gate!.sigmoid());
};

/**
 * Half of the features times the sigmoid of the others (Y. Dauphin et al., Language Modeling with
 * Gated Convolutional Networks, 2016).
 *
 * @param axis The axis that is halved; the last by default.
 * @throws {ShapeError} When its length is odd.
 */
export function glu(x: Tensor, axis = -1): Tensor {
  requireTensor("glu", x);
  const at = normalizeAxis("glu", axis, x.shape);
  if (x.shape[at]! % 2 === 0) return applied("glu", gluOf, x, at);
  throw shapeError("glu", axis)`
    Cannot glu a tensor of shape ${x.shape} along axis ${axis}: its length must be even`;
}

const between = (x: Tensor, min: number, max: number) => x.clamp(min, max);

/** `x`, at least `min` (default -1) and at most `max` (default 1). */
export function hardtanh(x: Tensor, min = -1, max = 1): Tensor {
  return applied("hardtanh", between, x, min, max);
}

/** `x`, at least 0 and at most 6. */
export function relu6(x: Tensor): Tensor {
  return hardtanh(x, 0, 6);
}

const hardshrinkOf = (x: Tensor, lambda: number) => x.abs().le(lambda).where(0, x);

/** `x`, but 0 within `lambda` of 0; `lambda` is 0.5 by default. */
export function hardshrink(x: Tensor, lambda = 0.5): Tensor {
  return applied("hardshrink", hardshrinkOf, x, lambda);
}

const softshrinkOf = (x: Tensor, lambda: number) => x.sub(x.clamp(-lambda, lambda));

/** `x` moved towards 0 by `lambda`, and 0 where it is nearer; `lambda` is 0.5 by default. */
export function softshrink(x: Tensor, lambda = 0.5): Tensor {
  requireValue("softshrink", "lambda", lambda, takes.nonNegative);
  return applied("softshrink", softshrinkOf, x, lambda);
}

const softsignOf = (x: Tensor) => x.div(x.abs().add(1));

/** `x / (1 + |x|)`. */
export function softsign(x: Tensor): Tensor {
  return applied("softsign", softsignOf, x);
}

const tanhshrinkOf = (x: Tensor) => x.sub(x.tanh());

/** `x - tanh(x)`. */
export function tanhshrink(x: Tensor): Tensor {
  return applied("tanhshrink", tanhshrinkOf, x);
}

const thresholdOf = (x: Tensor, limit: number, value: number) => x.gt(limit).where(x, value);

/** `x` where it is above `limit`, else `value`. */
export function threshold(x: Tensor, limit: number, value: number): Tensor {
  return applied("threshold", thresholdOf, x, limit, value);
}

/**
 * An activation with its parameters as a module.
 *
 * @internal
 */
export class Activation<N extends number[]> extends Module {
  readonly #apply: (x: Tensor, ...numbers: N) => Tensor;
  readonly #numbers: N;

  /** A module of a function of a tensor and numbers. */
  constructor(apply: (x: Tensor, ...numbers: N) => Tensor, ...numbers: N) {
    super();
    for (const number of numbers) {
      requireValue(`make a ${new.target.name}`, "a parameter", number, takes.finite);
    }
    this.#apply = apply;
    this.#numbers = numbers;
  }

  /** Applies it. */
  forward(x: Tensor): Tensor {
    return this.#apply(x, ...this.#numbers);
  }
}

/** {@linkcode celu} as a module. */
export class CELU extends Activation<[alpha: number]> {
  /** Makes the module; `alpha` is 1 by default. */
  constructor(alpha = 1) {
    super(celu, alpha);
  }
}

/** {@linkcode selu} as a module. */
export class SELU extends Activation<[]> {
  /** Makes the module. */
  constructor() {
    super(selu);
  }
}

/** {@linkcode glu} as a module. */
export class GLU extends Activation<[axis: number]> {
  /** Makes the module; the last axis is halved by default. */
  constructor(axis = -1) {
    super(glu, axis);
  }
}

/** {@linkcode hardtanh} as a module. */
export class Hardtanh extends Activation<[min: number, max: number]> {
  /** Makes the module; the bounds are -1 and 1 by default. */
  constructor(min = -1, max = 1) {
    super(hardtanh, min, max);
  }
}

/** {@linkcode relu6} as a module. */
export class ReLU6 extends Activation<[]> {
  /** Makes the module. */
  constructor() {
    super(relu6);
  }
}

/** {@linkcode hardshrink} as a module. */
export class Hardshrink extends Activation<[lambda: number]> {
  /** Makes the module; `lambda` is 0.5 by default. */
  constructor(lambda = 0.5) {
    super(hardshrink, lambda);
  }
}

/** {@linkcode softshrink} as a module. */
export class Softshrink extends Activation<[lambda: number]> {
  /** Makes the module; `lambda` is 0.5 by default. */
  constructor(lambda = 0.5) {
    super(softshrink, lambda);
  }
}

/** {@linkcode softsign} as a module. */
export class Softsign extends Activation<[]> {
  /** Makes the module. */
  constructor() {
    super(softsign);
  }
}

/** {@linkcode tanhshrink} as a module. */
export class Tanhshrink extends Activation<[]> {
  /** Makes the module. */
  constructor() {
    super(tanhshrink);
  }
}

/** {@linkcode threshold} as a module. */
export class Threshold extends Activation<[limit: number, value: number]> {
  /** Makes the module. */
  constructor(limit: number, value: number) {
    super(threshold, limit, value);
  }
}
