/**
 * Barriers, where hazards are: before a statement that reads what others may have written to local memory
 * since the last one, or writes what others may have read or written.
 *
 * This folder (`passes/`) goes from statements to statements; it imports `language/`.
 */
import { localAccess, type Statement } from "../language/statements.ts";

/** Reads and writes since the last barrier. */
class Hazards {
  readonly reads = new Set<string>();
  readonly writes = new Set<string>();

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

function placed(body: readonly Statement[], hazards: Hazards): Statement[] {
  const out: Statement[] = [];
  for (const s of body) {
    if (s.s === "for") {
      // What the last turn has done meets the next one.
      placed(s.body, hazards);
      out.push({ ...s, body: placed(s.body, hazards) });
      continue;
    }
    const access = localAccess(s);
    const isOwn = s.s === "store" && access.reads.size === 0 && isAlone(s, out);
    if (!isOwn && hazards.meets(access)) {
      out.push({ s: "barrier" });
      hazards.clear();
    }
    hazards.note(access);
    out.push(s);
  }
  return out;
}

/** True for a store right behind another one to the same buffer: a work-item's own elements differ. */
function isAlone(s: Statement, before: readonly Statement[]): boolean {
  const last = before.at(-1);
  return s.s === "store" && last?.s === "store" && last.place.buffer === s.place.buffer;
}
