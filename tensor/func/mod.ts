/**
 * Functions of tensors to functions of tensors, as in `torch.func` and JAX: derivatives, batches.
 *
 * @module
 */
export { replaceAllBatchNormModules } from "./batch_norms.ts";
export {
  type ArgumentOptions,
  type Arguments,
  type ByArgument,
  grad,
  type GradOptions,
  hvp,
  jvp,
  linearize,
  valueAndGrad,
  vjp,
} from "./derivatives.ts";
export { functionalCall } from "./functional_call.ts";
export { hessian, jacfwd, type Jacobian, jacobian, jacrev } from "./jacobians.ts";
export { type SampleAxes, vmap, type VmapOptions } from "./vmap.ts";
