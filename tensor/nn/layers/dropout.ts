import type { Shape } from "../../../backend/internal.ts";
import { requireTensor } from "../../core/apply.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { Tensor } from "../../class/tensor.ts";
import { inputOf } from "../module/input.ts";
import { Module } from "../module/module.ts";
import { checkValue, takes } from "../../core/rules/options.ts";

/**
 * While training, elements are 0 with probability `p`, and the others divided by `1 - p`, so that the
 * mean stays (N. Srivastava et al., Dropout, 2014). Otherwise it does nothing.
 */
export class Dropout extends Module {
  /**
   * Makes the layer.
   *
   * @param p The probability that an element is dropped, 0 to 1; default 0.5.
   * @throws {RangeError} When that is no probability.
   */
  constructor(readonly p = 0.5) {
    super();
    checkValue("drop out", "probability", p, takes.share);
  }

  /** Drops elements, while training; else a tensor of the same value. */
  forward(x: Tensor): Tensor {
    const { shape } = inputOf(this, x);
    return this.training && this.p > 0 ? dropout(x, this.p) : x.reshape(shape);
  }
}

/** Drops elements with probability `p`; a draw for each element of `shape`, which broadcasts. */
export function dropout(x: Tensor, p: number, shape: Shape = x.shape): Tensor {
  if (p === 0) return x;
  if (p === 1) return x.mul(0);
  const kept = Tensor.rand(shape, { device: x.device }).ge(p);
  return kept.where(x.mul(1 / (1 - p)), 0);
}

/**
 * The common part of dropout of whole channels.
 *
 * @internal
 */
export abstract class ChannelDropout extends Dropout {
  readonly #rank: number;

  /** Makes a layer for inputs of `rank` axes. */
  constructor(p: number, rank: number) {
    super(p);
    this.#rank = rank;
  }

  /**
   * Drops channels, while training; else a tensor of the same value.
   *
   * @throws {ShapeError} When the input has other axes.
   */
  override forward(x: Tensor): Tensor {
    requireTensor(`run ${this.constructor.name}`, x);
    if (x.ndim !== this.#rank) {
      throw shapeError(this.constructor.name)`
        Cannot run ${this.constructor.name} on a tensor of shape ${x.shape}: it must have
        ${this.#rank} axes, (N, C, ...)`;
    }
    if (!this.training || this.p === 0) return x.reshape(x.shape);
    const channels = x.shape.map((n, axis) => axis < 2 ? n : 1);
    return dropout(x, this.p, channels);
  }
}

/** Drops whole channels of sequences (N, C, L), as {@linkcode Dropout2d} those of images. */
export class Dropout1d extends ChannelDropout {
  /**
   * Makes the layer.
   *
   * @param p The probability that a channel is dropped, 0 to 1; default 0.5.
   * @throws {RangeError} When that is no probability.
   */
  constructor(p = 0.5) {
    super(p, 3);
  }
}

/**
 * While training, whole channels of images (N, C, H, W) are 0 with probability `p`, and the others
 * divided by `1 - p` (J. Tompson et al., Efficient Object Localization, 2015).
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const y = new nn.Dropout2d(0.5).forward(Tensor.ones([1, 1, 2, 2]));
 * assertEquals(new Set(await y.toNumbers()).size, 1);
 * ```
 */
export class Dropout2d extends ChannelDropout {
  /**
   * Makes the layer.
   *
   * @param p The probability that a channel is dropped, 0 to 1; default 0.5.
   * @throws {RangeError} When that is no probability.
   */
  constructor(p = 0.5) {
    super(p, 4);
  }
}

/** Drops whole channels of volumes (N, C, D, H, W), as {@linkcode Dropout2d} those of images. */
export class Dropout3d extends ChannelDropout {
  /**
   * Makes the layer.
   *
   * @param p The probability that a channel is dropped, 0 to 1; default 0.5.
   * @throws {RangeError} When that is no probability.
   */
  constructor(p = 0.5) {
    super(p, 5);
  }
}
