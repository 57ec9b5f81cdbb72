/** OpenCL C for kernels: the first template that matches writes it. Nothing here knows the runtime. */
import { extent, type LoopKernel, type SpecialKernel } from "../../kernel/kernel.ts";
import type { Generated } from "../codegen/generated.ts";
import type { Target } from "../codegen/target.ts";
import { generalContraction } from "./gemm/general_contraction.ts";
import { contractions, loops, specials } from "./lists.ts";
import { type ContractionPlan, isUniform } from "./parts/contraction_shape.ts";
import { firstMatch, type KernelSequence, type Match } from "./parts/template.ts";
import { defaultParts, tunedParts } from "./parts/tiling.ts";

/** How a contraction is computed on a device. */
export function contractionMatch(
  kernel: LoopKernel,
  target: Target,
): Match<LoopKernel, ContractionPlan> {
  return firstMatch(contractions, kernel, target);
}

/** Writes a loop kernel for a target. */
export function generateLoop(kernel: LoopKernel, target: Target): Generated {
  const list = kernel.contraction ? contractions : loops;
  const { template, plan } = firstMatch<LoopKernel, unknown>(list, kernel, target);
  return template.emit(plan).kernels[0]!;
}

/** Writes an operation whose loops carry state. */
export function generateSpecial(kernel: SpecialKernel, target: Target): KernelSequence {
  const { template, plan } = firstMatch(specials, kernel, target);
  return template.emit(plan);
}

/** True where a template reads a contraction's masked operands as they are, padding included. */
export function supportsImplicitPadding(kernel: LoopKernel, target: Target): boolean {
  return contractionMatch(kernel, target).template !== generalContraction;
}

/** In how many parts the sum of a contraction is computed, so that the whole device has work. */
export function sumParts(kernel: LoopKernel, target: Target): number {
  if (!isUniform(kernel.contraction!, target)) return 1;
  const { template, plan } = contractionMatch(kernel, target);
  const tuned = plan.shape && tunedParts(plan.shape, target);
  return tuned ?? defaultParts(template.workItems(plan), extent(kernel, kernel.inner), target);
}
