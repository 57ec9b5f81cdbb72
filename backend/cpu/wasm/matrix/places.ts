/**
 * Places where whole numbers are computed: before a loop, or at the head of its rounds. An address is a sum
 * whose terms mostly stay the same while inner loops run; engines do not move such terms out of loops.
 */
import type { FunctionBuilder, Local } from "../assembler.ts";

/** A loop that is being written. */
export interface Level {
  /** The variable that its rounds step; it is the same within a round. */
  readonly variable: string | null;
  /** Variables that its body gives values to. */
  readonly assigned: ReadonlySet<string>;
  /** Instructions before the loop, and at the head of a round. */
  readonly before: number[];
  readonly head: number[];
  readonly knownBefore: Map<string, Local>;
  readonly knownAtHead: Map<string, Local>;
  /** The head does not count yet: the condition, which comes before it, is being written. */
  isHeadOpen: boolean;
}

/** The earliest place of a value: a number that grows inwards; {@linkcode HERE} is the present one. */
export type Depth = number;
export const HERE: Depth = Infinity;

/** The loops around the present instruction, the outermost first. */
export class Places {
  readonly #f: FunctionBuilder;
  readonly #levels: Level[] = [];

  constructor(f: FunctionBuilder) {
    this.#f = f;
  }

  /** The earliest place of a value that depends on these variables. */
  depthOf(names: Iterable<string>): Depth {
    const list = [...names];
    for (const [k, level] of this.#levels.entries()) {
      const changes = (name: string) => level.assigned.has(name);
      if (list.some(changes)) continue;
      if (!list.includes(level.variable ?? "")) return 2 * k;
      if (level.isHeadOpen) return 2 * k + 1;
    }
    return HERE;
  }

  /** The value of `make`, which is computed once at its place. */
  at(depth: Depth, key: string, make: () => Local): Local {
    if (depth === HERE) return make();
    const level = this.#levels[depth >> 1]!, isBefore = depth % 2 === 0;
    const known = isBefore ? level.knownBefore : level.knownAtHead;
    let local = known.get(key);
    if (local === undefined) {
      local = this.#f.writeTo(isBefore ? level.before : level.head, make);
      known.set(key, local);
    }
    return local;
  }

  /** Writes a loop: `condition` leaves a number, `step` comes behind the body. */
  loop(
    variable: string | null,
    assigned: ReadonlySet<string>,
    condition: () => void,
    body: () => void,
    step: () => void,
  ): void {
    const f = this.#f;
    const level: Level = {
      variable,
      assigned,
      before: [],
      head: [],
      knownBefore: new Map(),
      knownAtHead: new Map(),
      isHeadOpen: false,
    };
    this.#levels.push(level);
    try {
      const asked = f.detached(condition);
      level.isHeadOpen = true;
      const done = f.detached(body);
      f.append(level.before);
      f.while(() => f.append(asked), () => {
        f.append(level.head);
        f.append(done);
        step();
      });
    } finally {
      this.#levels.pop();
    }
  }
}
