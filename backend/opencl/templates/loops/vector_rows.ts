/** Kernels of CPU devices whose elements are computed in vectors. */
import type { LoopKernel } from "../../../kernel/kernel.ts";
import { emitVectorKernel } from "../../codegen/vectors/vector_kernel.ts";
import { type VectorForm, vectorFormOf, vectorVariant } from "../../codegen/vectors/vector_plan.ts";
import { emitting, type LoopTemplate, type Planned } from "../parts/template.ts";

interface VectorPlan extends Planned<LoopKernel> {
  readonly form: VectorForm;
}

const emitVectors = emitting<VectorPlan>((emitter, { form }) => emitVectorKernel(emitter, form));

/** Maps, rows and columns in vectors along one loop. */
export const vectorRows: LoopTemplate<VectorPlan> = {
  name: "vectors",
  matches: (kernel, target) => {
    const form = target.isGpu ? null : vectorFormOf(kernel);
    return form && { kernel, target, form };
  },
  emit: emitVectors,
  workItems: (plan) => emitVectors(plan)[0]!.global.reduce((n, size) => n * size, 1),
  variant: ({ kernel, form }) => vectorVariant(kernel, form),
};
