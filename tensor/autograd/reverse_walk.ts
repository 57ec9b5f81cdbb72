/**
 * The walk from results to what they were computed from, the last made first: `backward` and `grad` go
 * it, and the plan of what to save for them.
 */
import { withoutAutocast } from "../core/autocast.ts";
import { type GradFn, neededInputs, type UserGradient } from "../core/grad_fn.ts";
import { goingBackward, stateOf } from "../core/internals.ts";
import { withTemporaries } from "../core/modes/temporaries.ts";
import type { Need } from "../../backend/internal.ts";
import type { Tensor } from "../core/mod.ts";

/** Callbacks on the way. */
export interface Walk {
  /** True for tensors that it does not go beyond. */
  isEnd(tensor: Tensor): boolean;
  /** True where it stops with the gradient, for hooks of the program. */
  stopsAt?(tensor: Tensor): boolean;
  /** The question where it stops for a gradient that the program computes; null where it goes on. */
  question?(
    gradFn: GradFn,
    results: readonly Tensor[],
    gradients: readonly (Tensor | null)[],
  ): Question | null;
  /**
   * Called with the gradient of every tensor that has one, once all parts of it have been added.
   *
   * @param isSum Whether it had several parts.
   */
  visit(tensor: Tensor, gradient: Tensor, isSum: boolean): void;
  /**
   * Goes through an operation.
   *
   * @param results The results that were used.
   * @param gradients Those of all results, null for one that was not used.
   * @param answer What the program gave, where it was asked.
   * @returns The gradients of its inputs.
   */
  pass(
    gradFn: GradFn,
    results: readonly Tensor[],
    gradients: readonly (Tensor | null)[],
    answer?: unknown,
  ): readonly (Tensor | null)[];
  /** All results of an operation computed again, where the walk goes on in their graph. */
  repeat?(gradFn: GradFn, results: readonly Tensor[]): readonly Tensor[] | null;
}

/** A gradient that a function of the program computes. */
export interface Question {
  /** The operation. */
  readonly name: string;
  readonly ask: UserGradient["ask"];
  /** Arguments of the function. */
  readonly gradients: Tensor[];
  readonly inputs: Tensor[];
  readonly results: Tensor[];
  /** Inputs that have another value now: reading them is an error. */
  readonly changed: readonly Tensor[];
}

/** A tensor whose gradient is complete, and waits for its hooks. */
export interface Stop {
  /** The tensor; one that a checkpoint computed again is the one that it stands for, where that is known. */
  readonly tensor: Tensor;
  /** Its gradient. */
  readonly gradient: Tensor;
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

/** An operation that is gone through, and the gradients of its results. */
interface Passage {
  readonly gradFn: GradFn;
  readonly results: readonly Tensor[];
  readonly gradients: readonly (Tensor | null)[];
}

/** A walk through the graph below roots. It may stop on the way, and goes on when it is told to. */
export class ReverseWalk {
  /** All that it goes through, as far as that is known. */
  readonly found: Set<Tensor> = new Set();
  readonly #walk: Walk;
  readonly #kept: Need | undefined;
  /** Tensors not gone through yet, the next one last. */
  readonly #todo: Tensor[] = [];
  /** Sums of gradients so far. */
  readonly #gradients = new Map<Tensor, Tensor>();
  readonly #sums = new Set<Tensor>();
  /** Those of operations with several results. */
  readonly #outputs = new Map<GradFn, OutputGradients>();
  /** For results of checkpoints that were computed again: those that the program has. */
  readonly #originals = new Map<Tensor, Tensor>();
  /** The operation that waits for an answer of the program, and its question. */
  #asked: Passage & { readonly question: Question } | null = null;

  /**
   * A walk that has not begun.
   *
   * @param roots Where it begins.
   * @param seeds Their gradients.
   * @param walk What is done on the way.
   * @param kept For how long the user may read the gradients that are made.
   */
  constructor(roots: readonly Tensor[], seeds: readonly Tensor[], walk: Walk, kept?: Need) {
    this.#walk = walk;
    this.#kept = kept;
    this.#inMode(() => {
      roots.forEach((root, k) => this.#add(root, seeds[k]!));
      this.#discover(roots.filter((root) => stateOf(root).needsGrad));
    });
  }

  /**
   * Goes on to the next tensor with hooks, or the next gradient that the program computes, or to the end.
   *
   * @param answer Where it stopped: the gradient that the tensor goes on with, or what the program gave.
   * @returns Where it stops; null at the end.
   */
  run(answer: unknown = null): Stop | Question | null {
    return this.#inMode(() => {
      if (this.#asked !== null) this.#answer(this.#asked, answer);
      else if (answer !== null) this.#leave(this.#todo.pop()!, answer as Tensor);
      for (;;) {
        if (this.#asked !== null) return this.#asked.question;
        if (this.#todo.length === 0) return null;
        const tensor = this.#todo.at(-1)!, sum = this.#gradients.get(tensor) ?? null;
        this.#gradients.delete(tensor);
        if (sum !== null && this.#walk.stopsAt?.(tensor)) return { tensor, gradient: sum };
        this.#leave(this.#todo.pop()!, sum);
      }
    });
  }

  #inMode<T>(fn: () => T): T {
    return goingBackward(() => withoutAutocast(() => withTemporaries(fn, this.#kept)));
  }

  /** Notes what is below, for later: the last made first, or what was computed again in its place. */
  #discover(from: readonly Tensor[]): void {
    const found = new Set(from.filter((tensor) => !this.found.has(tensor)));
    let isOrdered = true;
    for (const tensor of found) {
      const { order } = stateOf(tensor);
      for (const below of this.#below(tensor)) {
        if (stateOf(below).order >= order) isOrdered = false;
        if (!this.found.has(below)) found.add(below);
      }
    }
    const sorted = isOrdered
      ? [...found].sort((a, b) => stateOf(a).order - stateOf(b).order)
      : this.#fromBelow(found);
    for (const tensor of sorted) {
      this.found.add(tensor);
      this.#todo.push(tensor);
      this.#expect(tensor);
    }
  }

  #below(tensor: Tensor): readonly Tensor[] {
    const { gradFn } = stateOf(tensor);
    if (gradFn === null || this.#walk.isEnd(tensor)) return [];
    const kept = this.#walk.repeat && gradFn.repetition?.kept;
    return kept ?? neededInputs(gradFn);
  }

  /** Order of tensors, each behind all below it: a recomputed one is newer than its users. */
  #fromBelow(tensors: ReadonlySet<Tensor>): Tensor[] {
    const done = new Set<Tensor>(), opened = new Set<Tensor>();
    const open = [...tensors];
    while (open.length > 0) {
      const tensor = open.at(-1)!;
      if (opened.has(tensor)) {
        done.add(open.pop()!);
        continue;
      }
      opened.add(tensor);
      for (const below of this.#below(tensor)) {
        if (tensors.has(below) && !opened.has(below)) open.push(below);
      }
    }
    return [...done];
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

  #leave(tensor: Tensor, sum: Tensor | null): void {
    const { gradFn } = stateOf(tensor);
    // What is computed again has the whole gradient: that of its other uses there, too.
    const isPart = this.#walk.repeat !== undefined && gradFn?.repetition?.hasHooks === true;
    if (sum !== null && !isPart) {
      this.#walk.visit(this.#originals.get(tensor) ?? tensor, sum, this.#sums.has(tensor));
    }
    if (gradFn === null || this.#walk.isEnd(tensor)) return;
    const outputs = this.#outputs.get(gradFn);
    if (outputs === undefined) {
      if (sum !== null) this.#pass({ gradFn, results: [tensor], gradients: [sum] });
    } else if (outputs.add(tensor, sum)) {
      this.#pass({ gradFn, results: outputs.results, gradients: outputs.gradients });
    }
  }

  #pass(passage: Passage): void {
    const { gradFn, results, gradients } = passage;
    const repeated = this.#walk.repeat?.(gradFn, results) ?? null;
    if (repeated !== null) return this.#goInto(repeated, passage);
    const question = this.#walk.question?.(gradFn, results, gradients) ?? null;
    if (question !== null) this.#asked = { ...passage, question };
    else this.#addGradients(gradFn, this.#walk.pass(gradFn, results, gradients));
  }

  #answer({ gradFn, results, gradients }: Passage, answer: unknown): void {
    this.#asked = null;
    this.#addGradients(gradFn, this.#walk.pass(gradFn, results, gradients, answer));
  }

  #addGradients({ inputs, needs }: GradFn, found: readonly (Tensor | null)[]): void {
    for (let k = 0; k < inputs.length; k++) {
      const gradient = found[k], input = inputs[k]!;
      if (gradient && stateOf(input).needsGrad && (needs?.[k] ?? true)) this.#add(input, gradient);
    }
  }

  /** Goes on in what was computed again. */
  #goInto(repeated: readonly Tensor[], { gradFn, results, gradients }: Passage): void {
    const { outputs, repetition } = gradFn;
    for (const result of repetition!.hasHooks ? results : []) {
      const again = repeated[outputs!.indexOf(stateOf(result).order)]!;
      this.#originals.set(again, this.#originals.get(result) ?? result);
    }
    const used = repeated.filter((_, k) => gradients[k]);
    repeated.forEach((tensor, k) => {
      if (gradients[k]) this.#add(tensor, gradients[k]);
    });
    this.#discover(used);
  }
}
