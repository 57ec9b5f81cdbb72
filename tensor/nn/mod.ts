/**
 * Layers, models and losses. Names of parameters, layouts and initial values are PyTorch's.
 *
 * Imports the public Tensor API.
 *
 * @module
 */
export { type AnyModule, type LoadReport, Module } from "./module.ts";
export { buffer, parameter } from "./parameter.ts";
/** Initial values of weights. */
export * as init from "./init.ts";
export { Sequential } from "./sequential.ts";
export { Linear } from "./linear.ts";
export { Conv2d, type Conv2dLayerOptions } from "./conv2d.ts";
export { AdaptiveAvgPool2d, AvgPool2d, MaxPool2d } from "./pooling.ts";
export {
  BatchNorm,
  BatchNorm1d,
  BatchNorm2d,
  type BatchNormOptions,
  LayerNorm,
  type LayerNormOptions,
} from "./normalization.ts";
export { Embedding } from "./embedding.ts";
export { Dropout } from "./dropout.ts";
export {
  type AttentionOptions,
  type AttentionResult,
  MultiheadAttention,
  type MultiheadAttentionOptions,
} from "./multihead_attention.ts";
export { Flatten } from "./flatten.ts";
export {
  ELU,
  GELU,
  Identity,
  LeakyReLU,
  ReLU,
  Sigmoid,
  SiLU,
  Softmax,
  Softplus,
  Tanh,
} from "./activations.ts";
export {
  type BCEOptions,
  bceWithLogits,
  BCEWithLogitsLoss,
  crossEntropy,
  CrossEntropyLoss,
  huber,
  HuberLoss,
  type HuberOptions,
  l1,
  L1Loss,
  type LossOptions,
  mse,
  MSELoss,
} from "./losses.ts";
