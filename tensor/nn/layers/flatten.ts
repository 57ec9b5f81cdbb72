import type { Tensor } from "../../core/mod.ts";
import { normalizeAxis } from "../../ops/shaping/axes.ts";
import { inputOf } from "../module/input.ts";
import { Module } from "../module/module.ts";
import { requireValue, takes } from "../../core/rules/options.ts";

/** Joins axes to one; by default all but the first, the batch. */
export class Flatten extends Module {
  /**
   * Makes the layer.
   *
   * @param start The first axis that is joined; default 1.
   * @param end The last; default -1.
   */
  constructor(readonly start: number = 1, readonly end: number = -1) {
    super();
    requireValue("make a Flatten", "start", start, takes.integer);
    requireValue("make a Flatten", "end", end, takes.integer);
  }

  /** A view in the new shape. */
  forward(x: Tensor): Tensor {
    return inputOf(this, x).flatten(this.start, this.end);
  }
}

/** One axis as several: what {@linkcode Flatten} joined. */
export class Unflatten extends Module {
  /**
   * Makes the layer.
   *
   * @param axis The axis that is divided.
   * @param sizes Those of the new axes; one may be -1, which is what is left.
   */
  constructor(readonly axis: number, readonly sizes: readonly number[]) {
    super();
    requireValue("make an Unflatten", "axis", axis, takes.integer);
    requireValue("make an Unflatten", "sizes", sizes, takes.list);
  }

  /**
   * A view in the new shape.
   *
   * @throws {ShapeError} When there is no such axis, or the sizes do not fill it.
   */
  forward(x: Tensor): Tensor {
    const { shape } = inputOf(this, x), at = normalizeAxis("unflatten", this.axis, shape);
    return x.reshape(shape.toSpliced(at, 1, ...this.sizes));
  }
}
