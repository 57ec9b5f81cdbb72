/** Distributions of functions of normal numbers. */
import type { Shape } from "../../backend/internal.ts";
import type { TensorLike } from "../core/arguments.ts";
import type { Tensor } from "../class/tensor.ts";
import { Distribution, parametersOf, within } from "./distribution.ts";
import { Normal } from "./location_scale.ts";

/** The distribution of exp(x) of a normal x. */
export class LogNormal extends Distribution {
  /** The distribution of the logarithm. */
  readonly base: Normal;

  /** A distribution of which the logarithm has this mean and standard deviation. */
  constructor(loc: TensorLike, scale: TensorLike) {
    const base = new Normal(loc, scale);
    super(base.batchShape);
    this.base = base;
  }

  /** See {@linkcode Distribution}. */
  protected override draw(shape: Shape): Tensor {
    return this.base.rsample(shape.slice(0, shape.length - this.batchShape.length)).exp();
  }

  /** True. */
  override get hasRsample(): boolean {
    return true;
  }

  /** See {@linkcode Distribution.mean}. */
  override get mean(): Tensor {
    return this.base.loc.add(this.base.variance.mul(0.5)).exp();
  }

  /** See {@linkcode Distribution.variance}. */
  override get variance(): Tensor {
    return this.base.variance.expm1().mul(this.mean.square());
  }

  /** See {@linkcode Distribution.mode}. */
  override get mode(): Tensor {
    return this.base.loc.sub(this.base.variance).exp();
  }

  /** The share of what is drawn that is at most a value. */
  protected override shareBelow(value: Tensor): Tensor {
    const isPossible = value.gt(0);
    return isPossible.where(this.base.cdf(isPossible.where(value, 1).log()), 0);
  }

  /** The value of which a share is at most. */
  protected override valueAbove(share: Tensor): Tensor {
    return this.base.icdf(share).exp();
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    const isPossible = value.gt(0), log = isPossible.where(value, 1).log();
    return within(isPossible, this.base.logProb(log).sub(log));
  }

  /** See {@linkcode Distribution.entropy}. */
  override entropy(): Tensor {
    return this.base.entropy().add(this.base.loc);
  }
}

/** The normal distribution of mean 0, folded at 0. */
export class HalfNormal extends Distribution {
  /** The distribution before it was folded. */
  readonly base: Normal;

  /** A distribution of a scale. */
  constructor(scale: TensorLike) {
    const loc = typeof scale === "number"
      ? 0
      : parametersOf("make a HalfNormal", scale)[0].zerosLike();
    const base = new Normal(loc, scale);
    super(base.batchShape);
    this.base = base;
  }

  /** See {@linkcode Distribution}. */
  protected override draw(shape: Shape): Tensor {
    return this.base.rsample(shape.slice(0, shape.length - this.batchShape.length)).abs();
  }

  /** True. */
  override get hasRsample(): boolean {
    return true;
  }

  /** See {@linkcode Distribution.mean}. */
  override get mean(): Tensor {
    return this.base.scale.mul(Math.sqrt(2 / Math.PI));
  }

  /** See {@linkcode Distribution.variance}. */
  override get variance(): Tensor {
    return this.base.variance.mul(1 - 2 / Math.PI);
  }

  /** See {@linkcode Distribution.mode}. */
  override get mode(): Tensor {
    return this.base.scale.zerosLike();
  }

  /** The share of what is drawn that is at most a value. */
  protected override shareBelow(value: Tensor): Tensor {
    return this.base.cdf(value).mul(2).sub(1).clamp(0);
  }

  /** The value of which a share is at most. */
  protected override valueAbove(share: Tensor): Tensor {
    return this.base.icdf(share.add(1).mul(0.5));
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    return within(value.ge(0), this.base.logProb(value).add(Math.LN2));
  }

  /** See {@linkcode Distribution.entropy}. */
  override entropy(): Tensor {
    return this.base.entropy().sub(Math.LN2);
  }
}
