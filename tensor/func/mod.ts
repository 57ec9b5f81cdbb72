/**
 * Functions of tensors to functions of tensors, as in `torch.func` and JAX: derivatives, batches.
 *
 * @module
 */
export { type ArgumentOptions, grad, hvp, jvp, valueAndGrad, vjp } from "./derivatives.ts";
export { functionalCall } from "./functional_call.ts";
export { hessian, jacfwd, jacobian, jacrev } from "./jacobians.ts";
export { vmap, type VmapOptions } from "./vmap.ts";
