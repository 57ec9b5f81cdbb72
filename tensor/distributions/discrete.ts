/** Distributions of whole numbers and classes. */
import type { Shape } from "../../backend/internal.ts";
import { requireTensor } from "../core/apply.ts";
import type { TensorLike } from "../core/arguments.ts";
import { compute } from "../core/operations.ts";
import { shapeError } from "../core/rules/errors.ts";
import { checkOptions, type Rules, takes } from "../core/rules/options.ts";
import { Tensor } from "../class/tensor.ts";
import { binomialEntropy } from "../ops/special/binomial_entropy.ts";
import { logit } from "../ops/special/mod.ts";
import { Distribution, like, parametersOf, within } from "./distribution.ts";
import { requirePositive } from "./location_scale.ts";

/** Probabilities: one of the two. */
export interface Chances {
  /** Probabilities, from 0 to 1; of classes weights along the last axis. */
  probs?: TensorLike;
  /** `log(p / (1 - p))`; of classes logarithms of weights along the last axis. */
  logits?: TensorLike;
}

const rules: Rules<Chances> = { probs: takes.anything, logits: takes.anything };

/** The parameter that is given, and which of the two it is. */
function given(name: string, chances: Chances): { value: TensorLike; isLogits: boolean } {
  checkOptions(`make a ${name}`, chances, rules);
  const { probs, logits } = chances ?? {};
  if ((probs === undefined) === (logits === undefined)) {
    throw new TypeError(`Cannot make a ${name}: pass { probs } or { logits }, one of them`);
  }
  return { value: probs ?? logits!, isLogits: probs === undefined };
}

/** Logits of probabilities. */
function logitsOf(name: string, chances: Chances): Tensor {
  const { value, isLogits } = given(name, chances);
  const [x] = parametersOf(`make a ${name}`, value);
  if (isLogits) return x;
  // As PyTorch: at 0 and 1 the logits are finite, and the gradient is 0.
  const least = x.dtype === "float64" ? 2 ** -52 : 2 ** -23;
  return logit(x.clamp(least, 1 - least));
}

/** True where a value is a whole number from 0. */
function isCount(value: Tensor): Tensor {
  return value.ge(0).logicalAnd(value.eq(value.floor()));
}

/** 1 with a probability, else 0. */
export class Bernoulli extends Distribution {
  /** The logits of 1. */
  readonly logits: Tensor;

  /** A distribution of a probability. */
  constructor(chances: Chances) {
    const logits = logitsOf("Bernoulli", chances);
    super(logits.shape);
    this.logits = logits;
  }

  /** The probabilities of 1. */
  get probs(): Tensor {
    return this.logits.sigmoid();
  }

  /** See {@linkcode Distribution}. */
  protected override draw(shape: Shape): Tensor {
    return this.probs.expand(shape).bernoulli();
  }

  /** The probability. */
  override get mean(): Tensor {
    return this.probs;
  }

  /** See {@linkcode Distribution.variance}. */
  override get variance(): Tensor {
    return this.probs.mul(this.logits.neg().sigmoid());
  }

  /** 0 or 1, NaN where both are as likely. */
  override get mode(): Tensor {
    const { logits } = this;
    return logits.eq(0).where(NaN, logits.gt(0).cast(logits.dtype));
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    return this.logits.mul(value).sub(this.logits.softplus());
  }

  /** See {@linkcode Distribution.entropy}. */
  override entropy(): Tensor {
    return this.logits.softplus().sub(this.logits.mul(this.probs));
  }
}

/** The number of failures before the first success. */
export class Geometric extends Distribution {
  /** The logits of a success. */
  readonly logits: Tensor;

  /** A distribution of the probability of a success. */
  constructor(chances: Chances) {
    const logits = logitsOf("Geometric", chances);
    super(logits.shape);
    this.logits = logits;
  }

  /** The probabilities of a success. */
  get probs(): Tensor {
    return this.logits.sigmoid();
  }

  /** See {@linkcode Distribution}. */
  protected override draw(shape: Shape): Tensor {
    const share = Tensor.rand(shape, like(this.logits)).neg().add(1);
    return share.log().div(this.logits.neg().logSigmoid()).floor();
  }

  /** See {@linkcode Distribution.mean}. */
  override get mean(): Tensor {
    return this.logits.neg().exp();
  }

  /** See {@linkcode Distribution.variance}. */
  override get variance(): Tensor {
    return this.mean.div(this.probs);
  }

  /** See {@linkcode Distribution.mode}. */
  override get mode(): Tensor {
    return this.logits.zerosLike();
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    const log = value.mul(this.logits.neg().logSigmoid()).add(this.logits.logSigmoid());
    return within(isCount(value), log);
  }

  /** See {@linkcode Distribution.entropy}. */
  override entropy(): Tensor {
    return new Bernoulli({ logits: this.logits }).entropy().div(this.probs);
  }
}

/** Classes from 0, by their probabilities along the last axis. */
export class Categorical extends Distribution {
  /** Logarithms of the probabilities. */
  readonly logits: Tensor;

  /** A distribution of weights, which need not sum to 1. */
  constructor(chances: Chances) {
    const { value, isLogits } = given("Categorical", chances);
    requireTensor("make a Categorical", value);
    if (value.ndim === 0 || value.shape.at(-1) === 0) {
      throw shapeError("Categorical")`
        Cannot make a Categorical of shape ${value.shape}: pass (..., classes), one at least`;
    }
    super(value.shape.slice(0, -1));
    this.logits = isLogits
      ? value.logSoftmax(-1)
      : value.div(value.sum(-1, { keepDims: true })).log();
  }

  /** Probabilities, which sum to 1. */
  get probs(): Tensor {
    return this.logits.exp();
  }

  /** See {@linkcode Distribution}. */
  protected override draw(shape: Shape): Tensor {
    const classes = this.logits.shape.at(-1)!, rows = this.logits.size / classes;
    const count = shape.reduce((a, b) => a * b, 1) / Math.max(1, rows);
    if (rows * count === 0) return this.logits.zerosLike(shape).cast("int32");
    const drawn = this.probs.reshape([rows, classes]).multinomial(count, { replacement: true });
    return drawn.transpose(0, 1).reshape(shape);
  }

  /** NaN: classes have no order. */
  override get mean(): Tensor {
    return this.logits.fullLike(NaN, this.batchShape);
  }

  /** NaN: classes have no order. */
  override get variance(): Tensor {
    return this.mean;
  }

  /** See {@linkcode Distribution.mode}. */
  override get mode(): Tensor {
    return this.logits.argmax(-1);
  }

  /** The logarithms of the probabilities of classes, whole numbers. */
  protected override logDensity(value: Tensor): Tensor {
    const classes = this.logits.shape.at(-1)!, wide = value.ndim >= this.batchShape.length;
    const shape = wide ? value.shape : this.batchShape;
    const at = value.cast("int32").expand(shape).unsqueeze(-1);
    return this.logits.expand([...shape, classes]).gather(-1, at).squeeze(-1);
  }

  /** See {@linkcode Distribution.entropy}. */
  override entropy(): Tensor {
    const { probs } = this;
    return probs.eq(0).where(0, probs.mul(this.logits)).sum(-1).neg();
  }
}

/** Vectors with a 1 at the class, else 0. */
export class OneHotCategorical extends Distribution {
  /** The distribution of the class. */
  readonly base: Categorical;

  /** A distribution of weights, which need not sum to 1. */
  constructor(chances: Chances) {
    const base = new Categorical(chances);
    super(base.batchShape, base.logits.shape.slice(-1));
    this.base = base;
  }

  /** See {@linkcode Distribution}. */
  protected override draw(shape: Shape): Tensor {
    const lead = shape.slice(0, shape.length - this.batchShape.length - 1);
    return this.base.sample(lead).oneHot(shape.at(-1)!).cast(this.base.logits.dtype);
  }

  /** The probabilities. */
  override get mean(): Tensor {
    return this.base.probs;
  }

  /** See {@linkcode Distribution.variance}. */
  override get variance(): Tensor {
    return this.mean.mul(this.mean.neg().add(1));
  }

  /** See {@linkcode Distribution.mode}. */
  override get mode(): Tensor {
    return this.base.mode.oneHot(this.eventShape[0]!).cast(this.base.logits.dtype);
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    return this.base.logProb(value.argmax(-1));
  }

  /** See {@linkcode Distribution.entropy}. */
  override entropy(): Tensor {
    return this.base.entropy();
  }
}

/** The number of successes of so many trials. */
export class Binomial extends Distribution {
  /** Trials. */
  readonly totalCount: Tensor;
  /** The logits of a success. */
  readonly logits: Tensor;

  /** A distribution of a number of trials and the probability of a success. */
  constructor(totalCount: TensorLike, chances: Chances) {
    const given = logitsOf("Binomial", chances);
    const [count, logits] = parametersOf("make a Binomial", totalCount, given);
    super(logits.shape);
    this.totalCount = count;
    this.logits = logits;
  }

  /** See {@linkcode Distribution}. */
  protected override draw(shape: Shape): Tensor {
    return Tensor.binomial(this.totalCount, this.logits.sigmoid(), shape, like(this.logits));
  }

  /** See {@linkcode Distribution.mean}. */
  override get mean(): Tensor {
    return this.totalCount.mul(this.logits.sigmoid());
  }

  /** See {@linkcode Distribution.variance}. */
  override get variance(): Tensor {
    return this.mean.mul(this.logits.neg().sigmoid());
  }

  /** See {@linkcode Distribution.mode}. */
  override get mode(): Tensor {
    const { totalCount, logits } = this;
    return totalCount.add(1).mul(logits.sigmoid()).floor().minimum(totalCount);
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    const { totalCount: n, logits } = this;
    const ways = n.add(1).lgamma().sub(value.add(1).lgamma()).sub(n.sub(value).add(1).lgamma());
    const log = ways.add(value.mul(logits)).sub(n.mul(logits.softplus()));
    return within(isCount(value).logicalAnd(value.le(n)), log);
  }

  /** See {@linkcode Distribution.entropy}: a sum over all numbers of successes, of each element's trials. */
  override entropy(): Tensor {
    return compute(binomialEntropy, this.totalCount, this.logits);
  }
}

/** The number of successes before so many failures. */
export class NegativeBinomial extends Distribution {
  /** Failures to stop at. */
  readonly totalCount: Tensor;
  /** The logits of a success. */
  readonly logits: Tensor;

  /** A distribution of a number of failures and the probability of a success. */
  constructor(totalCount: TensorLike, chances: Chances) {
    requirePositive("make a NegativeBinomial", "totalCount", totalCount);
    const given = logitsOf("NegativeBinomial", chances);
    const [count, logits] = parametersOf("make a NegativeBinomial", totalCount, given);
    super(logits.shape);
    this.totalCount = count;
    this.logits = logits;
  }

  /** See {@linkcode Distribution}. */
  protected override draw(shape: Shape): Tensor {
    // Poisson's numbers of a rate that is a gamma number.
    const rate = Tensor.gamma(this.totalCount, shape, like(this.logits)).mul(this.logits.exp());
    return Tensor.poisson(rate, shape, like(this.logits));
  }

  /** See {@linkcode Distribution.mean}. */
  override get mean(): Tensor {
    return this.totalCount.mul(this.logits.exp());
  }

  /** See {@linkcode Distribution.variance}. */
  override get variance(): Tensor {
    return this.mean.div(this.logits.neg().sigmoid());
  }

  /** See {@linkcode Distribution.mode}. */
  override get mode(): Tensor {
    return this.totalCount.sub(1).mul(this.logits.exp()).floor().clamp(0);
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    const { totalCount: n, logits } = this;
    const ways = n.add(value).lgamma().sub(value.add(1).lgamma()).sub(n.lgamma());
    const log = ways.add(n.mul(logits.neg().logSigmoid())).add(value.mul(logits.logSigmoid()));
    return within(isCount(value), log);
  }
}

/** The number of events of which so many are expected. */
export class Poisson extends Distribution {
  /** The mean. */
  readonly rate: Tensor;

  /** A distribution of a mean. */
  constructor(rate: TensorLike) {
    const [r] = parametersOf("make a Poisson", rate);
    super(r.shape);
    this.rate = r;
  }

  /** See {@linkcode Distribution}. */
  protected override draw(shape: Shape): Tensor {
    return Tensor.poisson(this.rate, shape, like(this.rate));
  }

  /** See {@linkcode Distribution.mean}. */
  override get mean(): Tensor {
    return this.rate;
  }

  /** See {@linkcode Distribution.variance}. */
  override get variance(): Tensor {
    return this.rate;
  }

  /** See {@linkcode Distribution.mode}. */
  override get mode(): Tensor {
    return this.rate.floor();
  }

  /** The logarithm of the density at a value. */
  protected override logDensity(value: Tensor): Tensor {
    return within(isCount(value), value.xlogy(this.rate).sub(this.rate).sub(value.add(1).lgamma()));
  }
}
