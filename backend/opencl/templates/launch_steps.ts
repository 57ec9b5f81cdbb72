/**
 * Launches of a schedule's kernels: texts, with what a launch of each counts. This is all that
 * the runtime asks the templates for.
 */
import type { DType } from "../../graph/dtype.ts";
import { bytesMoved, bytesWritten } from "../../kernel/analysis.ts";
import {
  type CustomKernelCall,
  extent,
  type HorizontalKernel,
  type Launchable,
  type LoopKernel,
  type SharedKernel,
} from "../../kernel/kernel.ts";
import type { Target } from "../../kernel/target.ts";
import type { Generated } from "../codegen/generated.ts";
import { generateShared, haveOneText } from "../codegen/shared_launch.ts";
import { generateKernel } from "./generate.ts";
import type { KernelSequence } from "./parts/template.ts";

/** Work of a launch, in numbers. */
export interface Work {
  /** Bytes that it must move at least. */
  readonly bytes: number;
  /** Operations on single elements, at most. */
  readonly operations: number;
}

/** One launch: a kernel's text, its name in traces, and its work. */
export interface LaunchStep {
  readonly generated: Generated;
  readonly label: string;
  readonly work: Work;
}

/** Launches of a kernel on a device, in order; all take the same buffers. */
export function launchSteps(
  kernel: Exclude<Launchable, CustomKernelCall>,
  target: Target,
): LaunchStep[] {
  switch (kernel.kind) {
    case "loop":
      return loopSteps(kernel, target);
    case "horizontal":
      return sharedSteps(kernel, target);
    case "special":
      return sequenceSteps(kernel.label, generateKernel(kernel, target), [kernel.output]);
    case "attention":
      return sequenceSteps(kernel.label, generateKernel(kernel, target), kernel.outputs);
  }
}

/** The launches of kernels that read about as much as they write. */
function sequenceSteps(
  label: string,
  kernels: KernelSequence,
  outputs: readonly { readonly dtype: DType; readonly size: number }[],
): LaunchStep[] {
  const work = { bytes: 2 * bytesWritten(outputs), operations: Infinity };
  return kernels.map((generated) => ({ generated, label, work }));
}

/** One launch for kernels of one structure; the writer's word counts where it sees differences. */
function sharedSteps({ members, label }: HorizontalKernel, target: Target): LaunchStep[] {
  const steps = members.map((member) => stepOf(member, target));
  const texts = steps.map(({ generated }) => generated);
  if (!haveOneText(texts)) return steps;
  const total = (key: keyof Work): number => steps.reduce((sum, { work }) => sum + work[key], 0);
  return [{
    generated: generateShared(texts, target.isGpu),
    label: `${label}_x${members.length}`,
    work: { bytes: total("bytes"), operations: total("operations") },
  }];
}

function stepOf(kernel: SharedKernel, target: Target): LaunchStep {
  return (kernel.kind === "loop" ? loopSteps(kernel, target) : launchSteps(kernel, target)).at(-1)!;
}

/** Launches, makers of scratch before the last; bytes that must move count once. */
function loopSteps(kernel: LoopKernel, target: Target): LaunchStep[] {
  const kernels = generateKernel(kernel, target), { label } = kernel;
  const work = {
    bytes: bytesMoved(kernel),
    operations: extent(kernel, [...kernel.outer, ...kernel.inner]) * kernel.exprs.length,
  };
  return kernels.map((generated, k) =>
    k === kernels.length - 1
      ? { generated, label, work }
      : { generated, label: `${label}_prepare`, work: { ...work, bytes: 0 } }
  );
}
