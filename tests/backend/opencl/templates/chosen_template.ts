/** The template that takes a product, found without a device. */
import type { LoopKernel } from "../../../../backend/kernel/kernel.ts";
import { hostTarget, type Target } from "../../../../backend/kernel/target.ts";
import { contractionMatch, generateKernel } from "../../../../backend/opencl/templates/generate.ts";
import { planningRules } from "../../../../backend/opencl/runtime/device_target.ts";
import { type Tensor, withDevice } from "../../../../mod.ts";
import { contractionsOf } from "../../loop_kernels.ts";
import { planner } from "../../schedule/nodes.ts";

/** A GPU with matrix units. */
export const gpuTarget: Target = {
  isGpu: true,
  matrixUnits: "mma",
  warps: true,
  warpgroups: false,
  narrowEnd: 2 ** 31,
  localMemory: 49152,
  computeUnits: 132,
  vectorWidth: 1,
  tuned: new Map(),
  ...planningRules(true, 132, 4352),
};

/** A processor of wide vectors. */
export const wideTarget: Target = {
  ...hostTarget,
  isGpu: false,
  vectorWidth: 16,
  localMemory: 2 ** 21,
  computeUnits: 2,
};

/** The contraction among the kernels of a tensor. */
export function contractionOf(make: () => Tensor, { isGpu }: Target): LoopKernel {
  return contractionsOf(make, { target: { ...hostTarget, isGpu }, planKernel: planner() })[0]!;
}

/** The text of its kernel. */
export function textOf(make: () => Tensor, target: Target): string {
  const kernels = withDevice("cpu", () => generateKernel(contractionOf(make, target), target));
  return kernels.at(-1)!.source;
}

/** The name of the template that takes it. */
export function templateOf(make: () => Tensor, target: Target = gpuTarget): string {
  return withDevice(
    "cpu",
    () => contractionMatch(contractionOf(make, target), target).template.name,
  );
}
