/** Activations as modules, for use in `Sequential`. */
import { Tensor } from "../../class/tensor.ts";
import { inputOf } from "../module/input.ts";
import { Module } from "../module/module.ts";
import { parameter } from "../module/parameter.ts";
import { requireValue, takes } from "../../core/rules/options.ts";

/** `max(x, 0)`. */
export class ReLU extends Module {
  /** Applies it element by element. */
  forward(x: Tensor): Tensor {
    return inputOf(this, x).relu();
  }
}

/** `x` where positive, else `slope * x`. */
export class LeakyReLU extends Module {
  /**
   * Makes the layer.
   *
   * @param slope The slope below 0; default 0.01.
   */
  constructor(readonly slope = 0.01) {
    super();
    requireValue("make a LeakyReLU", "slope", slope, takes.finite);
  }

  /** Applies it element by element. */
  forward(x: Tensor): Tensor {
    return inputOf(this, x).leakyRelu(this.slope);
  }
}

/** `x` where positive, else `alpha * (exp(x) - 1)`. */
export class ELU extends Module {
  /**
   * Makes the layer.
   *
   * @param alpha Minus the limit at negative infinity; default 1.
   */
  constructor(readonly alpha = 1) {
    super();
    requireValue("make an ELU", "alpha", alpha, takes.finite);
  }

  /** Applies it element by element. */
  forward(x: Tensor): Tensor {
    return inputOf(this, x).elu(this.alpha);
  }
}

/**
 * The Gaussian error linear unit, `x * P(X <= x)` of a normal X (D. Hendrycks, K. Gimpel, Gaussian
 * Error Linear Units, 2016).
 */
export class GELU extends Module {
  /**
   * Makes the layer.
   *
   * @param approximate "none" (default) by the error function, "tanh" by the usual approximation.
   */
  constructor(readonly approximate: "none" | "tanh" = "none") {
    super();
    requireValue("make a GELU", "approximate", approximate, takes.oneOf("none", "tanh"));
  }

  /** Applies it element by element. */
  forward(x: Tensor): Tensor {
    return inputOf(this, x).gelu(this.approximate);
  }
}

/** `x * sigmoid(x)` (D. Hendrycks, K. Gimpel, 2016). */
export class SiLU extends Module {
  /** Applies it element by element. */
  forward(x: Tensor): Tensor {
    return inputOf(this, x).silu();
  }
}

/** `x * clamp(x + 3, 0, 6) / 6` (A. Howard et al., Searching for MobileNetV3, 2019). */
export class Hardswish extends Module {
  /** Applies it element by element. */
  forward(x: Tensor): Tensor {
    return inputOf(this, x).hardswish();
  }
}

/** `clamp(x + 3, 0, 6) / 6`. */
export class Hardsigmoid extends Module {
  /** Applies it element by element. */
  forward(x: Tensor): Tensor {
    return inputOf(this, x).hardsigmoid();
  }
}

/** `x * tanh(softplus(x))` (D. Misra, Mish, 2019). */
export class Mish extends Module {
  /** Applies it element by element. */
  forward(x: Tensor): Tensor {
    return inputOf(this, x).mish();
  }
}

/**
 * `x` where positive, else `weight * x` (K. He et al., Delving Deep into Rectifiers, 2015).
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const layer = new nn.PReLU();
 * assertEquals(await layer.forward(Tensor.fromHost([-4, 2])).toArray(), [-1, 2]);
 * ```
 */
export class PReLU extends Module {
  /** (count). */
  weight: Tensor;

  /**
   * Makes the layer.
   *
   * @param count 1 (default), or the number of channels on axis 1.
   * @param init The slope below 0 at first; default 0.25.
   */
  constructor(count = 1, init = 0.25) {
    super();
    requireValue("make a PReLU", "count", count, takes.count);
    requireValue("make a PReLU", "init", init, takes.finite);
    this.weight = parameter(Tensor.full([count], init));
  }

  /**
   * Applies it element by element.
   *
   * @throws {ShapeError} When the channels are others.
   */
  forward(x: Tensor): Tensor {
    return inputOf(this, x).prelu(this.weight);
  }
}

/** `log(1 + exp(x))`. */
export class Softplus extends Module {
  /** Applies it element by element. */
  forward(x: Tensor): Tensor {
    return inputOf(this, x).softplus();
  }
}

/** The hyperbolic tangent. */
export class Tanh extends Module {
  /** Applies it element by element. */
  forward(x: Tensor): Tensor {
    return inputOf(this, x).tanh();
  }
}

/** `1 / (1 + exp(-x))`. */
export class Sigmoid extends Module {
  /** Applies it element by element. */
  forward(x: Tensor): Tensor {
    return inputOf(this, x).sigmoid();
  }
}

/** `exp(x) / sum(exp(x))` along an axis. */
export class Softmax extends Module {
  /**
   * Makes the layer.
   *
   * @param axis The axis that sums to 1; default the last.
   */
  constructor(readonly axis: number = -1) {
    super();
    requireValue("make a Softmax", "axis", axis, takes.integer);
  }

  /** Applies it along the axis. */
  forward(x: Tensor): Tensor {
    return inputOf(this, x).softmax(this.axis);
  }
}

/** `x - log(sum(exp(x)))` along an axis: the logarithm of {@linkcode Softmax}. */
export class LogSoftmax extends Module {
  /**
   * Makes the layer.
   *
   * @param axis The axis whose exponentials sum to 1; default the last.
   */
  constructor(readonly axis: number = -1) {
    super();
    requireValue("make a LogSoftmax", "axis", axis, takes.integer);
  }

  /** Applies it along the axis. */
  forward(x: Tensor): Tensor {
    return inputOf(this, x).logSoftmax(this.axis);
  }
}

/** Returns its input. */
export class Identity extends Module {
  /** The same tensor. */
  forward(x: Tensor): Tensor {
    return x;
  }
}
