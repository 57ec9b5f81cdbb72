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

function loopMatch(kernel: LoopKernel, target: Target): Match<LoopKernel> {
  return firstMatch<LoopKernel, unknown>(readable(loops, kernel), kernel, target);
}

/** The templates that read all operands of a kernel. */
function readable<T extends Template<LoopKernel>>(
  templates: readonly T[],
  kernel: LoopKernel,
): readonly T[] {
  return readsPacked(kernel) ? templates.filter((each) => each.readsPacked) : templates;
}

/** Writes a loop kernel for a target: the last kernel computes it, those before make its scratch. */
export function generateLoops(kernel: LoopKernel, target: Target): KernelSequence {
  const { template, plan } = kernel.contraction
    ? contractionMatch(kernel, target)
    : loopMatch(kernel, target);
  return template.emit(plan);
}

/** Writes an operation whose loops carry state. */
export function generateSpecial(kernel: SpecialKernel, target: Target): KernelSequence {
  const { template, plan } = firstMatch(specials, kernel, target);
  return template.emit(plan);
}

/** Writes attention, or its gradients. */
export function generateAttention(kernel: AttentionKernel, target: Target): KernelSequence {
  const { template, plan } = firstMatch(attentions, kernel, target);
  return template.emit(plan);
}

/** Plan of a kernel: the template that takes it, and what follows from that. */
export function planKernel(
  kernel: LoopKernel | SpecialKernel | AttentionKernel,
  target: Target,
): KernelPlan {
  switch (kernel.kind) {
    case "special":
      return planned(firstMatch(specials, kernel, target));
    case "attention":
      return planned(firstMatch(attentions, kernel, target));
    case "loop":
      return kernel.contraction ? planContraction(kernel, target) : planLoops(kernel, target);
  }
}

function planned<K, P>({ template, plan }: Match<K, P>): KernelPlan {
  return {
    name: template.name,
    isSpecialized: true,
    sumParts: 1,
    variant: null,
    scratch: template.scratch?.(plan) ?? [],
  };
}

function planContraction(kernel: LoopKernel, target: Target): KernelPlan {
  const match = contractionMatch(kernel, target);
  const isWide = needsWideIndices(kernel, target.narrowEnd);
  return {
    ...planned(match),
    isSpecialized: match.template !== generalContraction,
    sumParts: sumParts(kernel, target),
    variant: isWide ? null : match.template.variant?.(match.plan) ?? null,
  };
}

function planLoops(kernel: LoopKernel, target: Target): KernelPlan {
  const match = loopMatch(kernel, target);
  // Many times 2^31 iterations are no small kernels, whose launches are worth sharing.
  const isWide = needsWideIndices(kernel, target.narrowEnd) || readsPacked(kernel);
  const variant = isWide ? null : match.template.variant?.(match.plan) ?? null;
  return { ...planned(match), variant };
}

/** In how many parts the sum of a contraction is computed, so that the whole device has work. */
export function sumParts(kernel: LoopKernel, target: Target): number {
  if (!target.isGpu && !isUniform(withUnitLoops(kernel).contraction!, target)) return 1;
  const { template, plan } = contractionMatch(kernel, target);
  return (plan.shape && tunedParts(plan.shape, target)) ?? template.sumParts?.(plan) ??
    defaultParts(template.workItems(plan), extent(kernel, kernel.inner), target);
}
