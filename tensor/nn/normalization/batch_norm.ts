/**
 * Normalization: mean 0 and variance 1, over the batch.
 *
 * This folder (`normalization/`) imports `ops/`, `autograd/`, `core/` and `module/`.
 */
import { atLeastSingle } from "../../core/autocast.ts";
import { requireTensor, result } from "../../core/apply.ts";
import { compute } from "../../core/operations.ts";
import { isRecomputing } from "../../autograd/recomputing.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { isGradEnabled, withoutGrad } from "../../core/modes/grad_mode.ts";
import { spread } from "../../ops/spread.ts";
import { internally, withTemporaries } from "../../core/modes/temporaries.ts";
import { Tensor } from "../../class/tensor.ts";
import { nameFrom, type StateNames } from "../module/members.ts";
import { Module } from "../module/module.ts";
import { buffer, parameter } from "../module/parameter.ts";
import { requireSizes } from "../module/sizes.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";
import { nodeOf, stateOf } from "../../core/internals.ts";

/** Mean and variance of the axes that are normalized over, kept as 1. */
export interface Moments {
  /** The mean as a float. */
  readonly mean: Tensor;
  /** Rounding residual of the mean. */
  readonly rest: Tensor;
  /** Divided by the count. */
  readonly variance: Tensor;
}

function momentsOf(x: Tensor, axes: readonly number[]): Moments {
  const { mean, rest, squares } = spread(x, axes);
  return { mean, rest, variance: squares.mul(squares.size / x.size) };
}

function rootOf({ variance }: Moments, eps: number): Tensor {
  return variance.add(eps).rsqrt();
}

/** Factor of normalized values, and term added then; both broadcast to their shape. */
export type Affine = readonly [weight: Tensor, bias: Tensor];

/**
 * `(x - mean) / sqrt(variance + eps)` over axes, with the gradient in closed form.
 *
 * @param affine The same for all elements along the axes: its gradients are the sums that x's is made of.
 */
export function standardize(
  x: Tensor,
  axes: readonly number[],
  eps: number,
  affine?: Affine,
): Standardized {
  // The moments are the layer's: kept for a user who never sees them, they would hold former parameters.
  const made = withTemporaries(() =>
    affine ? compute(scaledBy, x, axes, eps, affine) : compute(standardizedBy, x, axes, eps)
  );
  stateOf(made.value).expose();
  return made;
}

interface Standardized {
  readonly value: Tensor;
  readonly moments: Moments;
}

function standardizedBy(x: Tensor, axes: readonly number[], eps: number): Standardized {
  const { moments, scale, node } = withoutGrad(() => {
    const detached = x.detach(), moments = momentsOf(detached, axes);
    const scale = rootOf(moments, eps);
    return { moments, scale, node: nodeOf(centred(detached, moments, scale)) };
  });
  const value = result("standardize", [x], node, (g, y) => {
    const factor = isGradEnabled() ? rootOf(momentsOf(x, axes), eps) : scale;
    const mean = g.mean(axes, { keepDims: true });
    const along = g.mul(y).mean(axes, { keepDims: true });
    return [factor.mul(g.sub(mean).sub(y.mul(along)))];
  });
  return { value, moments };
}

/** The same with weight and bias: two sums over the axes give all three gradients. */
function scaledBy(
  x: Tensor,
  axes: readonly number[],
  eps: number,
  [weight, bias]: Affine,
): Standardized {
  const { moments, scale, node } = withoutGrad(() => {
    const detached = x.detach(), moments = momentsOf(detached, axes);
    const scale = rootOf(moments, eps);
    const standard = centred(detached, moments, scale);
    return { moments, scale, node: nodeOf(standard.mul(weight.detach()).add(bias.detach())) };
  });
  const value = result("standardize", [x, weight, bias], node, (g) => {
    const differentiates = isGradEnabled(), keepDims = true;
    const factor = differentiates ? rootOf(momentsOf(x, axes), eps) : scale;
    const y = differentiates ? standardizedBy(x, axes, eps).value : centred(x, moments, scale);
    const total = g.sum(axes, { keepDims }), along = g.mul(y).sum(axes, { keepDims });
    const share = total.size / g.size;
    const inner = g.sub(total.mul(share)).sub(y.mul(along.mul(share)));
    return [factor.mul(weight).mul(inner), along, total];
  });
  return { value, moments };
}

function centred(x: Tensor, { mean, rest }: Moments, scale: Tensor): Tensor {
  return x.sub(mean).mul(scale).sub(rest.mul(scale));
}

/** A batch that was normalized. */
export interface NormalizedBatch {
  /** Mean 0 and variance 1 in each channel; with weight and bias where `isScaled`. */
  readonly value: Tensor;
  /** True when weight and bias are in the value; default false. */
  readonly isScaled?: boolean;
  /** Moments by which it was normalized. */
  readonly moments: Moments;
  /** The values of a channel that these are of. */
  readonly count: number;
}

/** Options of batch normalization. */
export interface BatchNormOptions {
  /** Added to the variance; default 1e-5. */
  eps?: number;
  /**
   * The share of a batch in the running statistics, 0.1 by default; null for the mean over all
   * batches.
   */
  momentum?: number | null;
  /** False to leave out weight and bias; true by default. */
  affine?: boolean;
  /** False to use the statistics of the batch always; true by default. */
  trackRunningStats?: boolean;
}

const batchRules: Rules<BatchNormOptions> = {
  eps: takes.nonNegative,
  momentum: takes.orNull(takes.share),
  affine: takes.bool,
  trackRunningStats: takes.bool,
};

const batchNames: StateNames = {
  runningMean: "running_mean",
  runningVar: "running_var",
  numBatchesTracked: "num_batches_tracked",
};

/**
 * The common part of batch normalization of (N, C, ...), over all axes but C.
 *
 * @internal
 */
export abstract class BatchNorm extends Module {
  /** Factor of the normalized channels, or null. */
  weight: Tensor | null;
  /** Term added then, or null. */
  bias: Tensor | null;
  /** The mean of each channel over former batches, or null. */
  runningMean: Tensor | null;
  /** The variance of each channel over former batches, or null. */
  runningVar: Tensor | null;
  /** Number of batches so far, int64, or null. */
  numBatchesTracked: Tensor | null;
  readonly #eps: number;
  readonly #momentum: number | null;

  /** Makes a layer for inputs of one of these numbers of axes. */
  constructor(channels: number, options: BatchNormOptions, ranks: readonly number[]) {
    super();
    this.#ranks = ranks;
    requireSizes(new.target.name, { channels });
    checkOptions(`make a ${new.target.name}`, options, batchRules);
    const { eps = 1e-5, momentum = 0.1, affine = true, trackRunningStats = true } = options;
    this.weight = affine ? parameter(Tensor.ones([channels])) : null;
    this.bias = affine ? parameter(Tensor.zeros([channels])) : null;
    this.runningMean = trackRunningStats ? buffer(Tensor.zeros([channels])) : null;
    this.runningVar = trackRunningStats ? buffer(Tensor.ones([channels])) : null;
    this.numBatchesTracked = trackRunningStats
      ? buffer(Tensor.zeros([], { dtype: "int64" }))
      : null;
    this.#channels = channels;
    this.#eps = eps;
    this.#momentum = momentum;
  }

  /** PyTorch's names. */
  protected override stateName(property: string): string {
    return nameFrom(batchNames, property) ?? super.stateName(property);
  }

  readonly #channels: number;
  readonly #ranks: readonly number[];

  #check(x: Tensor): void {
    requireTensor(`run ${this.constructor.name}`, x);
    if (this.#ranks.includes(x.ndim) && x.shape[1] === this.#channels) return;
    throw shapeError(this.constructor.name)`
      Cannot run ${this.constructor.name} on a tensor of shape ${x.shape}: it must have
      ${this.#ranks.join(" or ")} axes, and ${this.#channels} channels on axis 1`;
  }

  /**
   * Normalizes by the batch while training, else by the running statistics.
   *
   * @throws {ShapeError} When the channels do not fit, or a batch has one value a channel only.
   */
  forward(x: Tensor): Tensor {
    this.#check(x);
    return this.#normalize(atLeastSingle(x)).cast(x.dtype);
  }

  #normalize(x: Tensor): Tensor {
    const { runningMean, runningVar } = this;
    if (!this.training && runningMean && runningVar) {
      const affine = [this.weight, this.bias] as const;
      return compute(normalizedByStatistics, x, [runningMean, runningVar], this.#eps, affine);
    }
    const perChannel = x.shape.map((n, axis) => axis === 1 ? n : 1);
    const weight = this.weight?.reshape(perChannel), bias = this.bias?.reshape(perChannel);
    const batch = this.#byBatch(x, weight && bias ? [weight, bias] : undefined);
    return batch.isScaled ? batch.value : scaled(batch.value, weight ?? null, bias ?? null);
  }

  #byBatch(x: Tensor, affine: Affine | undefined): NormalizedBatch {
    const batch = this.normalizeBatch(x, this.#eps, affine);
    if (this.training && !isRecomputing()) this.#remember(batch.moments, batch.count);
    return batch;
  }

  /**
   * Normalizes by the mean and variance of a batch, which other layers take of more than this batch.
   *
   * @param affine Weight and bias, which may be taken in.
   * @throws {ShapeError} When it has one value a channel only.
   */
  protected normalizeBatch(x: Tensor, eps: number, affine?: Affine): NormalizedBatch {
    const axes = x.shape.map((_, axis) => axis).filter((axis) => axis !== 1);
    const count = x.size / this.#channels;
    if (this.training && count <= 1) {
      throw shapeError(this.constructor.name)`
        Cannot train ${this.constructor.name} on a tensor of shape ${x.shape}: the variance of one
        value a channel is 0`;
    }
    // What is promoted by its weights is multiplied by them as any other tensor.
    const isScaled = affine?.every(({ dtype }) => dtype === x.dtype) ?? false;
    return { ...standardize(x, axes, eps, isScaled ? affine : undefined), count, isScaled };
  }

  /** The running statistics take the batch in, together with whatever is computed next. */
  #remember({ mean, rest, variance }: Moments, count: number): void {
    const { runningMean, runningVar, numBatchesTracked } = this;
    if (!runningMean || !runningVar || !numBatchesTracked) return;
    internally(() => {
      const batches = numBatchesTracked.add(1);
      const share = this.#momentum ?? batches.cast("float32").reciprocal();
      const shape = runningMean.shape;
      const unbiased = variance.mul(count / (count - 1));
      change(runningMean, toward(runningMean, mean.add(rest).reshape(shape), share));
      change(runningVar, toward(runningVar, unbiased.reshape(shape), share));
      change(numBatchesTracked, batches);
    });
  }
}

function scaled(x: Tensor, weight: Tensor | null, bias: Tensor | null): Tensor {
  const out = weight ? x.mul(weight) : x;
  return bias ? out.add(bias) : out;
}

/** Mean 0 and variance 1 by numbers of each channel that are known, then weight and bias. */
function normalizedByStatistics(
  x: Tensor,
  [mean, variance]: readonly [Tensor, Tensor],
  eps: number,
  [weight, bias]: readonly [Tensor | null, Tensor | null],
): Tensor {
  const each = (t: Tensor) => t.reshape([-1, ...new Array<number>(x.ndim - 2).fill(1)]);
  const standard = x.sub(each(mean)).mul(each(variance.add(eps).rsqrt()));
  return scaled(standard, weight && each(weight), bias && each(bias));
}

function toward(from: Tensor, to: Tensor, share: Tensor | number): Tensor {
  return from.add(to.sub(from).mul(share));
}

function change(tensor: Tensor, value: Tensor): void {
  stateOf(tensor.assign(value)).dropFormer();
}

/**
 * Normalizes each channel of images (N, C, H, W) over the batch (S. Ioffe, C. Szegedy, Batch
 * Normalization, 2015); when used, by the statistics of the batches that it was trained on.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertAlmostEquals } from "@std/assert";
 *
 * const layer = new nn.BatchNorm2d(3);
 * const y = layer.forward(Tensor.randn([4, 3, 8, 8]).mul(5).add(2));
 * assertAlmostEquals(await y.mean().item(), 0, 1e-4);
 * ```
 */
export class BatchNorm2d extends BatchNorm {
  /**
   * Makes the layer.
   *
   * @param channels The length of axis 1.
   * @param options Epsilon, momentum, what to leave out.
   */
  constructor(channels: number, options: BatchNormOptions = {}) {
    super(channels, options, [4]);
  }
}

/** Normalizes each channel of volumes (N, C, D, H, W), as {@linkcode BatchNorm2d} those of images. */
export class BatchNorm3d extends BatchNorm {
  /**
   * Makes the layer.
   *
   * @param channels The length of axis 1.
   * @param options Epsilon, momentum, what to leave out.
   */
  constructor(channels: number, options: BatchNormOptions = {}) {
    super(channels, options, [5]);
  }
}

/**
 * Normalizes each feature of (N, C), or each channel of sequences (N, C, L), as {@linkcode BatchNorm2d}
 * those of images.
 */
export class BatchNorm1d extends BatchNorm {
  /**
   * Makes the layer.
   *
   * @param channels The length of axis 1.
   * @param options Epsilon, momentum, what to leave out.
   */
  constructor(channels: number, options: BatchNormOptions = {}) {
    super(channels, options, [2, 3]);
  }
}
