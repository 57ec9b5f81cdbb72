/**
 * Names for what several expressions need, so that it is computed once: writers print what they are given.
 * What does not change in a loop is named before it, but for loads, which may not be there at all.
 */
import { type E, make } from "../language/expression.ts";
import { expressionsOf, mapStatement, type Statement } from "../language/statements.ts";

/** The statements with names for shared values. */
export function shareExpressions(body: readonly Statement[]): Statement[] {
  return new Sharing(body).block(body);
}

const trivial = new Set(["const", "value", "var", "register", "lanes"]);

/** Parts of an expression that may change, or are not there everywhere. */
interface Traits {
  /** Depth of the innermost block that declares one of its variables. */
  readonly depth: number;
  readonly loads: boolean;
  /** It reads registers or local memory, whose content changes between statements. */
  readonly changes: boolean;
}

/** Expressions of a block, as outer blocks have left them. */
type Given = ReadonlyMap<E, E>;

class Sharing {
  readonly #traits = new Map<E, Traits>();
  /** Depths of the blocks that declare names; those of the kernel are everywhere. */
  readonly #depths = new Map<string, number>();
  #count = 0;

  constructor(body: readonly Statement[]) {
    this.#declare(body, 0);
  }

  #declare(body: readonly Statement[], depth: number): void {
    for (const s of body) {
      if (s.s === "let") this.#depths.set(s.to.name, depth);
      if (s.s === "for") this.#depths.set(s.at.name, depth + 1);
      if ("body" in s) this.#declare(s.body, depth + 1);
    }
  }

  #traitsOf(e: E): Traits {
    const known = this.#traits.get(e);
    if (known !== undefined) return known;
    let depth = e.op === "var" ? this.#depths.get(e.name) ?? 0 : 0;
    let loads = e.place !== null;
    let changes = e.op === "register" || e.place !== null && e.place.space !== "global";
    for (const a of e.args) {
      const traits = this.#traitsOf(a);
      if (traits.depth > depth) depth = traits.depth;
      loads ||= traits.loads;
      changes ||= traits.changes;
    }
    const traits = { depth, loads, changes };
    this.#traits.set(e, traits);
    return traits;
  }

  block(body: readonly Statement[], depth = 0, given: Given = new Map()): Statement[] {
    const current = (e: E): E => given.get(e) ?? e;
    const uses = this.#usesIn(body, depth, current), known = new Map<E, E>();
    const out: Statement[] = [];
    // Names come before the statement that needs them first.
    const rewrite = (e: E): E => {
      let to = known.get(e);
      if (to !== undefined) return to;
      to = rebuilt(e, rewrite);
      if ((uses.get(e) ?? 0) >= 2) {
        const { kind, width, range } = e, value = to, name = `v${this.#count++}`;
        to = make("var", kind, [], { name, width, range });
        this.#depths.set(name, depth);
        out.push({ s: "let", to, value });
      }
      known.set(e, to);
      return to;
    };
    const inner = (all: readonly Statement[]): Statement[] => {
      const left = new Map<E, E>();
      eachExpression(all, (e) => left.has(e) || left.set(e, rewrite(current(e))));
      return this.block(all, depth + 1, left);
    };
    for (const s of body) out.push(mapStatement(s, (e) => rewrite(current(e)), inner));
    return out;
  }

  /** Number of users of each expression that may be named here. */
  #usesIn(body: readonly Statement[], depth: number, current: (e: E) => E): Map<E, number> {
    const uses = new Map<E, number>(), seen = new Set<E>();
    const count = (e: E, weight: number, isHere: boolean): void => {
      if (trivial.has(e.op)) return;
      // A constant behind an index is part of the instruction that reads there.
      if (isMoved(e)) return count(e.args[0]!, weight, isHere);
      const { changes, loads, depth: own } = this.#traitsOf(e);
      const mayBeNamed = !changes && (isHere || !loads && own <= depth);
      if (mayBeNamed) uses.set(e, (uses.get(e) ?? 0) + weight);
      if (seen.has(e)) return;
      seen.add(e);
      for (const a of e.args) count(a, mayBeNamed ? 1 : weight, isHere);
    };
    const walk = (all: readonly Statement[], weight: number, isHere: boolean): void => {
      for (const s of all) {
        for (const e of expressionsOf(s)) count(current(e), weight, isHere);
        if ("body" in s) walk(s.body, s.s === "for" ? 2 : weight, false);
      }
    };
    walk(body, 1, true);
    return uses;
  }
}

/** True for a whole number and a constant. */
const isMoved = ({ op, width }: E): boolean => op === "+" && width === 1;

/** Calls a function for the expressions of statements, and of those inside. */
function eachExpression(body: readonly Statement[], fn: (e: E) => void): void {
  for (const s of body) {
    for (const e of expressionsOf(s)) fn(e);
    if ("body" in s) eachExpression(s.body, fn);
  }
}

function rebuilt(e: E, rewrite: (e: E) => E): E {
  if (e.args.length === 0) return e;
  const args = e.args.map(rewrite);
  return args.every((a, k) => a === e.args[k]) ? e : make(e.op, e.kind, args, e);
}
