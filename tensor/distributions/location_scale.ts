/** Distributions that are one of fixed form, moved and stretched: all have reparametrised samples. */
import type { Shape } from "../../backend/internal.ts";
import type { TensorLike } from "../core/arguments.ts";
import { requireValue, takes } from "../core/rules/options.ts";
import { Tensor } from "../class/tensor.ts";
import { ndtr, ndtri } from "../ops/special/mod.ts";
import { Distribution, like, parametersOf, within } from "./distribution.ts";

const LOG_2_PI = Math.log(2 * Math.PI);

/** Checks a parameter that is a number; those of tensors give NaN where they are none. */
export function requirePositive(op: string, name: string, value: TensorLike): void {
  if (typeof value === "number") requireValue(op, name, value, takes.positive);
}

/** Distributions of a place and a width. */
export abstract class LocationScale extends Distribution {
  /** Its place. */
  readonly loc: Tensor;
  /** Its width. */
  readonly scale: Tensor;

  /** A distribution of a place and a width; the name is for messages. */
  constructor(name: string, loc: TensorLike, scale: TensorLike) {
    requirePositive(`make a ${name}`, "scale", scale);
    const [place, width] = parametersOf(`make a ${name}`, loc, scale);
    super(place.shape);
    this.loc = place;
    this.scale = width;
  }

  /** Distance from the place in widths. */
  protected standard(value: Tensor): Tensor {
    return value.sub(this.loc).div(this.scale);
  }

  /** Numbers at the place 0 and of the width 1. */
  protected abstract unit(shape: Shape): Tensor;

  /** See {@linkcode Distribution}. */
  protected override draw(shape: Shape): Tensor {
    return this.placed(this.unit(shape));
  }

  /** True. */
  override get hasRsample(): boolean {
    return true;
  }

  /** The place. */
  override get mean(): Tensor {
    return this.loc;
  }

  /** The place. */
  override get mode(): Tensor {
    return this.loc;
  }

  /** Moves and stretches numbers of the place 0 and the width 1. */
  protected placed(unit: Tensor): Tensor {
    return unit.mul(this.scale).add(this.loc);
  }
}

/**
 * The normal distribution.
 *
 * @example
 * ```ts
 * import { distributions, Tensor } from "@netcl/netcl";
 *
 * const normal = new distributions.Normal(Tensor.zeros([3]), 2);
 * console.assert(normal.sample([5]).shape.join() === "5,3");
 * console.assert(Math.abs(await normal.entropy().mean().item() - 2.1121) < 1e-3);
 * ```
 */
export class Normal extends LocationScale {
  /** A distribution of this mean and standard deviation. */
  constructor(loc: TensorLike, scale: TensorLike) {
    super("Normal", loc, scale);
  }

  /** See {@linkcode LocationScale}. */
  protected override unit(shape: Shape): Tensor {
    return Tensor.randn(shape, like(this.loc));
  }

  /** The square of the standard deviation. */
  override get variance(): Tensor {
    return this.scale.square();
  }

  /** The share of what is drawn that is at most a value. */
  protected override shareBelow(value: Tensor): Tensor {
    return ndtr(this.standard(value));
  }

  /** The value of which a share is at most. */
  protected override valueAbove(share: Tensor): Tensor {
    return this.placed(ndtri(share));
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    return this.standard(value).square().mul(-0.5).sub(this.scale.log()).sub(LOG_2_PI / 2);
  }

  /** See {@linkcode Distribution.entropy}. */
  override entropy(): Tensor {
    return this.scale.log().add(0.5 + LOG_2_PI / 2);
  }
}

/** Laplace's distribution: exponential on either side. */
export class Laplace extends LocationScale {
  /** A distribution of this median and scale. */
  constructor(loc: TensorLike, scale: TensorLike) {
    super("Laplace", loc, scale);
  }

  /** See {@linkcode LocationScale}. */
  protected override unit(shape: Shape): Tensor {
    return Tensor.laplace(0, 1, shape, like(this.loc));
  }

  /** See {@linkcode Distribution.variance}. */
  override get variance(): Tensor {
    return this.scale.square().mul(2);
  }

  /** The share of what is drawn that is at most a value. */
  protected override shareBelow(value: Tensor): Tensor {
    const z = this.standard(value);
    return z.sign().mul(z.abs().neg().expm1()).mul(-0.5).add(0.5);
  }

  /** The value of which a share is at most. */
  protected override valueAbove(share: Tensor): Tensor {
    const rest = share.sub(0.5);
    return this.placed(rest.sign().mul(rest.abs().mul(-2).log1p()).neg());
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    return this.standard(value).abs().neg().sub(this.scale.mul(2).log());
  }

  /** See {@linkcode Distribution.entropy}. */
  override entropy(): Tensor {
    return this.scale.mul(2).log().add(1);
  }
}

/** Cauchy's distribution, which has no mean. */
export class Cauchy extends LocationScale {
  /** A distribution of this median and half width. */
  constructor(loc: TensorLike, scale: TensorLike) {
    super("Cauchy", loc, scale);
  }

  /** See {@linkcode LocationScale}. */
  protected override unit(shape: Shape): Tensor {
    return Tensor.cauchy(0, 1, shape, like(this.loc));
  }

  /** NaN: there is none. */
  override get mean(): Tensor {
    return this.loc.fullLike(NaN);
  }

  /** Infinity. */
  override get variance(): Tensor {
    return this.loc.fullLike(Infinity);
  }

  /** The share of what is drawn that is at most a value. */
  protected override shareBelow(value: Tensor): Tensor {
    return this.standard(value).atan().div(Math.PI).add(0.5);
  }

  /** The value of which a share is at most. */
  protected override valueAbove(share: Tensor): Tensor {
    return this.placed(share.sub(0.5).mul(Math.PI).tan());
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    return this.standard(value).square().log1p().neg().sub(this.scale.mul(Math.PI).log());
  }

  /** See {@linkcode Distribution.entropy}. */
  override entropy(): Tensor {
    return this.scale.mul(4 * Math.PI).log();
  }
}

/** Gumbel's distribution, that of the largest of many. */
export class Gumbel extends LocationScale {
  /** A distribution of this mode and scale. */
  constructor(loc: TensorLike, scale: TensorLike) {
    super("Gumbel", loc, scale);
  }

  /** See {@linkcode LocationScale}. */
  protected override unit(shape: Shape): Tensor {
    return Tensor.gumbel(0, 1, shape, like(this.loc));
  }

  /** See {@linkcode Distribution.mean}. */
  override get mean(): Tensor {
    return this.loc.add(this.scale.mul(EULER));
  }

  /** See {@linkcode Distribution.variance}. */
  override get variance(): Tensor {
    return this.scale.square().mul(Math.PI ** 2 / 6);
  }

  /** The share of what is drawn that is at most a value. */
  protected override shareBelow(value: Tensor): Tensor {
    return this.standard(value).neg().exp().neg().exp();
  }

  /** The value of which a share is at most. */
  protected override valueAbove(share: Tensor): Tensor {
    return this.placed(share.log().neg().log().neg());
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    const z = this.standard(value);
    return z.add(z.neg().exp()).neg().sub(this.scale.log());
  }

  /** See {@linkcode Distribution.entropy}. */
  override entropy(): Tensor {
    return this.scale.log().add(1 + EULER);
  }
}

/** Euler's constant. */
export const EULER = 0.5772156649015329;

/** The uniform distribution from `low` to before `high`. */
export class Uniform extends Distribution {
  /** The least number. */
  readonly low: Tensor;
  /** The end, which is not drawn. */
  readonly high: Tensor;

  /** A distribution between two ends. */
  constructor(low: TensorLike, high: TensorLike) {
    const [from, to] = parametersOf("make a Uniform", low, high);
    super(from.shape);
    this.low = from;
    this.high = to;
  }

  /** See {@linkcode Distribution}. */
  protected override draw(shape: Shape): Tensor {
    return Tensor.rand(shape, like(this.low)).mul(this.high.sub(this.low)).add(this.low);
  }

  /** True. */
  override get hasRsample(): boolean {
    return true;
  }

  /** The middle. */
  override get mean(): Tensor {
    return this.low.add(this.high).mul(0.5);
  }

  /** See {@linkcode Distribution.variance}. */
  override get variance(): Tensor {
    return this.high.sub(this.low).square().mul(1 / 12);
  }

  /** NaN: all values are as likely. */
  override get mode(): Tensor {
    return this.low.fullLike(NaN);
  }

  /** The share of what is drawn that is at most a value. */
  protected override shareBelow(value: Tensor): Tensor {
    return value.sub(this.low).div(this.high.sub(this.low)).clamp(0, 1);
  }

  /** The value of which a share is at most. */
  protected override valueAbove(share: Tensor): Tensor {
    return share.mul(this.high.sub(this.low)).add(this.low);
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    const isPossible = value.ge(this.low).logicalAnd(value.lt(this.high));
    return within(isPossible, this.entropy().neg());
  }

  /** See {@linkcode Distribution.entropy}. */
  override entropy(): Tensor {
    return this.high.sub(this.low).log();
  }
}
