/**
 * Planning's view of how a backend computes kernels: an ordered list of templates. Which
 * one takes a kernel is decided by the kernel's structure and data about the device alone.
 */
import type { DType } from "../graph/dtype.ts";
import type { CustomKernelCall, Kernel, PreparedOperand } from "./kernel.ts";
import type { Target } from "./target.ts";

/** Decision of a template about a kernel, as far as planning is concerned. */
export interface KernelPlan {
  /** The template. */
  readonly name: string;
  /** It is written for kernels of this form, padded operands of contractions included. */
  readonly isSpecialized: boolean;
  /** In how many parts a contraction's sum should be computed, so that the whole device has work. */
  readonly sumParts: number;
  /** Variant for shared launches; null where it cannot share. */
  readonly variant: LaunchVariant | null;
  /** Buffers that it takes behind its outputs, of no use to others. */
  readonly scratch: readonly Scratch[];
}

/** A buffer that lives while a kernel runs. */
export interface Scratch {
  readonly dtype: DType;
  /** Elements. */
  readonly size: number;
  /** An operand that is prepared in it, which other kernels may need so; null or missing: nothing of the kind. */
  readonly content?: ScratchContent;
  /** The input that all of it follows from, one of the kernel's `lasting`: it is kept while that is the same. */
  readonly keptFor?: number;
}

/** Preparation of a kernel's input: the same where input and key are. */
export interface ScratchContent {
  readonly name: PreparedOperand["name"];
  readonly input: number;
  readonly key: string;
  /** It is small beside what kernels do with it: worth its memory until the last one that needs it. */
  readonly isLasting?: true;
}

/** Further data that a kernel's text depends on: equal structures and keys have one text. */
export interface LaunchVariant {
  readonly key: string;
  /** Indices among the arguments that come on top of those of the kernel's structure. */
  readonly numbers: number;
  /** Most copies of the statements of an element. */
  readonly copies: number;
}

/** Decides which template takes a kernel: the same for equal kernels and targets, without any device. */
export type KernelPlanner = (
  kernel: Exclude<Kernel, CustomKernelCall>,
  target: Target,
) => KernelPlan;

/** Device to plan kernels for. */
export interface PlanningDevice {
  readonly target: Target;
  /** Choice among the backend's templates; null where every kernel is computed in one way. */
  readonly planKernel: KernelPlanner | null;
  /** True where a plan is run again and again with most of its stored inputs; default: false. */
  readonly keepsPrepared?: boolean;
}
