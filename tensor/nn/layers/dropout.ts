import type { Shape } from "../../../backend/internal.ts";
import { requireTensor } from "../../core/apply.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { Tensor } from "../../class/tensor.ts";
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

/** Drops elements with probability `p`; a draw for each element of `shape`, which broadcasts. */
export function dropout(x: Tensor, p: number, shape: Shape = x.shape): Tensor {
  if (p === 0) return x;
  if (p === 1) return x.mul(0);
  const kept = Tensor.rand(shape, { device: x.device }).ge(p);
  return kept.where(x.mul(1 / (1 - p)), 0);
}

/** Dropout of whole channels for any number of axes; see {@linkcode Dropout2d}. */
export abstract class ChannelDropout extends Dropout {
  /** Number of an input's axes. */
  protected abstract readonly rank: number;

  /**
   * Drops channels, while training; else a tensor of the same value.
   *
   * @throws {ShapeError} When the input has other axes.
   */
  override forward(x: Tensor): Tensor {
    requireTensor(`run ${this.constructor.name}`, x);
    if (x.ndim !== this.rank) {
      throw shapeError(this.constructor.name)`
        Cannot run ${this.constructor.name} on a tensor of shape ${x.shape}: it must have
        ${this.rank} axes, (N, C, ...)`;
    }
    if (!this.training || this.p === 0) return x.reshape(x.shape);
    const channels = x.shape.map((n, axis) => axis < 2 ? n : 1);
    return dropout(x, this.p, channels);
  }
}

/** {@linkcode Dropout2d} for sequences (N, C, L). */
export class Dropout1d extends ChannelDropout {
  /** Number of an input's axes. */
  protected override readonly rank = 3;
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
  /** Number of an input's axes. */
  protected override readonly rank = 4;
}

/** {@linkcode Dropout2d} for volumes (N, C, D, H, W). */
export class Dropout3d extends ChannelDropout {
  /** Number of an input's axes. */
  protected override readonly rank = 5;
}
