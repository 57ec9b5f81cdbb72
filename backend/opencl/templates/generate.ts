/** OpenCL C for kernels: the first template that matches writes it. Nothing here knows the runtime. */
import type { AttentionKernel } from "../../kernel/attention.ts";
import { extent, type LoopKernel, readsPacked, type SpecialKernel } from "../../kernel/kernel.ts";
import { needsWideIndices } from "../../kernel/index_range.ts";
import type { KernelPlan } from "../../kernel/template.ts";
import type { Target } from "../../kernel/target.ts";
import { generalContraction } from "./gemm/general_contraction.ts";
import { attentions, contractions, loops, specials } from "./lists.ts";
import {
  type ContractionPlan,
  type ContractionTemplate,
  isUniform,
  withUnitLoops,
} from "./parts/contraction_shape.ts";
import { firstMatch, type KernelSequence, type Match, type Template } from "./parts/template.ts";
import { defaultParts, tunedParts } from "./parts/tiling.ts";

/** Match of a contraction on a device. */
export function contractionMatch(
  kernel: LoopKernel,
  target: Target,
): Match<LoopKernel, ContractionPlan, ContractionTemplate> {
  const whole = target.isGpu ? kernel : withUnitLoops(kernel);
  return firstMatch<LoopKernel, ContractionPlan, ContractionTemplate>(
    readable(contractions, kernel),
    whole,
    target,
  );
}

/** The templates that read all operands of a kernel. */
function readable<T extends Template<LoopKernel>>(
  templates: readonly T[],
  kernel: LoopKernel,
): readonly T[] {
  return readsPacked(kernel) ? templates.filter((each) => each.readsPacked) : templates;
}

/** Kernels that templates write. */
type Written = LoopKernel | SpecialKernel | AttentionKernel;

function matchOf(kernel: Written, target: Target): Match<never> {
  switch (kernel.kind) {
    case "special":
      return firstMatch(specials, kernel, target);
    case "attention":
      return firstMatch(attentions, kernel, target);
    case "loop":
      return kernel.contraction
        ? contractionMatch(kernel, target)
        : firstMatch(readable(loops, kernel), kernel, target);
  }
}

/** Writes a kernel for a target: the last of a sequence computes a loop kernel, those before make its scratch. */
export function generateKernel(kernel: Written, target: Target): KernelSequence {
  const { template, plan } = matchOf(kernel, target);
  return template.emit(plan);
}

/** Plan of a kernel: the template that takes it, and what follows from that. */
export function planKernel(kernel: Written, target: Target): KernelPlan {
  const { template, plan } = matchOf(kernel, target);
  const isProduct = kernel.kind === "loop" && kernel.contraction !== null;
  // Many times 2^31 iterations are no small kernels, whose launches are worth sharing.
  const isShared = kernel.kind === "loop" && !needsWideIndices(kernel, target.narrowEnd) &&
    (isProduct || !readsPacked(kernel));
  return {
    name: template.name,
    isSpecialized: template !== generalContraction,
    sumParts: isProduct ? sumParts(kernel, target) : 1,
    variant: isShared ? template.variant?.(plan) ?? null : null,
    scratch: template.scratch?.(plan) ?? [],
  };
}

/** In how many parts the sum of a contraction is computed, so that the whole device has work. */
export function sumParts(kernel: LoopKernel, target: Target): number {
  if (!target.isGpu && !isUniform(withUnitLoops(kernel).contraction!, target)) return 1;
  const { template, plan } = contractionMatch(kernel, target);
  return (plan.shape && tunedParts(plan.shape, target)) ?? template.sumParts?.(plan) ??
    defaultParts(template.workItems(plan), extent(kernel, kernel.inner), target);
}
