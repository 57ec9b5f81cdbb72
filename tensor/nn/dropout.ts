import { Tensor } from "../tensor.ts";
import { Module } from "./module.ts";
import { checkValue, takes } from "../options.ts";

/**
 * While training, elements are 0 with probability `p`, and the others divided by `1 - p`, so that the
 * mean stays (N. Srivastava et al., Dropout, 2014). Otherwise it does nothing.
 */
export class Dropout extends Module {
  /**
   * Makes the layer.
   *
   * @param p How likely an element is dropped, 0 to 1.
   * @throws {RangeError} When that is no probability.
   */
  constructor(readonly p = 0.5) {
    super();
    checkValue("drop out", "probability", p, takes.share);
  }

  /** Drops elements, while training; else a tensor of the same value. */
  forward(x: Tensor): Tensor {
    return this.training && this.p > 0 ? dropout(x, this.p) : x.reshape(x.shape);
  }
}

/** Drops elements with probability `p`. */
export function dropout(x: Tensor, p: number): Tensor {
  if (p === 0) return x;
  if (p === 1) return x.mul(0);
  const kept = Tensor.rand(x.shape, { device: x.device }).ge(p);
  return kept.where(x.mul(1 / (1 - p)), 0);
}
