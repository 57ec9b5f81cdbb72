import { tensorsIn } from "../core/nested.ts";
import type { Tensor } from "../core/mod.ts";
import type { ArgumentSignature } from "./argument_signature.ts";
import { type Ref, refsIn, valueOf } from "./patterns.ts";
import type { RecordedProgram } from "./program.ts";
import { type CallEffects, isReplayable, replay } from "./replay.ts";
import { standInFor } from "./stand_in.ts";
import { isInMode, type Step } from "./steps.ts";

/** A call that computed and assigned has no other effects. */
const noEffects: CallEffects = { left: () => [], restore: () => {}, applyDeferred: () => {} };

/** A call of a compiled function that can be done again with other arguments, without the function. */
export class RepeatedCall {
  readonly #signature: ArgumentSignature;
  readonly #end: Step;
  readonly #program: RecordedProgram;
  /** The tensors that the function had from elsewhere. */
  readonly #captured: readonly (readonly [ref: Ref, tensor: Tensor])[];
  readonly #arguments: readonly Ref[];

  /**
   * Notes a call while its tensors have their roles.
   *
   * @param signature That of its arguments.
   * @param end The step in which it ended.
   * @param program What is replayed.
   */
  constructor(signature: ArgumentSignature, end: Step, program: RecordedProgram) {
    this.#signature = signature;
    this.#end = end;
    this.#program = program;
    const used = new Set(program.slots.flatMap((slot) => slot.kind === "role" ? slot.refs : []));
    for (const { to } of program.assigned) if ("kind" in to) used.add(to as Ref);
    for (const ref of refsIn(end.self)) used.add(ref);
    const refs = [...used];
    this.#arguments = refs.filter(({ kind }) => kind === "argument");
    this.#captured = refs.filter(({ kind }) => kind === "captured")
      .map((ref) => [ref, ref.tensor!] as const);
  }

  /** True where it can be done with these arguments, as things are now. */
  fits(given: readonly Tensor[]): boolean {
    if (!isInMode(this.#end) || !this.#signature.fits(given)) return false;
    return this.#captured.every(([, tensor]) => !tensor.disposed) &&
      this.#withRoles(given, () => isReplayable(this.#program));
  }

  /** Does it; returns what the function would. */
  run(given: readonly Tensor[]): unknown {
    return this.#withRoles(given, () => {
      const made = refsIn(this.#end.self).filter(({ kind }) => kind === "output");
      for (const ref of made) if (ref.kind === "output") ref.tensor = standInFor(ref);
      try {
        const value = valueOf(this.#end.self);
        replay(this.#program, noEffects, tensorsIn(value));
        return value;
      } finally {
        for (const ref of made) ref.tensor = null;
      }
    });
  }

  #withRoles<T>(given: readonly Tensor[], fn: () => T): T {
    for (const ref of this.#arguments) if (ref.kind === "argument") ref.tensor = given[ref.index]!;
    for (const [ref, tensor] of this.#captured) ref.tensor = tensor;
    try {
      return fn();
    } finally {
      for (const ref of this.#arguments) ref.tensor = null;
      for (const [ref] of this.#captured) ref.tensor = null;
    }
  }
}
