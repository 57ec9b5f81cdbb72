/** Kernels that tensors are computed by, as planning has them. */
import type { Launchable, LoopKernel } from "../../backend/kernel/kernel.ts";
import type { PlanningDevice } from "../../backend/kernel/template.ts";
import { schedule } from "../../backend/schedule/schedule.ts";
import { noGrad, type Tensor, withDevice } from "../../mod.ts";
import { nodeOf } from "../../tensor/core/internals.ts";

type Make = () => Tensor | readonly Tensor[];

/** The kernels of tensors of the built-in backend, planned for a device; in order. */
export function kernelsOf(make: Make, device?: PlanningDevice): Launchable[] {
  return withDevice("cpu", () =>
    noGrad(() => {
      const nodes = [make()].flat().map((tensor) => nodeOf(tensor));
      return schedule(nodes, device ? { device } : {}).kernels.map(({ kernel }) => kernel);
    }));
}

/** Those of them that are loops. */
export function loopKernelsOf(make: Make, device?: PlanningDevice): LoopKernel[] {
  return kernelsOf(make, device).filter((kernel) => kernel.kind === "loop");
}

/** Those of the loops that are products or convolutions. */
export function contractionsOf(make: Make, device?: PlanningDevice): LoopKernel[] {
  return loopKernelsOf(make, device).filter(({ contraction }) => contraction !== null);
}
