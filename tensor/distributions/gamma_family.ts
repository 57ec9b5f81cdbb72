/** Distributions made of gamma numbers. */
import type { Shape } from "../../backend/internal.ts";
import type { TensorLike } from "../core/arguments.ts";
import { shapeError } from "../core/rules/errors.ts";
import { Tensor } from "../class/tensor.ts";
import { gammainc, logBeta } from "../ops/special/mod.ts";
import { Distribution, like, parametersOf, within } from "./distribution.ts";
import { requirePositive } from "./location_scale.ts";
import { dirichletNumbers, gammaNumbers } from "./reparametrised.ts";

/** The exponential distribution, that of waiting. */
export class Exponential extends Distribution {
  /** Events in a unit of time. */
  readonly rate: Tensor;

  /** A distribution of a rate. */
  constructor(rate: TensorLike) {
    requirePositive("make an Exponential", "rate", rate);
    const [r] = parametersOf("make an Exponential", rate);
    super(r.shape);
    this.rate = r;
  }

  /** See {@linkcode Distribution}. */
  protected override draw(shape: Shape): Tensor {
    return Tensor.exponential(shape, like(this.rate)).div(this.rate);
  }

  /** True. */
  override get hasRsample(): boolean {
    return true;
  }

  /** See {@linkcode Distribution.mean}. */
  override get mean(): Tensor {
    return this.rate.reciprocal();
  }

  /** See {@linkcode Distribution.variance}. */
  override get variance(): Tensor {
    return this.rate.square().reciprocal();
  }

  /** See {@linkcode Distribution.mode}. */
  override get mode(): Tensor {
    return this.rate.zerosLike();
  }

  /** The share of what is drawn that is at most a value. */
  protected override shareBelow(value: Tensor): Tensor {
    return this.rate.mul(value.clamp(0)).neg().expm1().neg();
  }

  /** The value of which a share is at most. */
  protected override valueAbove(share: Tensor): Tensor {
    return share.neg().log1p().neg().div(this.rate);
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    return within(value.ge(0), this.rate.log().sub(this.rate.mul(value)));
  }

  /** See {@linkcode Distribution.entropy}. */
  override entropy(): Tensor {
    return this.rate.log().neg().add(1);
  }
}

/** The gamma distribution. */
export class Gamma extends Distribution {
  /** Its form: 1 is exponential. */
  readonly concentration: Tensor;
  /** 1 over its scale. */
  readonly rate: Tensor;

  /** A distribution of a form and a rate. */
  constructor(concentration: TensorLike, rate: TensorLike) {
    requirePositive("make a Gamma", "concentration", concentration);
    requirePositive("make a Gamma", "rate", rate);
    const [a, r] = parametersOf("make a Gamma", concentration, rate);
    super(a.shape);
    this.concentration = a;
    this.rate = r;
  }

  /** See {@linkcode Distribution}. */
  protected override draw(shape: Shape): Tensor {
    return gammaNumbers(this.concentration, shape).div(this.rate);
  }

  /** True: gradients go to the parameters with the share below each number held. */
  override get hasRsample(): boolean {
    return true;
  }

  /** See {@linkcode Distribution.mean}. */
  override get mean(): Tensor {
    return this.concentration.div(this.rate);
  }

  /** See {@linkcode Distribution.variance}. */
  override get variance(): Tensor {
    return this.concentration.div(this.rate.square());
  }

  /** See {@linkcode Distribution.mode}. */
  override get mode(): Tensor {
    return this.concentration.sub(1).div(this.rate).clamp(0);
  }

  /** The share of what is drawn that is at most a value. */
  protected override shareBelow(value: Tensor): Tensor {
    return gammainc(this.concentration.detach(), this.rate.mul(value).clamp(0));
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    const { concentration: a, rate } = this;
    const log = a.mul(rate.log()).add(a.sub(1).xlogy(value)).sub(rate.mul(value)).sub(a.lgamma());
    return within(value.ge(0), log);
  }

  /** See {@linkcode Distribution.entropy}. */
  override entropy(): Tensor {
    const { concentration: a, rate } = this;
    return a.sub(rate.log()).add(a.lgamma()).add(a.neg().add(1).mul(a.digamma()));
  }
}

/** The distribution of a sum of squares of normal numbers. */
export class Chi2 extends Gamma {
  /** A distribution of so many degrees of freedom. */
  constructor(df: TensorLike) {
    super(typeof df === "number" ? df / 2 : parametersOf("make a Chi2", df)[0].mul(0.5), 0.5);
  }
}

/** The beta distribution, of shares. */
export class Beta extends Distribution {
  /** The higher, the nearer to 1. */
  readonly concentration1: Tensor;
  /** The higher, the nearer to 0. */
  readonly concentration0: Tensor;

  /** A distribution of the densities `x ** (concentration1 - 1) * (1 - x) ** (concentration0 - 1)`. */
  constructor(concentration1: TensorLike, concentration0: TensorLike) {
    requirePositive("make a Beta", "concentration1", concentration1);
    requirePositive("make a Beta", "concentration0", concentration0);
    const [a, b] = parametersOf("make a Beta", concentration1, concentration0);
    super(a.shape);
    this.concentration1 = a;
    this.concentration0 = b;
  }

  /** See {@linkcode Distribution}. */
  protected override draw(shape: Shape): Tensor {
    const both = Tensor.stack([this.concentration1, this.concentration0], -1);
    return dirichletNumbers(both, [...shape, 2]).slice(...shape.map(() => null), 0);
  }

  /** True: gradients go to the parameters with the share below each number held. */
  override get hasRsample(): boolean {
    return true;
  }

  /** See {@linkcode Distribution.mean}. */
  override get mean(): Tensor {
    return this.concentration1.div(this.concentration1.add(this.concentration0));
  }

  /** See {@linkcode Distribution.variance}. */
  override get variance(): Tensor {
    const total = this.concentration1.add(this.concentration0);
    return this.concentration1.mul(this.concentration0).div(total.square().mul(total.add(1)));
  }

  /** 0 or 1 where the density is highest at an end, NaN where all values are as likely. */
  override get mode(): Tensor {
    const [a, b] = [this.concentration1.sub(1), this.concentration0.sub(1)];
    const [up, down] = [a.clamp(0), b.clamp(0)];
    const isHollow = a.lt(0).logicalAnd(b.lt(0));
    return isHollow.where(a.ge(b).cast(a.dtype), up.div(up.add(down)));
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    const { concentration1: a, concentration0: b } = this;
    const log = a.sub(1).xlogy(value).add(b.sub(1).xlogy(value.neg().add(1))).sub(logBeta(a, b));
    return within(value.ge(0).logicalAnd(value.le(1)), log);
  }

  /** See {@linkcode Distribution.entropy}. */
  override entropy(): Tensor {
    const { concentration1: a, concentration0: b } = this, total = a.add(b);
    return logBeta(a, b).sub(a.sub(1).mul(a.digamma())).sub(b.sub(1).mul(b.digamma()))
      .add(total.sub(2).mul(total.digamma()));
  }
}

/** The distribution of shares of a whole, along the last axis. */
export class Dirichlet extends Distribution {
  /** One for each share. */
  readonly concentration: Tensor;

  /** A distribution of vectors; leading axes are a batch. */
  constructor(concentration: Tensor) {
    const [a] = parametersOf("make a Dirichlet", concentration);
    if (a.ndim === 0) {
      throw shapeError("Dirichlet")`
        Cannot make a Dirichlet of shape ${a.shape}: pass (..., shares)`;
    }
    super(a.shape.slice(0, -1), a.shape.slice(-1));
    this.concentration = a;
  }

  /** See {@linkcode Distribution}. */
  protected override draw(shape: Shape): Tensor {
    return dirichletNumbers(this.concentration, shape);
  }

  /** True: gradients go to the parameters with the share below each number held. */
  override get hasRsample(): boolean {
    return true;
  }

  /** The sum of the concentrations, with the last axis kept. */
  #total(): Tensor {
    return this.concentration.sum(-1, { keepDims: true });
  }

  /** See {@linkcode Distribution.mean}. */
  override get mean(): Tensor {
    return this.concentration.div(this.#total());
  }

  /** See {@linkcode Distribution.variance}. */
  override get variance(): Tensor {
    const { mean } = this;
    return mean.mul(mean.neg().add(1)).div(this.#total().add(1));
  }

  /** A corner where the density is highest there, NaN where all values are as likely. */
  override get mode(): Tensor {
    const rest = this.concentration.sub(1), up = rest.clamp(0), isHollow = rest.lt(0).all(-1);
    const corner = rest.argmax(-1).oneHot(this.eventShape[0]!).cast(rest.dtype);
    return isHollow.unsqueeze(-1).where(corner, up.div(up.sum(-1, { keepDims: true })));
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    return this.concentration.sub(1).xlogy(value).sum(-1).sub(this.#logBeta());
  }

  /** The logarithm of the factor by which densities are divided. */
  #logBeta(): Tensor {
    return this.concentration.lgamma().sum(-1).sub(this.concentration.sum(-1).lgamma());
  }

  /** See {@linkcode Distribution.entropy}. */
  override entropy(): Tensor {
    const { concentration: a } = this, total = a.sum(-1), count = this.eventShape[0]!;
    return this.#logBeta().add(total.sub(count).mul(total.digamma()))
      .sub(a.sub(1).mul(a.digamma()).sum(-1));
  }
}

/** Student's distribution: normal numbers of a deviation that is known from few. */
export class StudentT extends Distribution {
  /** Degrees of freedom. */
  readonly df: Tensor;
  /** The median. */
  readonly loc: Tensor;
  /** The width. */
  readonly scale: Tensor;

  /** A distribution of so many degrees of freedom. */
  constructor(df: TensorLike, loc: TensorLike = 0, scale: TensorLike = 1) {
    requirePositive("make a StudentT", "df", df);
    requirePositive("make a StudentT", "scale", scale);
    const [freedom, place, width] = parametersOf("make a StudentT", df, loc, scale);
    super(freedom.shape);
    this.df = freedom;
    this.loc = place;
    this.scale = width;
  }

  /** See {@linkcode Distribution}. */
  protected override draw(shape: Shape): Tensor {
    const half = this.df.mul(0.5), share = gammaNumbers(half, shape).div(half);
    const unit = Tensor.randn(shape, like(this.loc)).div(share.sqrt());
    return unit.mul(this.scale).add(this.loc);
  }

  /** True: gradients go to the parameters with the share below each number held. */
  override get hasRsample(): boolean {
    return true;
  }

  /** The median; NaN up to one degree. */
  override get mean(): Tensor {
    return this.df.le(1).where(NaN, this.loc);
  }

  /** Infinity up to two degrees, NaN up to one. */
  override get variance(): Tensor {
    const isKnown = this.df.gt(2), df = isKnown.where(this.df, 3);
    const known = this.scale.square().mul(df).div(df.sub(2));
    return this.df.le(1).where(NaN, isKnown.where(known, Infinity));
  }

  /** The logarithm of the factor by which densities are divided. */
  #logFactor(): Tensor {
    const half = this.df.mul(0.5);
    return half.lgamma().sub(half.add(0.5).lgamma()).add(this.df.mul(Math.PI).log().mul(0.5))
      .add(this.scale.log());
  }

  /** See {@linkcode Distribution.mode}. */
  override get mode(): Tensor {
    return this.loc;
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    const far = value.sub(this.loc).div(this.scale).square().div(this.df).log1p();
    return far.mul(this.df.add(1)).mul(-0.5).sub(this.#logFactor());
  }

  /** See {@linkcode Distribution.entropy}. */
  override entropy(): Tensor {
    const half = this.df.mul(0.5), next = half.add(0.5);
    return next.mul(next.digamma().sub(half.digamma())).add(this.#logFactor());
  }
}
