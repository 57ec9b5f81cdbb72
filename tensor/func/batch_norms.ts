/** Batch normalization without running statistics, as functions of a sample need it. */
import { shown } from "../core/rules/options.ts";
import { type AnyModule, Module } from "../nn/module/module.ts";
import { BatchNorm } from "../nn/normalization/batch_norm.ts";

/**
 * Takes the running statistics out of all batch normalizations within a module: they normalize by the batch
 * from then on, in training and in use. Within `vmap` a layer sees a batch for each sample, and could not
 * keep statistics for all.
 *
 * @param module The module, which is changed.
 * @returns The same module.
 *
 * @example
 * ```ts
 * import { func, nn, Tensor } from "@netcl/netcl";
 *
 * const model = func.replaceAllBatchNormModules(new nn.Sequential(new nn.BatchNorm1d(3)));
 * const each = func.vmap((x: Tensor) => model.forward(x))(Tensor.randn([4, 8, 3]));
 * console.assert(each.mean(1).abs().max().itemSync() < 1e-5);
 * ```
 */
export function replaceAllBatchNormModules<M extends AnyModule>(module: M): M {
  if (!(module instanceof Module)) {
    throw new TypeError(`Cannot replace batch normalizations of ${shown(module)}: pass a module`);
  }
  for (const each of module.modules()) {
    if (!(each instanceof BatchNorm)) continue;
    each.runningMean = each.runningVar = each.numBatchesTracked = null;
  }
  return module;
}
