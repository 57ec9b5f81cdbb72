/**
 * Template: a way to compute kernels of one form. A backend has ordered lists of them; the first
 * that matches a kernel writes it. Plans are data, so that what is chosen can be asked without any text.
 *
 * This folder (`parts/`) is what templates have in common: their contract, shapes of contractions,
 * tiles, epilogues. It imports `opencl/codegen/`, `backend/codegen/`, `kernel/` and `graph/`, and
 * no template.
 */
import type { LoopKernel, SpecialKernel } from "../../../kernel/kernel.ts";
import type { LaunchVariant, Scratch } from "../../../kernel/template.ts";
import type { Emitter } from "../../../codegen/emit.ts";
import { type Generated, generatedLoop, type WorkSize } from "../../codegen/generated.ts";
import type { Target } from "../../../kernel/target.ts";

/** Kernels that run one after the other; all of them take the same inputs, outputs and scratch. */
export type KernelSequence = readonly Generated[];

/**
 * One way to compute kernels.
 *
 * @typeParam K The kernels that it is asked about.
 * @typeParam P What it decides about a kernel before any text is written.
 */
export interface Template<K, P = unknown> {
  /** Name in reports. */
  readonly name: string;
  /** It reads operands that are packed in blocks; kernels with such operands pass other templates by. */
  readonly readsPacked?: true;
  /** Decides how a kernel is computed on a device; null where this template cannot, or should not. */
  matches(kernel: K, target: Target): P | null;
  /** Writes the OpenCL C of a plan. */
  emit(plan: P): KernelSequence;
  /** Pieces of work that run side by side: they tell whether a long sum must be split. */
  workItems(plan: P): number;
  /** Buffers behind the outputs, `o1`, `o2`, ... of a kernel with one output; none where it is missing. */
  scratch?(plan: P): readonly Scratch[];
  /** Variant by which kernels of equal structure share a launch; missing or null: they do not. */
  variant?(plan: P): LaunchVariant | null;
}

/** A plan with the template that made it. */
export interface Match<K, P = unknown, T extends Template<K, P> = Template<K, P>> {
  readonly template: T;
  readonly plan: P;
}

/** The first template of a list that matches; the last one of each list matches whatever is left. */
export function firstMatch<K, P, T extends Template<K, P> = Template<K, P>>(
  templates: readonly T[],
  kernel: K,
  target: Target,
): Match<K, P, T> {
  for (const template of templates) {
    const plan = template.matches(kernel, target);
    if (plan !== null) return { template, plan };
  }
  throw new Error(`No template of ${templates.map(({ name }) => name).join(", ")} fits a kernel`);
}

/** A kernel with its device: what every plan contains. */
export interface Planned<K> {
  readonly kernel: K;
  readonly target: Target;
}

/** Templates of loop kernels, and of operations whose loops carry state. */
export type LoopTemplate<P = unknown> = Template<LoopKernel, P>;
export type SpecialTemplate<P = unknown> = Template<SpecialKernel, P>;

/** Writes a plan's loop kernel by one kernel, whose body `write` appends to the emitter. */
export function emitting<P extends Planned<LoopKernel>>(
  write: (emitter: Emitter, plan: P) => WorkSize,
): (plan: P) => Generated[] {
  return (plan) => [generatedLoop(plan.kernel, plan.target, (emitter) => write(emitter, plan))];
}
