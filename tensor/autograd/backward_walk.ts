/** The walk of `backward` and `grad`: it asks operations for gradients, and lets go of what nobody needs after it. */
import type { Node, Saved } from "../../backend/internal.ts";
import type { BackwardOptions } from "../core/arguments.ts";
import { areGradientsObserved } from "../core/calls.ts";
import { changedInputs, type GradFn, noGradFn } from "../core/grad_fn.ts";
import { gradientOf, guardValues, stateOf } from "../core/internals.ts";
import { isAnomalyEnabled, recording, withoutGrad } from "../core/modes/grad_mode.ts";
import {
  endTemporaries,
  notingTemporaries,
  type Temporary,
  withTemporaries,
} from "../core/modes/temporaries.ts";
import type { Tensor } from "../core/mod.ts";
import { nextOrder } from "../core/tensor_state.ts";
import { AnomalyWatch } from "./anomaly.ts";
import { isHooked } from "./gradient_hooks.ts";
import type { HookedWalk } from "./hooked_walk.ts";
import { type Question, ReverseWalk, type Stop, type Walk } from "./reverse_walk.ts";

const freed = noGradFn(
  "freed",
  "Cannot go backward a second time: the graph was let go by the first; pass { retainGraph: true } there",
);

/** Callbacks on the way beside gradient functions. */
export interface Visits<R> {
  /** Called with the finished gradient of every tensor. */
  readonly visit: (tensor: Tensor, gradient: Tensor) => void;
  /** Called with every operation that it has gone through, also with those that were computed again. */
  readonly passed?: (gradFn: GradFn, isRepeated: boolean) => void;
  /** True for results that are computed with their gradients, whether somebody asks for them or not. */
  readonly isLoss?: (result: Tensor) => boolean;
  /** Called at the end; gives what the walk gives, which is exposed. */
  readonly finish: () => R;
}

/** A walk from the roots to the leaves in the modes of `backward`, which lets go of the graph. */
export class BackwardWalk<R> implements Walk, HookedWalk<R> {
  /** Watch for anomalies, where somebody looks for them. */
  readonly #watch: AnomalyWatch | null = isAnomalyEnabled() ? new AnomalyWatch() : null;
  readonly #visits: Visits<R>;
  readonly #isGraphKept: boolean;
  readonly #createGraph: boolean;
  /** The order of the first tensor that it makes. */
  readonly #start = nextOrder();
  readonly #freed: GradFn[] = [];
  readonly #through: Node[] = [];
  readonly #temporaries: Temporary[] = [];
  readonly #saved: Saved[] = [];
  readonly #walk: ReverseWalk;

  constructor(
    roots: readonly Tensor[],
    seeds: readonly Tensor[],
    { retainGraph, createGraph }: BackwardOptions,
    visits: Visits<R>,
  ) {
    this.#createGraph = createGraph === true;
    this.#isGraphKept = retainGraph === true || this.#createGraph;
    this.#visits = visits;
    for (const seed of seeds) this.#watch?.addSeed(seed);
    this.#walk = this.#inMode(() => new ReverseWalk(roots, seeds, this));
    if (areGradientsObserved()) this.#tellLeaves();
  }

  /** Tells a compiled call which leaves have hooks, and gradients. */
  #tellLeaves(): void {
    for (const tensor of this.#walk.found) if (!stateOf(tensor).gradFn) gradientOf(tensor);
  }

  #inMode<T>(fn: () => T): T {
    return notingTemporaries(
      this.#temporaries,
      () => recording(this.#createGraph, () => withTemporaries(fn)),
    );
  }

  run(answer: unknown): Stop | Question | null {
    return this.#inMode(() => this.#walk.run(answer));
  }

  finish(): R {
    withoutGrad(() => this.#watch?.check());
    this.#release();
    return notingTemporaries(this.#temporaries, () => withTemporaries(this.#visits.finish));
  }

  isEnd(): boolean {
    return false;
  }

  stopsAt(tensor: Tensor): boolean {
    const state = stateOf(tensor);
    return isHooked(state) && state.gradFn?.repetition?.hasHooks !== true;
  }

  visit(tensor: Tensor, gradient: Tensor, isSum: boolean): void {
    if (isSum) this.#watch?.addSum(stateOf(tensor).gradFn, gradient);
    this.#visits.visit(tensor, gradient);
  }

  repeat(gradFn: GradFn, results: readonly Tensor[]): readonly Tensor[] | null {
    const { repetition } = gradFn;
    if (repetition === undefined) return null;
    const repeated = repetition.kept ?? guarded(gradFn, () => repetition.run());
    if (repeated === null) return null;
    repetition.kept = this.#createGraph ? repeated : null;
    this.#passed(gradFn, results);
    return repeated;
  }

  readonly question = questionOf;

  pass(
    gradFn: GradFn,
    results: readonly Tensor[],
    gradients: readonly (Tensor | null)[],
    answer?: unknown,
  ): readonly (Tensor | null)[] {
    const one = gradients.find((g) => g !== null)!, { user } = gradFn;
    const found = user
      ? user.gradientsIn(answer)
      : guarded(gradFn, () => gradFn.gradient(one, results[0]!, gradients));
    for (const result of results) this.#watch?.addResults(result, gradFn, found);
    this.#passed(gradFn, results);
    return found;
  }

  #passed(gradFn: GradFn, results: readonly Tensor[]): void {
    const isRepeated = stateOf(results[0]!).order >= this.#start;
    this.#visits.passed?.(gradFn, isRepeated);
    // Nobody else has what was computed again for this walk.
    if (isRepeated ? this.#createGraph : this.#isGraphKept) return;
    // Until all gradients are made: that of another operation may need what was captured here.
    gradFn.retain?.();
    this.#freed.push(gradFn);
    for (const result of results) {
      const state = stateOf(result);
      state.record(freed);
      if (!this.#visits.isLoss?.(result)) this.#through.push(state.node);
      this.#saved.push(...state.takeSaved());
    }
  }

  end(): void {
    this.#release();
    endTemporaries(this.#temporaries);
  }

  /** The gradients are made: each saved value goes with its last reader. */
  #release(): void {
    for (const saved of this.#saved.splice(0)) saved.use();
    // Not before: the gradient of an operation may need a result that another one has held so far.
    for (const gradFn of this.#freed.splice(0)) {
      gradFn.release?.();
      gradFn.letGo?.();
    }
    for (const node of this.#through.splice(0)) node.subside();
  }
}

/** The question for the gradient of an operation whose gradient the program computes; null for any other. */
export function questionOf(
  gradFn: GradFn,
  results: readonly Tensor[],
  gradients: readonly (Tensor | null)[],
): Question | null {
  const { name, inputs, user } = gradFn;
  if (user === undefined) return null;
  const args = { ...user.resultsOf(results, gradients), inputs: [...inputs] };
  return { name, ask: user.ask, ...args, changed: changedInputs(gradFn) };
}

/** Runs a gradient; reading an input that was assigned since is an error: its value is another. */
function guarded<T>(gradFn: GradFn, fn: () => T): T {
  const changed = changedInputs(gradFn);
  return changed.length === 0 ? fn() : guardValues(new Set(changed), gradFn.name, fn);
}
