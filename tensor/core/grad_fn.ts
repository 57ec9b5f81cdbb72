/** Computation of a tensor, as `backward` needs to know it. */
import type { Node } from "../../backend/internal.ts";
import type { Tensor } from "./mod.ts";
import { holdsNode, stateOf } from "./internals.ts";
import { RecordLife } from "./modes/records.ts";

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
  /** Tensors it was computed from. */
  readonly inputs: readonly Tensor[];
  /** The values that the inputs had then; they stay until `backward` lets go of them. */
  readonly values?: readonly Node[];
  /** Inputs that required a gradient then; without it, those that do now. */
  readonly needs?: readonly boolean[];
  /** The gradients of the inputs. */
  readonly gradient: GradientFn;
  /** The orders of its results, where it may have several: they share this record. */
  readonly outputs?: readonly number[] | undefined;
  /** True once `backward` has freed it. */
  readonly isFreed?: boolean;
  /** Function of the program that computes the gradients; `gradient` then takes what it gave. */
  readonly user?: UserGradient | undefined;
  /** Repeated computation of its results for their graph, in which `backward` goes on. */
  readonly repetition?: Repetition | undefined;
  /** Stack of its call, when anomalies are looked for. */
  readonly stack?: string | undefined;
  /** Notes one more that may go backward through it. */
  retain?(): void;
  /** Takes a `retain` back: the last one ends it. */
  letGo?(): void;
  /** Ends it, and those that were made in the same call of an operation: the values that they hold may go. */
  end?(): void;
  /** Lets go of the values of this operation alone. */
  release?(): void;
}

/**
 * A gradient that a function of the program computes. `backward` calls it between parts of its walk, as it does
 * hooks, so that what it does is the program's own: `compile` follows it in every call.
 */
export interface UserGradient {
  /** The function; another call of the operation has one that does the same with other arguments. */
  readonly ask: (gradients: Tensor[], inputs: Tensor[], results: Tensor[]) => unknown;
  /** The results that it gets, each with its gradient. */
  resultsOf(
    results: readonly Tensor[],
    gradients: readonly (Tensor | null)[],
  ): { readonly results: Tensor[]; readonly gradients: Tensor[] };
  /** The gradients of the inputs in what it gave; throws where it gave something else. */
  gradientsIn(given: unknown): (Tensor | null)[];
}

/** Source of a graph for `backward` of results that were computed without one. */
export interface Repetition {
  /**
   * Computes the results again, with a graph; null where the gradient of the operation is to be asked
   * nevertheless.
   */
  run(): readonly Tensor[] | null;
  /** Recomputed tensors that stay, where gradients are to be differentiated. */
  kept: readonly Tensor[] | null;
  /** True where hooks of the results are hooks of what is computed again: they see all of its gradient. */
  readonly hasHooks: boolean;
}

/** Particulars of a record that most have not; see {@linkcode GradFn}. */
export interface RecordOptions {
  /** Nodes that the gradients are made from, beside inputs and what is made in the same call. */
  readonly kept?: Iterable<Node>;
  /** See {@linkcode GradFn}. */
  readonly outputs?: readonly number[];
  /** See {@linkcode GradFn}. */
  readonly user?: UserGradient;
  /** See {@linkcode GradFn}. */
  readonly repetition?: Repetition;
}

/**
 * The record of an operation, with lists of its own: neither comes of a literal, which V8 may put into the
 * old generation where its object lives for a while, and all that it was computed from with it.
 */
export class RecordedOperation extends RecordLife implements GradFn {
  /** See {@linkcode GradFn}. */
  readonly outputs: readonly number[] | undefined;
  /** See {@linkcode GradFn}. */
  readonly user: UserGradient | undefined;
  /** See {@linkcode GradFn}. */
  repetition: Repetition | undefined;
  /** See {@linkcode GradFn}. */
  stack: string | undefined = undefined;

  /** A record that holds `values`, the first of which are those of the inputs. */
  constructor(
    readonly name: string,
    readonly inputs: readonly Tensor[],
    readonly gradient: GradientFn,
    values: readonly Node[],
    readonly needs: readonly boolean[],
    below: RecordedOperation[] | null,
    { outputs, user, repetition }: RecordOptions,
  ) {
    super(values, below);
    this.outputs = outputs;
    this.user = user;
    this.repetition = repetition;
  }
}

/** In place of the record of a tensor that `backward` cannot go through: why, and what to do instead. */
export function noGradFn(name: string, message: string): GradFn {
  const gradient = () => {
    throw new Error(message);
  };
  return { name, isFreed: true, inputs: [], gradient };
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
