/** Normalizations, and losses of classifiers. */
import type { Tensor } from "../../../core/mod.ts";
import type { Call, Operator, Operators } from "../core/call.ts";
import { fromFront } from "../core/places.ts";

/** One number a channel, so that it broadcasts to an image. */
function perChannel(x: Tensor, ndim: number): Tensor {
  return x.reshape([-1, ...new Array<number>(ndim - 2).fill(1)]);
}

function batchNormalization(call: Call): Tensor | Tensor[] {
  const x = call.tensor(0), epsilon = call.float("epsilon", 1e-5);
  const [scale, bias, mean, variance] = [1, 2, 3, 4].map((k) => call.tensor(k)) as [
    Tensor,
    Tensor,
    Tensor,
    Tensor,
  ];
  const each = (t: Tensor) => perChannel(t.cast(x.dtype), x.ndim);
  const apply = (m: Tensor, v: Tensor) => {
    const factor = scale.cast(v.dtype).div(v.add(epsilon).sqrt());
    return x.mul(each(factor)).add(each(bias.cast(v.dtype).sub(m.mul(factor))));
  };
  if (call.int("training_mode", 0) === 0) return apply(mean, variance);
  const axes = x.shape.map((_, k) => k).filter((k) => k !== 1),
    momentum = call.float("momentum", 0.9);
  const own = x.mean(axes), spread = x.variance(axes, { correction: 0 });
  const kept = (old: Tensor, now: Tensor) =>
    old.mul(momentum).add(now.mul(1 - momentum)).cast(old.dtype);
  return [apply(own, spread), kept(mean, own), kept(variance, spread)];
}

/** Brings the elements of some axes to mean 0 and variance 1. */
function standardized(x: Tensor, axes: number[], epsilon: number): Tensor {
  const centered = x.sub(x.mean(axes, { keepDims: true }));
  return centered.mul(centered.square().mean(axes, { keepDims: true }).add(epsilon).rsqrt());
}

function instanceNormalization(call: Call): Tensor {
  const x = call.tensor(0), axes = x.shape.map((_, k) => k).slice(2);
  const out = standardized(x, axes, call.float("epsilon", 1e-5));
  return out.mul(perChannel(call.tensor(1), x.ndim)).add(perChannel(call.tensor(2), x.ndim));
}

function groupNormalization(call: Call): Tensor {
  const x = call.tensor(0), groups = call.int("num_groups", 1), [n, c] = x.shape as number[];
  const out = standardized(x.reshape([n!, groups, -1]), [2], call.float("epsilon", 1e-5));
  const [scale, bias] = [call.tensor(1), call.tensor(2)];
  // Before version 21 there is one factor a group.
  if (scale.size === groups && groups !== c) {
    const each = (t: Tensor) => t.reshape([groups, 1]);
    return out.mul(each(scale)).add(each(bias)).reshape(x.shape);
  }
  return out.reshape(x.shape).mul(perChannel(scale, x.ndim)).add(perChannel(bias, x.ndim));
}

function lastAxes(call: Call, x: Tensor): number[] {
  const axis = call.int("axis", -1);
  return x.shape.map((_, k) => k).slice(fromFront(axis, x.ndim));
}

function layerNormalization(call: Call): Tensor[] {
  const given = call.tensor(0), axes = lastAxes(call, given);
  const x = given.dtype === "float16" || given.dtype === "bfloat16" ? given.cast("float32") : given;
  const mean = x.mean(axes, { keepDims: true }), centered = x.sub(mean);
  const variance = centered.square().mean(axes, { keepDims: true });
  const inverse = variance.add(call.float("epsilon", 1e-5)).rsqrt();
  const out = centered.mul(inverse).cast(given.dtype).mul(call.tensor(1)), bias = call.optional(2);
  return [bias ? out.add(bias) : out, mean, inverse].slice(0, Math.max(1, call.outputs));
}

function rmsNormalization(call: Call): Tensor {
  const given = call.tensor(0), axes = lastAxes(call, given);
  const x = given.dtype === "float16" || given.dtype === "bfloat16" ? given.cast("float32") : given;
  const factor = x.square().mean(axes, { keepDims: true }).add(call.float("epsilon", 1e-5)).rsqrt();
  return x.mul(factor).cast(given.dtype).mul(call.tensor(1));
}

/** Sums of squares of neighbouring channels. */
function localResponse(call: Call): Tensor {
  const x = call.tensor(0), size = call.int("size", 1), before = Math.floor((size - 1) / 2);
  const none = x.shape.slice(2).map((): [number, number] => [0, 0]), c = x.shape[1]!;
  const squares = x.square().pad([[0, 0], [before, size - 1 - before], ...none], 0);
  const sum = Array.from({ length: size }, (_, k) => squares.slice(null, [k, k + c]))
    .reduce((a, b) => a.add(b));
  const factor = sum.mul(call.float("alpha", 1e-4) / size).add(call.float("bias", 1));
  return x.div(factor.pow(call.float("beta", 0.75)));
}

function lpNormalization(call: Call): Tensor {
  const x = call.tensor(0), axis = call.int("axis", -1), options = { keepDims: true };
  const norm = call.int("p", 2) === 1
    ? x.abs().sum(axis, options)
    : x.square().sum(axis, options).sqrt();
  return norm.eq(0).where(x.mul(0), x.div(norm));
}

/** The negative log likelihood of each label, weighted, and its mean or sum. */
function likelihood(call: Call, logits: Tensor): Tensor {
  const labels = call.tensor(1), weights = call.optional(2);
  const ignored = call.says("ignore_index") ? labels.eq(call.int("ignore_index", 0)) : null;
  const known = ignored ? labels.maskedFill(ignored, 0) : labels;
  const picked = logits.gather(1, known.unsqueeze(1)).squeeze(1).neg();
  const all = weights
    ? weights.indexSelect(0, known.flatten()).reshape(known.shape)
    : picked.onesLike();
  const weight = ignored ? all.maskedFill(ignored, 0) : all;
  const loss = ignored ? picked.mul(weight).maskedFill(ignored, 0) : picked.mul(weight);
  const reduction = call.text("reduction", "mean");
  if (reduction === "none") return loss;
  return reduction === "sum" ? loss.sum() : loss.sum().div(weight.sum());
}

const crossEntropy: Operator = (call) => {
  const logs = call.tensor(0).logSoftmax(1);
  return [likelihood(call, logs), logs].slice(0, Math.max(1, call.outputs));
};

/** Normalizations and losses, by their kinds. */
export const normalizations: Operators = {
  BatchNormalization: batchNormalization,
  InstanceNormalization: instanceNormalization,
  GroupNormalization: groupNormalization,
  LayerNormalization: layerNormalization,
  RMSNormalization: rmsNormalization,
  // Of onnxruntime's optimizer, which gives it ONNX's own domain.
  SimplifiedLayerNormalization: rmsNormalization,
  MeanVarianceNormalization: (call) => {
    const x = call.tensor(0), axes = call.ints("axes") ?? [0, 2, 3];
    const centered = x.sub(x.mean(axes, { keepDims: true }));
    return centered.div(centered.square().mean(axes, { keepDims: true }).sqrt().add(1e-9));
  },
  LRN: localResponse,
  LpNormalization: lpNormalization,
  NegativeLogLikelihoodLoss: (call) => likelihood(call, call.tensor(0)),
  SoftmaxCrossEntropyLoss: crossEntropy,
};
