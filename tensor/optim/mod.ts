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
export { RMSProp, type RMSPropOptions } from "./rmsprop.ts";
export { clipGradNorm, clipGradValue } from "./clip_grad.ts";
export {
  CosineAnnealingLR,
  ExponentialLR,
  LambdaLR,
  LinearLR,
  MultiStepLR,
  type Rate,
  Scheduler,
  type SchedulerState,
  SequentialLR,
  StepLR,
} from "./scheduler.ts";
export {
  type PlateauOptions,
  type PlateauState,
  ReduceLROnPlateau,
} from "./reduce_lr_on_plateau.ts";
