/** Kernels of CPU devices whose elements are computed in vectors. */
import type { LoopKernel } from "../../../kernel/kernel.ts";
import { generatedLoop } from "../../codegen/generated.ts";
import { emitVectorKernel } from "../../codegen/vectors/vector_kernel.ts";
import { type VectorForm, vectorFormOf, vectorVariant } from "../../codegen/vectors/vector_plan.ts";
import { type LoopTemplate, type Planned, single } from "../parts/template.ts";

interface VectorPlan extends Planned<LoopKernel> {
  readonly form: VectorForm;
}

/** Maps, rows and columns in vectors along one loop. */
export const vectorRows: LoopTemplate<VectorPlan> = {
  name: "vectors",
  matches: (kernel, target) => {
    const form = target.isGpu ? null : vectorFormOf(kernel);
    return form && { kernel, target, form };
  },
  emit: (plan) => single(generatedVectors(plan)),
  workItems: (plan) => generatedVectors(plan).global.reduce((n, size) => n * size, 1),
  variant: ({ kernel, form }) => vectorVariant(kernel, form),
};

function generatedVectors({ kernel, target, form }: VectorPlan) {
  return generatedLoop(
    kernel,
    target,
    (emitter, dialect) => emitVectorKernel(emitter, dialect, form),
  );
}
