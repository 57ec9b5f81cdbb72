/**
 * Optimizers: how parameters change by their gradients. Names and defaults are PyTorch's, and so are
 * the trajectories.
 *
 * This folder imports `nn/module/`, `ops/`, `execution/` and `core/`. Parameters with gradients
 * come in; new values are assigned to them.
 *
 * @example A training loop
 * ```ts
 * import { nn, optim, Tensor } from "@netcl/netcl";
 *
 * const model = new nn.Linear(3, 1);
 * const optimizer = new optim.AdamW(model.parameters(), { lr: 0.05 });
 * const scheduler = new optim.CosineAnnealingLR(optimizer, { tMax: 10 });
 * for (let epoch = 0; epoch < 10; epoch++) {
 *   using x = Tensor.rand([16, 3]), y = x.sum(1, { keepDims: true });
 *   using loss = nn.mse(model.forward(x), y);
 *   optimizer.zeroGrad();
 *   loss.backward();
 *   optim.clipGradNorm(model.parameters(), 1);
 *   optimizer.step();
 *   scheduler.step();
 * }
 * console.assert(optimizer.lr < 1e-9);
 * ```
 *
 * @module
 */
export { type Assign, Optimizer, type StepOptions, type Update } from "./optimizer/optimizer.ts";
export {
  type GroupOptions,
  type OptimizerOptions,
  type OptimizerParameters,
  ParameterGroup,
} from "./optimizer/parameter_group.ts";
export { SGD, type SGDOptions } from "./algorithms/sgd.ts";
export { Adam, type AdamOptions, AdamW } from "./algorithms/adam.ts";
export { AveragedModel, type AveragedModelOptions } from "./averaged_model.ts";
export { Adagrad, type AdagradOptions } from "./algorithms/adagrad.ts";
export { NAdam, type NAdamOptions } from "./algorithms/nadam.ts";
export { RAdam, type RAdamOptions } from "./algorithms/radam.ts";
export { Adafactor, type AdafactorOptions } from "./algorithms/adafactor.ts";
export { Muon, type MuonOptions } from "./algorithms/muon.ts";
export { Lion, type LionOptions } from "./algorithms/lion.ts";
export { type Closure, LBFGS, type LBFGSOptions, type LBFGSState } from "./algorithms/lbfgs.ts";
export { RMSprop, type RMSpropOptions } from "./algorithms/rmsprop.ts";
export { clipGradNorm, clipGradValue } from "./clip_grad.ts";
export {
  CosineAnnealingLR,
  ExponentialLR,
  LambdaLR,
  LinearLR,
  type MomentumAt,
  MultiStepLR,
  PolynomialLR,
  type Rate,
  Scheduler,
  type SchedulerState,
  SequentialLR,
  StepLR,
} from "./schedules/scheduler.ts";
export {
  CosineAnnealingWarmRestarts,
  OneCycleLR,
  type OneCycleOptions,
} from "./schedules/one_cycle.ts";
export {
  type PlateauOptions,
  type PlateauState,
  ReduceLROnPlateau,
} from "./schedules/reduce_lr_on_plateau.ts";
