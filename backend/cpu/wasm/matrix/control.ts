/**
 * Branches and loops of a matrix program, and the blocks that a `break` leaves.
 */
import { assignedNames, type Statement } from "../../../matrix/language.ts";
import type { FunctionBuilder, Local } from "../assembler.ts";
import { core, i32 } from "../opcodes.ts";
import type { Places } from "./places.ts";

/** A loop. */
export interface Loop {
  /** The variable that its rounds step; null where the rounds change it otherwise, too. */
  readonly variable: string | null;
  /** The statements whose variables change from round to round. */
  readonly changing: readonly Statement[];
  /** A number that is not 0 while there are rounds. */
  readonly condition: () => Local;
  readonly body: () => void;
  readonly step: () => void;
}

/** A loop that counts. */
export interface Count {
  readonly name: string;
  readonly at: Local;
  /** Not reached. */
  readonly end: Local;
  readonly step: number;
}

/** The branches and loops around the present instruction. */
export class Control {
  readonly #f: FunctionBuilder;
  readonly #places: Places;
  /** Blocks around the present instruction within the innermost loop. */
  #depth = 0;

  constructor(f: FunctionBuilder, places: Places) {
    this.#f = f;
    this.#places = places;
  }

  /** Runs one of two parts; each is a block more that a `break` leaves. */
  branch(condition: Local, then: () => void, otherwise?: () => void): void {
    this.#atDepth(this.#depth + 1, () => this.#f.branch(condition, then, otherwise));
  }

  loop({ variable, changing, condition, body, step }: Loop): void {
    const assigned = assignedNames(changing);
    if (variable !== null) assigned.delete(variable);
    const asked = () => this.#f.get(condition());
    this.#atDepth(0, () => this.#places.loop(variable, assigned, asked, body, step));
  }

  count(
    { name, at, end, step }: Count,
    changing: readonly Statement[],
    body: () => void,
  ): void {
    this.loop({
      variable: name,
      changing,
      condition: () => this.#f.i(i32.ltS, at, end),
      body,
      step: () => this.#f.step(at, step),
    });
  }

  /** Leaves the innermost loop. */
  leave(): void {
    this.#f.put(core.branch, this.#depth + 1);
  }

  #atDepth(depth: number, write: () => void): void {
    const before = this.#depth;
    this.#depth = depth;
    try {
      write();
    } finally {
      this.#depth = before;
    }
  }
}
