/** Values, places and intervals that a loop's code knows where it is written. */
import type { AffineExpr } from "../../../kernel/affine.ts";
import type { KeptValue } from "../../../kernel/row_program.ts";
import type { Local } from "../assembler.ts";
import type { ElementBytes } from "../lanes.ts";

/** Lanes of a vector. */
export const LANES = 4;

/** Elements per pass over the vector loop's body; tells whether they fill vectors. */
export interface Strip {
  /** Vectors side by side. */
  readonly vectors: number;
  /** 4, or 1 at the end of the loop. */
  readonly lanes: number;
}

/** One vector: what is computed outside the loop over lanes. */
export const ROW: Strip = { vectors: 1, lanes: LANES };

/** A place in memory that moves with a loop. */
export interface Pointer {
  readonly local: Local;
  readonly index: AffineExpr;
  readonly bytes: ElementBytes;
}

/** The places along the lanes that are inside all bounds: `first`, and how many from there on. */
export interface Interval {
  readonly first: Local;
  readonly count: Local;
  /** The places where a vector may end that has some of them. */
  readonly reach: Local;
}

/** Facts known inside a loop. */
export class Scope {
  readonly #values = new Map<string, Local>();
  /** By the text of their bounds. */
  readonly intervals = new Map<string, Interval>();
  /** By what they are for; they move with this loop alone. */
  readonly pointers = new Map<string, Pointer>();

  /** `strip`: what a pass over the loop's body computes. */
  constructor(readonly parent: Scope | null, readonly strip: Strip) {}

  /** A value that was computed here or around here. */
  value(key: string): Local | undefined {
    return this.#values.get(key) ?? this.parent?.value(key);
  }

  /** An interval that was computed here or around here. */
  interval(key: string): Interval | undefined {
    return this.intervals.get(key) ?? this.parent?.interval(key);
  }

  /** Makes a value known in this loop and those in it. */
  setValue(key: string, local: Local): void {
    this.#values.set(key, local);
  }
}

/** Something that is read or written at an index. */
export interface LoopAccess {
  readonly key: string;
  readonly base: Local;
  readonly index: AffineExpr;
  readonly bytes: ElementBytes;
}

/** Writes what a loop does. */
export type Body = (inside: Scope) => void;

/** Writes what takes several steps of a sum at once. */
export type JoinedSteps = (insides: readonly Scope[]) => void;

/** A value that is read back from where it was kept; what takes several steps at once. */
export interface InnerOptions {
  readonly kept?: KeptValue | null;
  readonly joined?: JoinedSteps | null;
}
