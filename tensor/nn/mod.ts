/**
 * Layers, models and losses. Names of parameters, layouts and initial values are PyTorch's.
 *
 * Imports the public Tensor API.
 *
 * @module
 */
export { type AnyModule, type LoadReport, Module } from "./module.ts";
export { buffer, parameter } from "./parameter.ts";
export * as init from "./init.ts";
export { Sequential } from "./sequential.ts";
export { Linear } from "./linear.ts";
export { Conv2d, type Conv2dLayerOptions } from "./conv2d.ts";
export { AdaptiveAvgPool2d, AvgPool2d, MaxPool2d } from "./pooling.ts";
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
