/**
 * Barriers, where hazards are: before a statement that reads what others may have written to local memory
 * since the last one, or writes what others may have read or written. What one statement writes in several turns of
 * a loop, or stores side by side, are a work-item's own elements.
 *
 * This folder (`passes/`) goes from statements to statements; it imports `language/`.
 */
import { type For, localAccess, type Statement, touchesLocal } from "../language/statements.ts";

/** The statements with barriers; what is under a condition is one statement, which not all may reach. */
export function placeBarriers(body: readonly Statement[]): Statement[] {
  return new Placing(body).placed(body, new Hazards());
}

/** Reads and writes since the last barrier; writes by the statements that are meant. */
class Hazards {
  readonly reads: Set<string>;
  readonly writes: Map<string, Set<Statement>>;

  constructor(
    reads: Iterable<string> = [],
    writes: Iterable<readonly [string, ReadonlySet<Statement>]> = [],
  ) {
    this.reads = new Set(reads);
    this.writes = new Map([...writes].map(([name, by]) => [name, new Set(by)]));
  }

  /** Those of both. */
  with(other: Hazards): Hazards {
    const both = new Hazards(this.reads, this.writes);
    both.add(other);
    return both;
  }

  add({ reads, writes }: Hazards): void {
    for (const name of reads) this.reads.add(name);
    for (const [name, by] of writes) {
      for (const s of by) this.writes.getOrInsertComputed(name, () => new Set()).add(s);
    }
  }

  /** True where what was done before meets the accesses. */
  isMetBy({ reads, writes }: Hazards, copies: ReadonlySet<string>): boolean {
    const isWritten = (name: string): boolean => this.writes.has(name);
    if ([...reads].some(isWritten)) return true;
    if ([...copies].some((name) => isWritten(name) || this.reads.has(name))) return true;
    return [...writes].some(([name, by]) =>
      this.reads.has(name) || !(this.writes.get(name) ?? new Set()).isSubsetOf(by)
    );
  }

  clear(): void {
    this.reads.clear();
    this.writes.clear();
  }
}

const BARRIER: Statement = { s: "barrier" };

class Placing {
  /** The first of the stores that stand side by side. */
  readonly #leaders = new Map<Statement, Statement>();
  readonly #accesses = new Map<Statement, { own: Hazards; copies: ReadonlySet<string> }>();

  constructor(body: readonly Statement[]) {
    this.#lead(body);
  }

  #lead(body: readonly Statement[]): void {
    body.forEach((s, k) => {
      const last = body[k - 1];
      if ("body" in s) this.#lead(s.body);
      const isNext = s.s === "store" && last?.s === "store" && last.place.buffer === s.place.buffer;
      this.#leaders.set(s, isNext ? this.#leaders.get(last)! : s);
    });
  }

  #accessOf(s: Statement): { own: Hazards; copies: ReadonlySet<string> } {
    return this.#accesses.getOrInsertComputed(s, () => {
      const { reads, writes, copies } = localAccess(s);
      const led = [...writes].map(([name, by]) =>
        [name, new Set(by.map((s) => this.#leaders.get(s)!))] as const
      );
      return { own: new Hazards(reads, led), copies };
    });
  }

  placed(body: readonly Statement[], hazards: Hazards): Statement[] {
    const out: Statement[] = [];
    for (const s of body) {
      if (!touchesLocal(s)) {
        out.push(s);
        continue;
      }
      if (s.s === "for") {
        out.push(...this.#placedLoop(s, hazards));
        continue;
      }
      const { own, copies } = this.#accessOf(s);
      // A wait makes known what was copied, and changes nothing.
      if (!isWait(s) && hazards.isMetBy(own, copies)) {
        out.push(BARRIER);
        hazards.clear();
      }
      hazards.add(own);
      out.push(s);
    }
    return out;
  }

  /**
   * A loop with the barriers that its turns need between each other. What was done before it needs none within,
   * which all turns would wait at, but one in front.
   */
  #placedLoop(s: For, before: Hazards): Statement[] {
    // What a turn has done meets the next one.
    const turn = new Hazards();
    this.placed(s.body, turn);
    const between = this.placed(s.body, turn.with(new Hazards()));
    const first = this.placed(s.body, turn.with(before));
    const isMet = countOf(first) > countOf(between);
    if (isMet) before.clear();
    before.add(turn);
    const loop: Statement = { ...s, body: between };
    return isMet ? [BARRIER, loop] : [loop];
  }
}

/** Number of barriers, those of loops inside included. */
const countOf = (body: readonly Statement[]): number =>
  body.reduce((all, s) => all + (s.s === "barrier" ? 1 : "body" in s ? countOf(s.body) : 0), 0);

const isWait = (s: Statement): boolean => s.s === "wait" || s.s === "if" && s.body.every(isWait);
