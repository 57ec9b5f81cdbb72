/**
 * What the kernels of a schedule are launched as: texts, with what a launch of each counts. This is all that
 * the runtime asks the templates for.
 */
import { type DType, dtypes } from "../../graph/dtype.ts";
import {
  type CustomKernelCall,
  extent,
  type HorizontalKernel,
  type Launchable,
  type LoopKernel,
} from "../../kernel/kernel.ts";
import type { Target } from "../../kernel/target.ts";
import type { Generated } from "../codegen/generated.ts";
import { generateShared, haveOneText } from "../codegen/shared_launch.ts";
import { generateAttention, generateLoops, generateSpecial } from "./generate.ts";
import type { KernelSequence } from "./parts/template.ts";

/** What a launch does, in numbers. */
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

/** What a kernel is launched as on a device, in order; all launches take the same buffers. */
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
      return sequenceSteps(kernel.label, generateSpecial(kernel, target), [kernel.output]);
    case "attention":
      return sequenceSteps(kernel.label, generateAttention(kernel, target), kernel.outputs);
  }
}

/** The launches of kernels that read about as much as they write. */
function sequenceSteps(
  label: string,
  { kernels }: KernelSequence,
  outputs: readonly { readonly dtype: DType; readonly size: number }[],
): LaunchStep[] {
  const written = outputs.reduce((sum, o) => sum + o.size * dtypes[o.dtype].bytes, 0);
  const work = { bytes: 2 * written, operations: Infinity };
  return kernels.map((generated) => ({ generated, label, work }));
}

/** One launch for kernels of one structure; the writer's word counts where it sees differences. */
function sharedSteps({ members, label }: HorizontalKernel, target: Target): LaunchStep[] {
  const steps = members.map((member) => stepOf(member, target));
  const texts = steps.map(({ generated }) => generated);
  if (!haveOneText(texts)) return steps;
  const total = (key: keyof Work): number => steps.reduce((sum, { work }) => sum + work[key], 0);
  return [{
    generated: generateShared(texts),
    label: `${label}_x${members.length}`,
    work: { bytes: total("bytes"), operations: total("operations") },
  }];
}

function stepOf(kernel: LoopKernel, target: Target): LaunchStep {
  return loopSteps(kernel, target).at(-1)!;
}

/** What makes scratch for the last launch comes before; the bytes that must move are counted once. */
function loopSteps(kernel: LoopKernel, target: Target): LaunchStep[] {
  const { kernels } = generateLoops(kernel, target), { label } = kernel;
  const work = {
    bytes: bytesOf(kernel),
    operations: extent(kernel, [...kernel.outer, ...kernel.inner]) * kernel.exprs.length,
  };
  return kernels.map((generated, k) =>
    k === kernels.length - 1
      ? { generated, label, work }
      : { generated, label: `${label}_prepare`, work: { ...work, bytes: 0 } }
  );
}

/** Bytes that a kernel must move: each input and output once. */
function bytesOf(kernel: LoopKernel): number {
  const { contraction } = kernel;
  const loads = contraction ? [...kernel.loads, contraction.a, contraction.b] : kernel.loads;
  let bytes = 0;
  for (const load of loads) {
    const symbols = load.index.terms.map(([s]) => kernel.sizes[s]!);
    bytes += symbols.reduce((a, b) => a * b, 1) * dtypes[load.dtype].bytes;
  }
  for (const output of kernel.outputs) bytes += output.size * dtypes[output.dtype].bytes;
  return bytes;
}
