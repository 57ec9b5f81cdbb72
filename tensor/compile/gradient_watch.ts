import type { Tensor } from "../core/mod.ts";
import type { Roles } from "./roles.ts";
import { isStandIn, openResult, realOf } from "./stand_in.ts";
import { letGoOfGradient, stateOf } from "../core/internals.ts";

/** Effects of a compiled function's call on the gradients of tensors. */
export class GradientWatch {
  /** Leaves whose gradients were looked at or set, with what they were at first. */
  readonly #touched = new Map<Tensor, Tensor | null>();
  /** Leaves whose gradients were set to null. */
  readonly #cleared = new Set<Tensor>();
  readonly #roles: Roles;
  #open: Map<Tensor, Tensor | null> | null = null;

  /** Watches a call with these roles. */
  constructor(roles: Roles) {
    this.#roles = roles;
  }

  /** Leaves whose gradients were looked at or set. */
  get leaves(): Tensor[] {
    return [...this.#touched.keys()];
  }

  /** A gradient is looked at, or `next` is about to take its place. */
  note(handle: Tensor, now: Tensor | null, next: Tensor | null | undefined): void {
    const leaf = realOf(handle);
    if (openResult(leaf) !== null) return;
    if (!this.#touched.has(leaf)) this.#touched.set(leaf, now);
    if (next === null) this.#cleared.add(leaf);
    const open = this.#open;
    if (open === null || open.has(leaf)) return;
    open.set(leaf, now);
    if (now === null) return;
    // Before the operation lets go of it.
    this.#open = null;
    this.#roles.roleOf(now);
    this.#open = open;
  }

  /** Runs an operation; returns the gradients that it looked at or set, as they were before. */
  during<T>(fn: () => T): { result: T; before: ReadonlyMap<Tensor, Tensor | null> } {
    const before = this.#open = new Map<Tensor, Tensor | null>();
    try {
      return { result: fn(), before };
    } finally {
      this.#open = null;
    }
  }

  /** Gradients that the function cleared, made and used up in a step are no result of it. */
  dropUsed(assigned: ReadonlySet<Tensor>): void {
    for (const leaf of this.#touched.keys()) {
      if (!assigned.has(leaf) || !this.#cleared.has(leaf)) continue;
      const state = stateOf(leaf), { grad } = state;
      if (grad !== null && !isStandIn(grad)) letGoOfGradient(grad);
      state.grad = null;
    }
  }

  /** The leaves from outside that have a gradient which the call made. */
  left(): [leaf: Tensor, gradient: Tensor][] {
    const found: [Tensor, Tensor][] = [];
    const { start } = this.#roles;
    for (const leaf of this.#touched.keys()) {
      const { grad } = stateOf(leaf);
      if (grad && stateOf(leaf).order < start && stateOf(grad).order >= start) {
        found.push([leaf, grad]);
      }
    }
    return found;
  }

  /** Puts real gradients where stand-ins are. */
  makeReal(): void {
    for (const leaf of this.#touched.keys()) {
      const state = stateOf(leaf);
      if (state.grad !== null) state.grad = realOf(state.grad);
    }
  }

  /** Gradients are what they were before the call. */
  restore(): void {
    for (const [leaf, gradient] of this.#touched) stateOf(leaf).grad = gradient;
  }
}
