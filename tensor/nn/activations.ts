/** Activations as modules, for use in `Sequential`. */
import type { Tensor } from "../tensor.ts";
import { Module } from "./module.ts";
import { requireValue, takes } from "../options.ts";

/** `max(x, 0)`. */
export class ReLU extends Module {
  /** Applies it element by element. */
  forward(x: Tensor): Tensor {
    return x.relu();
  }
}

/** `x` where positive, else `slope * x`. */
export class LeakyReLU extends Module {
  /**
   * Makes the layer.
   *
   * @param slope The slope below 0.
   */
  constructor(readonly slope = 0.01) {
    super();
    requireValue("make a LeakyReLU", "slope", slope, takes.finite);
  }

  /** Applies it element by element. */
  forward(x: Tensor): Tensor {
    return x.leakyRelu(this.slope);
  }
}

/** `x` where positive, else `alpha * (exp(x) - 1)`. */
export class ELU extends Module {
  /**
   * Makes the layer.
   *
   * @param alpha Minus the limit at negative infinity.
   */
  constructor(readonly alpha = 1) {
    super();
    requireValue("make a ELU", "alpha", alpha, takes.finite);
  }

  /** Applies it element by element. */
  forward(x: Tensor): Tensor {
    return x.elu(this.alpha);
  }
}

/** The Gaussian error linear unit. */
export class GELU extends Module {
  /**
   * Makes the layer.
   *
   * @param approximate "none" by the error function, "tanh" by the usual approximation.
   */
  constructor(readonly approximate: "none" | "tanh" = "none") {
    super();
    requireValue("make a GELU", "approximate", approximate, takes.oneOf("none", "tanh"));
  }

  /** Applies it element by element. */
  forward(x: Tensor): Tensor {
    return x.gelu(this.approximate);
  }
}

/** `x * sigmoid(x)`. */
export class SiLU extends Module {
  /** Applies it element by element. */
  forward(x: Tensor): Tensor {
    return x.silu();
  }
}

/** `log(1 + exp(x))`. */
export class Softplus extends Module {
  /** Applies it element by element. */
  forward(x: Tensor): Tensor {
    return x.softplus();
  }
}

/** The hyperbolic tangent. */
export class Tanh extends Module {
  /** Applies it element by element. */
  forward(x: Tensor): Tensor {
    return x.tanh();
  }
}

/** `1 / (1 + exp(-x))`. */
export class Sigmoid extends Module {
  /** Applies it element by element. */
  forward(x: Tensor): Tensor {
    return x.sigmoid();
  }
}

/** `exp(x) / sum(exp(x))` along an axis. */
export class Softmax extends Module {
  /**
   * Makes the layer.
   *
   * @param axis The axis that sums to 1.
   */
  constructor(readonly axis: number = -1) {
    super();
    requireValue("make a Softmax", "axis", axis, takes.integer);
  }

  /** Applies it along the axis. */
  forward(x: Tensor): Tensor {
    return x.softmax(this.axis);
  }
}

/** What goes in comes out. */
export class Identity extends Module {
  /** The same tensor. */
  forward(x: Tensor): Tensor {
    return x;
  }
}
