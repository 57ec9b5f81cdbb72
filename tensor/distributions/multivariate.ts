/** Distributions of vectors. */
import type { Shape } from "../../backend/internal.ts";
import { requireTensor } from "../core/apply.ts";
import { shapeError } from "../core/rules/errors.ts";
import type { Rule } from "../../ffi/host/option_rules.ts";
import { checkOptions, requireValue, type Rules, takes } from "../core/rules/options.ts";
import { aTensor } from "../core/apply.ts";
import { Tensor } from "../class/tensor.ts";
import { cholesky, solveTriangular } from "../linalg/mod.ts";
import { Distribution, like } from "./distribution.ts";

/** Spread of a normal distribution of vectors: one of the two. */
export interface Spread {
  /** Covariances, (..., n, n). */
  covariance?: Tensor;
  /** Their lower Cholesky factors, (..., n, n), which cost least. */
  scaleTril?: Tensor;
}

const rules: Rules<Spread> = { covariance: aTensor(), scaleTril: aTensor() };

/** The normal distribution of vectors. */
export class MultivariateNormal extends Distribution {
  /** The means, (..., n). */
  readonly loc: Tensor;
  /** The lower Cholesky factors of the covariances, (..., n, n). */
  readonly scaleTril: Tensor;

  /** A distribution of a mean and a covariance; leading axes are a batch. */
  constructor(loc: Tensor, spread: Spread) {
    requireTensor("make a MultivariateNormal", loc);
    checkOptions("make a MultivariateNormal", spread, rules);
    const { covariance, scaleTril } = spread ?? {};
    if ((covariance === undefined) === (scaleTril === undefined)) {
      throw new TypeError(
        "Cannot make a MultivariateNormal: pass { covariance } or { scaleTril }, one of them",
      );
    }
    const factor = scaleTril ?? cholesky(covariance!), n = loc.shape.at(-1);
    if (n === undefined || factor.ndim < 2 || factor.shape.slice(-2).some((k) => k !== n)) {
      throw shapeError("MultivariateNormal")`
        Cannot make a MultivariateNormal of means of shape ${loc.shape} and matrices of shape
        ${factor.shape}: pass (..., n) and (..., n, n)`;
    }
    const batch = loc.sub(factor.slice(...factor.shape.slice(0, -1).map(() => null), 0)).shape;
    super(batch.slice(0, -1), [n]);
    this.loc = loc.expand(batch);
    this.scaleTril = factor.expand([...batch, n]);
  }

  /** See {@linkcode Distribution}. */
  protected override draw(shape: Shape): Tensor {
    const unit = Tensor.randn(shape, like(this.loc)).unsqueeze(-1);
    return this.scaleTril.matmul(unit).squeeze(-1).add(this.loc);
  }

  /** True. */
  override get hasRsample(): boolean {
    return true;
  }

  /** The means. */
  override get mean(): Tensor {
    return this.loc;
  }

  /** The diagonals of the covariances. */
  override get variance(): Tensor {
    return this.scaleTril.square().sum(-1);
  }

  /** The logarithm of the determinant of the factor. */
  #logDet(): Tensor {
    const n = this.eventShape[0]!;
    const diagonal = this.scaleTril.indexLike([n]);
    const isOn = diagonal.unsqueeze(0).eq(diagonal.unsqueeze(1));
    return isOn.where(this.scaleTril, 1).log().sum([-2, -1]);
  }

  /** See {@linkcode Distribution.mode}. */
  override get mode(): Tensor {
    return this.loc;
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    const n = this.eventShape[0]!, distance = value.sub(this.loc).unsqueeze(-1);
    const factor = this.scaleTril.expand([...distance.shape.slice(0, -1), n]);
    const standard = solveTriangular(factor, distance, { upper: false }).squeeze(-1);
    return standard.square().sum(-1).mul(-0.5).sub(this.#logDet()).sub(
      n / 2 * Math.log(2 * Math.PI),
    );
  }

  /** See {@linkcode Distribution.entropy}. */
  override entropy(): Tensor {
    return this.#logDet().add(this.eventShape[0]! / 2 * (1 + Math.log(2 * Math.PI)));
  }
}

const aDistribution: Rule = {
  takes: "a distribution",
  accepts: (value) => value instanceof Distribution,
};

/** The last axes of a batch of distributions as one, of vectors that are independent of each other. */
export class Independent extends Distribution {
  /** The distribution of each element. */
  readonly base: Distribution;
  readonly #axes: number[];

  /** A distribution whose events have `count` axes more. */
  constructor(base: Distribution, count: number) {
    requireValue("make an Independent", "base", base, aDistribution);
    requireValue("make an Independent", "count", count, takes.whole);
    const at = base.batchShape.length - count;
    if (at < 0) {
      throw shapeError("Independent")`
        Cannot make an Independent of ${count} axes of a batch of shape ${base.batchShape}:
        pass at most as many as there are`;
    }
    super(base.batchShape.slice(0, at), [...base.batchShape.slice(at), ...base.eventShape]);
    this.base = base;
    this.#axes = Array.from({ length: count }, (_, k) => -1 - k);
  }

  /** See {@linkcode Distribution}. */
  protected override draw(shape: Shape): Tensor {
    const own = this.base.batchShape.length + this.base.eventShape.length;
    const lead = shape.slice(0, shape.length - own);
    return this.base.hasRsample ? this.base.rsample(lead) : this.base.sample(lead);
  }

  /** True where the elements' distribution has it. */
  override get hasRsample(): boolean {
    return this.base.hasRsample;
  }

  /** See {@linkcode Distribution.mean}. */
  override get mean(): Tensor {
    return this.base.mean;
  }

  /** See {@linkcode Distribution.variance}. */
  override get variance(): Tensor {
    return this.base.variance;
  }

  /** Adds up what belongs to one event. */
  sumOf(x: Tensor): Tensor {
    return this.#axes.length === 0 ? x : x.sum(this.#axes);
  }

  /** See {@linkcode Distribution.mode}. */
  override get mode(): Tensor {
    return this.base.mode;
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    return this.sumOf(this.base.logProb(value));
  }

  /** See {@linkcode Distribution.entropy}. */
  override entropy(): Tensor {
    return this.sumOf(this.base.entropy());
  }
}
