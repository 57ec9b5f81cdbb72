/**
 * The walk from results to what they were computed from, the last made first: `backward` and `grad` go
 * it, and the plan of what to save for them.
 */
import { withoutAutocast } from "../core/autocast.ts";
import { type GradFn, neededInputs } from "../core/grad_fn.ts";
import { goingBackward, stateOf } from "../core/internals.ts";
import { withTemporaries } from "../core/modes/temporaries.ts";
import type { Need } from "../../backend/internal.ts";
import type { Tensor } from "../core/tensor.ts";

/** What is done on the way. */
export interface Walk {
  /** True for tensors that it does not go beyond. */
  isEnd(tensor: Tensor): boolean;
  /**
   * Called with the gradient of every tensor that has one, once all parts of it have been added.
   *
   * @param isSum Whether it had several parts.
   * @returns The gradient to go on with.
   */
  visit(tensor: Tensor, gradient: Tensor, isSum: boolean): Tensor;
  /**
   * Goes through an operation.
   *
   * @param results The results that were used.
   * @param gradients Those of all results, null for one that was not used.
   * @returns The gradients of its inputs.
   */
  pass(
    gradFn: GradFn,
    results: readonly Tensor[],
    gradients: readonly (Tensor | null)[],
  ): readonly (Tensor | null)[];
}

/** The gradient of an operation with several results is asked for once all of theirs have been added up. */
class OutputGradients {
  readonly #gradFn: GradFn;
  readonly gradients: (Tensor | null)[];
  readonly results: Tensor[] = [];
  #expected = 0;

  constructor(gradFn: GradFn) {
    this.#gradFn = gradFn;
    this.gradients = gradFn.outputs!.map(() => null);
  }

  expect(): void {
    this.#expected++;
  }

  /** Takes the gradient of a result, null where it has none; true when it was the last, and any has one. */
  add(result: Tensor, gradient: Tensor | null): boolean {
    this.gradients[this.#gradFn.outputs!.indexOf(stateOf(result).order)] = gradient;
    this.results.push(result);
    return --this.#expected === 0 && this.gradients.some((g) => g !== null);
  }
}

/**
 * Walks the graph from the roots.
 *
 * @param roots Where it begins.
 * @param seeds Their gradients.
 * @param walk What is done on the way.
 * @param kept For how long the user may read the gradients that are made.
 */
export function walkBackward(
  roots: readonly Tensor[],
  seeds: readonly Tensor[],
  walk: Walk,
  kept?: Need,
): void {
  const run = (): void => new Walker(walk).run(roots, seeds);
  goingBackward(() => withoutAutocast(() => withTemporaries(run, kept)));
}

class Walker {
  readonly #walk: Walk;
  /** What has been added up so far. */
  readonly #gradients = new Map<Tensor, Tensor>();
  readonly #sums = new Set<Tensor>();
  /** Those of operations with several results. */
  readonly #outputs = new Map<GradFn, OutputGradients>();

  constructor(walk: Walk) {
    this.#walk = walk;
  }

  run(roots: readonly Tensor[], seeds: readonly Tensor[]): void {
    roots.forEach((root, k) => this.#add(root, seeds[k]!));
    const order = this.#orderBelow(roots);
    for (const tensor of order) this.#expect(tensor);
    for (const tensor of order) this.#step(tensor);
  }

  /** The recorded tensors below the roots, the last made first; not those below ends. */
  #orderBelow(roots: readonly Tensor[]): Tensor[] {
    const found = new Set(roots.filter((root) => stateOf(root).needsGrad));
    for (const tensor of found) {
      const { gradFn } = stateOf(tensor);
      if (gradFn === null || this.#walk.isEnd(tensor)) continue;
      for (const input of neededInputs(gradFn)) found.add(input);
    }
    return [...found].sort((a, b) => stateOf(b).order - stateOf(a).order);
  }

  #expect(tensor: Tensor): void {
    const { gradFn } = stateOf(tensor);
    if (!gradFn?.outputs || this.#walk.isEnd(tensor)) return;
    let outputs = this.#outputs.get(gradFn);
    if (!outputs) this.#outputs.set(gradFn, outputs = new OutputGradients(gradFn));
    outputs.expect();
  }

  #add(tensor: Tensor, gradient: Tensor): void {
    const known = this.#gradients.get(tensor);
    if (known !== undefined) this.#sums.add(tensor);
    this.#gradients.set(tensor, known === undefined ? gradient : known.add(gradient));
  }

  #step(tensor: Tensor): void {
    const sum = this.#gradients.get(tensor);
    this.#gradients.delete(tensor);
    const gradient = sum === undefined
      ? null
      : this.#walk.visit(tensor, sum, this.#sums.has(tensor));
    const { gradFn } = stateOf(tensor);
    if (gradFn === null || this.#walk.isEnd(tensor)) return;
    const outputs = this.#outputs.get(gradFn);
    if (outputs === undefined) {
      if (gradient !== null) this.#pass(gradFn, [tensor], [gradient]);
    } else if (outputs.add(tensor, gradient)) {
      this.#pass(gradFn, outputs.results, outputs.gradients);
    }
  }

  #pass(
    gradFn: GradFn,
    results: readonly Tensor[],
    gradients: readonly (Tensor | null)[],
  ): void {
    const { inputs, needs } = gradFn, found = this.#walk.pass(gradFn, results, gradients);
    for (let k = 0; k < inputs.length; k++) {
      const gradient = found[k], input = inputs[k]!;
      if (gradient && stateOf(input).needsGrad && (needs?.[k] ?? true)) this.#add(input, gradient);
    }
  }
}
