/**
 * Optimizers: how parameters change by their gradients. Names and defaults are PyTorch's, and so are
 * the trajectories.
 *
 * Imports the public Tensor API.
 *
 * @module
 */
export { type Assign, Optimizer, type StepOptions, type Update } from "./optimizer.ts";
export { type GroupOptions, type OptimizerOptions, ParameterGroup } from "./parameter_group.ts";
export { SGD, type SGDOptions } from "./sgd.ts";
export { Adam, type AdamOptions, AdamW } from "./adam.ts";
