/** How a tensor was computed, as `backward` needs to know it. */
import type { Node } from "../../backend/internal.ts";
import type { Tensor } from "./tensor.ts";
import { holdsNode, stateOf } from "./internals.ts";

/**
 * The gradients of an operation's inputs, given that of its result; null where none is needed. An
 * operation with several results gets the gradients of all, null where a result was not used.
 */
export type GradientFn = (
  gradient: Tensor,
  result: Tensor,
  gradients: readonly (Tensor | null)[],
) => readonly (Tensor | null)[];

/** The recorded operation behind a tensor: PyTorch's `grad_fn`. */
export interface GradFn {
  /** The operation. */
  readonly name: string;
  /** What it was computed from. */
  readonly inputs: readonly Tensor[];
  /** The values that the inputs had then; they stay until `backward` lets go of them. */
  readonly values?: readonly Node[];
  /** Which inputs required a gradient then; without it, those that do now. */
  readonly needs?: readonly boolean[];
  /** True once it holds the values of its inputs no more. */
  isReleased?: boolean;
  /** The gradients of the inputs. */
  readonly gradient: GradientFn;
  /** The orders of its results, where it may have several: they share this record. */
  readonly outputs?: readonly number[];
  /** True once `backward` has freed it. */
  readonly isFreed?: boolean;
  /** Where it was called, when anomalies are looked for. */
  readonly stack?: string;
}

/**
 * The record of an operation, with lists of its own: neither comes of a literal, which V8 may put into the
 * old generation where its object lives for a while, and all that it was computed from with it.
 */
export class RecordedOperation implements GradFn {
  /** See {@linkcode GradFn}. */
  isReleased = false;

  /** A record that holds `values`. */
  constructor(
    readonly name: string,
    readonly inputs: readonly Tensor[],
    readonly gradient: GradientFn,
    readonly values: readonly Node[],
    readonly needs: readonly boolean[],
  ) {}
}

/** In place of the record of a tensor that `backward` cannot go through: why, and what to do instead. */
export function noGradFn(name: string, message: string): GradFn {
  const gradient = () => {
    throw new Error(message);
  };
  return { name, isFreed: true, inputs: [], gradient };
}

/** The values of the inputs may go, as far as this operation is concerned. */
export function releaseGradFn(gradFn: GradFn): void {
  if (gradFn.isReleased || !gradFn.values) return;
  gradFn.isReleased = true;
  for (const value of gradFn.values) value.dropForBackward();
}

/** The inputs that a gradient goes on to: those that required one when the operation was recorded. */
export function neededInputs({ inputs, needs }: GradFn): readonly Tensor[] {
  return inputs.filter((input, k) => stateOf(input).needsGrad && (needs?.[k] ?? true));
}

/** The inputs that were assigned since it was recorded: their values are not those that it used. */
export function changedInputs({ inputs, values }: GradFn): readonly Tensor[] {
  if (values === undefined) return [];
  const isChanged = (input: Tensor, k: number): boolean => !holdsNode(input, values[k]!);
  return inputs.some(isChanged) ? inputs.filter(isChanged) : [];
}
