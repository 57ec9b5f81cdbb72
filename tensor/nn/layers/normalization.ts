/** Normalization: mean 0 and variance 1, over the batch or over the features. */
import { formatShape, sameShape, type Shape } from "../../../backend/internal.ts";
import { atLeastSingle } from "../../core/autocast.ts";
import { requireTensor, result } from "../../core/apply.ts";
import { compute } from "../../core/operations.ts";
import { isRecomputing } from "../../autograd/checkpoint.ts";
import { ShapeError } from "../../core/rules/errors.ts";
import { isGradEnabled, withoutGrad } from "../../core/modes/grad_mode.ts";
import { spread } from "../../ops/spread.ts";
import { internally, withTemporaries } from "../../core/modes/temporaries.ts";
import { ones, zeros } from "../../ops/functional.ts";
import type { Tensor } from "../../core/tensor.ts";
import { Module } from "../module/module.ts";
import { buffer, parameter } from "../module/parameter.ts";
import { requireSizes } from "../module/sizes.ts";
import { checkOptions, requireValue, type Rules, takes } from "../../core/rules/options.ts";
import type { Rule } from "../../../ffi/host/option_rules.ts";
import { nodeOf, stateOf } from "../../core/internals.ts";

/** Mean and variance of the axes that are normalized over, kept as 1. */
export interface Moments {
  /** The mean as a float. */
  readonly mean: Tensor;
  /** What the exact mean is above it. */
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

/** What normalized values are multiplied by, and what is added then; both broadcast to their shape. */
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
  /** Whether weight and bias are in the value; default false. */
  readonly isScaled?: boolean;
  /** What it was normalized by. */
  readonly moments: Moments;
  /** The values of a channel that these are of. */
  readonly count: number;
}

/** Options of batch normalization. */
export interface BatchNormOptions {
  /** Added to the variance; default 1e-5. */
  eps?: number;
  /** The share of a batch in the running statistics; null for the mean over all batches. */
  momentum?: number | null;
  /** False to leave out weight and bias. */
  affine?: boolean;
  /** False to use the statistics of the batch always. */
  trackRunningStats?: boolean;
}

const batchRules: Rules<BatchNormOptions> = {
  eps: takes.nonNegative,
  momentum: takes.orNull(takes.share),
  affine: takes.bool,
  trackRunningStats: takes.bool,
};

/** What batch normalization is for every number of axes: (N, C, ...), over all but C. */
export abstract class BatchNorm extends Module {
  /** What the normalized channels are multiplied by, or null. */
  weight: Tensor | null;
  /** What is added then, or null. */
  bias: Tensor | null;
  /** The mean of each channel over former batches, or null. */
  runningMean: Tensor | null;
  /** The variance of each channel over former batches, or null. */
  runningVar: Tensor | null;
  /** How many batches there were, int64, or null. */
  numBatchesTracked: Tensor | null;
  readonly #eps: number;
  readonly #momentum: number | null;

  /**
   * Makes the layer.
   *
   * @param channels The length of axis 1.
   * @param options Epsilon, momentum, what to leave out.
   */
  constructor(channels: number, options: BatchNormOptions = {}) {
    super();
    requireSizes(new.target.name, { channels });
    checkOptions(`make a ${new.target.name}`, options, batchRules);
    const { eps = 1e-5, momentum = 0.1, affine = true, trackRunningStats = true } = options;
    this.weight = affine ? parameter(ones([channels])) : null;
    this.bias = affine ? parameter(zeros([channels])) : null;
    this.runningMean = trackRunningStats ? buffer(zeros([channels])) : null;
    this.runningVar = trackRunningStats ? buffer(ones([channels])) : null;
    this.numBatchesTracked = trackRunningStats ? buffer(zeros([], { dtype: "int64" })) : null;
    this.#channels = channels;
    this.#eps = eps;
    this.#momentum = momentum;
  }

  readonly #channels: number;

  /** How many axes an input may have. */
  protected abstract readonly ranks: readonly number[];

  #check(x: Tensor): void {
    requireTensor(`run ${this.constructor.name}`, x);
    if (this.ranks.includes(x.ndim) && x.shape[1] === this.#channels) return;
    throw new ShapeError(
      `Cannot run ${this.constructor.name} on a tensor of shape ${formatShape(x.shape)}: it must ` +
        `have ${this.ranks.join(" or ")} axes, and ${this.#channels} channels on axis 1`,
    );
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
    const perChannel = x.shape.map((n, axis) => axis === 1 ? n : 1);
    const weight = this.weight?.reshape(perChannel), bias = this.bias?.reshape(perChannel);
    const { runningMean, runningVar } = this;
    let out: Tensor;
    if (this.training || !runningMean || !runningVar) {
      const batch = this.#byBatch(x, weight && bias ? [weight, bias] : undefined);
      if (batch.isScaled) return batch.value;
      out = batch.value;
    } else {
      const scale = runningVar.add(this.#eps).rsqrt();
      out = x.sub(runningMean.reshape(perChannel)).mul(scale.reshape(perChannel));
    }
    if (weight) out = out.mul(weight);
    return bias ? out.add(bias) : out;
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
      throw new ShapeError(
        `Cannot train ${this.constructor.name} on a tensor of shape ${formatShape(x.shape)}: the ` +
          `variance of one value a channel is 0`,
      );
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
  /** How many axes an input may have. */
  protected override readonly ranks: readonly number[] = [4];
}

/** {@linkcode BatchNorm2d} for features (N, C) and sequences (N, C, L). */
export class BatchNorm1d extends BatchNorm {
  /** How many axes an input may have. */
  protected override readonly ranks: readonly number[] = [2, 3];
}

/** Options of {@linkcode LayerNorm}. */
export interface LayerNormOptions {
  /** Added to the variance; default 1e-5. */
  eps?: number;
  /** False to leave out weight and bias. */
  affine?: boolean;
  /** False to leave out the bias only. */
  bias?: boolean;
}

/** What the shape of a layer that normalizes last axes may be. */
const layerShape: Rule = {
  takes: "the length of the last axis, or an array with those of several",
  accepts: (value) => {
    const lengths = [value].flat();
    return lengths.length > 0 && lengths.every(takes.whole.accepts);
  },
};

/**
 * The lengths of the last axes, which a layer is made for.
 *
 * @throws {TypeError} When they are no lengths.
 */
export function lastLengths(layer: string, shape: number | Shape): Shape {
  requireValue(`make a ${layer}`, "shape", shape, layerShape);
  return typeof shape === "number" ? [shape] : [...shape];
}

/**
 * The last axes of a tensor, which have the lengths that a layer is made for.
 *
 * @throws {ShapeError} When they have others.
 */
export function lastAxes(layer: string, x: Tensor, lengths: Shape): number[] {
  requireTensor(`run ${layer}`, x);
  const first = x.ndim - lengths.length;
  if (first >= 0 && sameShape(x.shape.slice(first), lengths)) {
    return lengths.map((_, k) => first + k);
  }
  throw new ShapeError(
    `Cannot run ${layer} on a tensor of shape ${formatShape(x.shape)}: its last axes must be ${
      formatShape(lengths)
    }`,
  );
}

const layerRules: Rules<LayerNormOptions> = {
  eps: takes.nonNegative,
  affine: takes.bool,
  bias: takes.bool,
};

/**
 * Normalizes the last axes of each sample (J. Ba et al., Layer Normalization, 2016).
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertAlmostEquals } from "@std/assert";
 *
 * const y = new nn.LayerNorm(4).forward(Tensor.fromHost([[1, 2, 3, 4]]));
 * assertAlmostEquals(await y.square().mean().item(), 1, 1e-4);
 * ```
 */
export class LayerNorm extends Module {
  /** What the normalized elements are multiplied by, or null. */
  weight: Tensor | null;
  /** What is added then, or null. */
  bias: Tensor | null;
  readonly #shape: Shape;
  readonly #eps: number;

  /**
   * Makes the layer.
   *
   * @param shape The lengths of the axes that are normalized over, the last ones.
   * @param options Epsilon, what to leave out.
   */
  constructor(shape: number | Shape, options: LayerNormOptions = {}) {
    super();
    this.#shape = lastLengths("LayerNorm", shape);
    checkOptions("make a LayerNorm", options, layerRules);
    const { eps = 1e-5, affine = true, bias = true } = options;
    this.weight = affine ? parameter(ones(this.#shape)) : null;
    this.bias = affine && bias ? parameter(zeros(this.#shape)) : null;
    this.#eps = eps;
  }

  /**
   * Normalizes each sample.
   *
   * @throws {ShapeError} When the last axes have other lengths.
   */
  forward(x: Tensor): Tensor {
    const axes = lastAxes("LayerNorm", x, this.#shape);
    const { value } = standardize(atLeastSingle(x), axes, this.#eps);
    const scaled = this.weight ? value.mul(this.weight) : value;
    return (this.bias ? scaled.add(this.bias) : scaled).cast(x.dtype);
  }
}
