import type { Tensor } from "../../core/tensor.ts";
import { Module } from "../module/module.ts";
import { requireValue, takes } from "../../core/rules/options.ts";

/** Joins axes to one; by default all but the first, the batch. */
export class Flatten extends Module {
  /**
   * Makes the layer.
   *
   * @param start The first axis that is joined.
   * @param end The last.
   */
  constructor(readonly start: number = 1, readonly end: number = -1) {
    super();
    requireValue("make a Flatten", "start", start, takes.integer);
    requireValue("make a Flatten", "end", end, takes.integer);
  }

  /** A view in the new shape. */
  forward(x: Tensor): Tensor {
    return x.flatten(this.start, this.end);
  }
}
