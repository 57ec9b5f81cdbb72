/**
 * Barriers, where hazards are: before a statement that reads what others may have written to local memory
 * since the last one, or writes what others may have read or written.
 *
 * This folder (`passes/`) goes from statements to statements; it imports `language/`.
 */
import { type For, localAccess, type Statement } from "../language/statements.ts";

/** Reads and writes since the last barrier. */
class Hazards {
  readonly reads: Set<string>;
  readonly writes: Set<string>;

  constructor(reads: Iterable<string> = [], writes: Iterable<string> = []) {
    this.reads = new Set(reads);
    this.writes = new Set(writes);
  }

  /** Those of both. */
  with(other: Hazards): Hazards {
    return new Hazards(this.reads.union(other.reads), this.writes.union(other.writes));
  }

  meets({ reads, writes }: { reads: Set<string>; writes: Set<string> }): boolean {
    return !this.writes.isDisjointFrom(reads) || !this.writes.isDisjointFrom(writes) ||
      !this.reads.isDisjointFrom(writes);
  }

  note({ reads, writes }: { reads: Set<string>; writes: Set<string> }): void {
    for (const name of reads) this.reads.add(name);
    for (const name of writes) this.writes.add(name);
  }

  clear(): void {
    this.reads.clear();
    this.writes.clear();
  }
}

/** The statements with barriers; what is under a condition is one statement, which not all may reach. */
export function placeBarriers(body: readonly Statement[]): Statement[] {
  return placed(body, new Hazards());
}

const BARRIER: Statement = { s: "barrier" };

function placed(body: readonly Statement[], hazards: Hazards): Statement[] {
  const out: Statement[] = [];
  for (const s of body) {
    if (s.s === "for") {
      out.push(...placedLoop(s, hazards));
      continue;
    }
    const access = localAccess(s);
    const isOwn = s.s === "store" && access.reads.size === 0 && isAlone(s, out);
    if (!isOwn && hazards.meets(access)) {
      out.push(BARRIER);
      hazards.clear();
    }
    hazards.note(access);
    out.push(s);
  }
  return out;
}

/**
 * A loop with the barriers that its turns need between each other. What was done before it needs none within,
 * which all turns would wait at, but one in front.
 */
function placedLoop(s: For, before: Hazards): Statement[] {
  // What a turn has done meets the next one.
  const turn = new Hazards();
  placed(s.body, turn);
  const between = placed(s.body, turn.with(new Hazards()));
  const first = placed(s.body, turn.with(before));
  const isMet = countOf(first) > countOf(between);
  if (isMet) before.clear();
  before.note(turn);
  const loop: Statement = { ...s, body: between };
  return isMet ? [BARRIER, loop] : [loop];
}

/** Number of barriers, those of loops inside included. */
const countOf = (body: readonly Statement[]): number =>
  body.reduce((all, s) => all + (s.s === "barrier" ? 1 : "body" in s ? countOf(s.body) : 0), 0);

/** True for a store right behind another one to the same buffer: a work-item's own elements differ. */
function isAlone(s: Statement, before: readonly Statement[]): boolean {
  const last = before.at(-1);
  return s.s === "store" && last?.s === "store" && last.place.buffer === s.place.buffer;
}
