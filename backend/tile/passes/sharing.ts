/**
 * Names for what several expressions need, so that it is computed once: writers print what they are given.
 * What does not change in a loop is named before it, but for loads, which may not be there at all.
 */
import { type E, make } from "../language/expression.ts";
import { expressionsOf, mapStatement, type Statement } from "../language/statements.ts";

/** The statements with names for shared values. */
export function shareExpressions(body: readonly Statement[]): Statement[] {
  return new Sharing().block(body);
}

const trivial = new Set(["const", "value", "var", "register", "lanes"]);

/** Parts of an expression that may change, or are not there everywhere. */
interface Traits {
  readonly variables: ReadonlySet<string>;
  readonly loads: boolean;
  /** It reads registers or local memory, whose content changes between statements. */
  readonly changes: boolean;
}

/** The union of sets; one of them where it has all. */
function unionOf(sets: readonly ReadonlySet<string>[]): ReadonlySet<string> {
  return sets.reduce(
    (all, more) => more.isSubsetOf(all) ? all : all.isSubsetOf(more) ? more : all.union(more),
    nothing,
  );
}

const nothing: ReadonlySet<string> = new Set();

class Sharing {
  readonly #traits = new Map<E, Traits>();
  #count = 0;

  #traitsOf(e: E): Traits {
    const known = this.#traits.get(e);
    if (known) return known;
    const parts = e.args.map((a) => this.#traitsOf(a));
    const traits: Traits = {
      variables: e.op === "var" ? new Set([e.name]) : unionOf(parts.map((p) => p.variables)),
      loads: e.place !== null || parts.some(({ loads }) => loads),
      changes: e.op === "register" || e.place !== null && e.place.space !== "global" ||
        parts.some(({ changes }) => changes),
    };
    this.#traits.set(e, traits);
    return traits;
  }

  block(body: readonly Statement[]): Statement[] {
    const uses = this.#usesIn(body), known = new Map<E, E>(), out: Statement[] = [];
    const isNamed = (e: E): boolean => (uses.get(e) ?? 0) >= 2;
    // Names come before the statement that needs them first.
    const rewrite = (e: E): E => {
      let to = known.get(e);
      if (to !== undefined) return to;
      to = rebuilt(e, rewrite);
      if (isNamed(e)) {
        const { kind, width, range } = e, value = to;
        to = make("var", kind, [], { name: `v${this.#count++}`, width, range });
        out.push({ s: "let", to, value });
      }
      known.set(e, to);
      return to;
    };
    const inner = (all: readonly Statement[]): Statement[] =>
      this.block(all.map((s) => substituted(s, rewrite)));
    for (const s of body) out.push(mapStatement(s, rewrite, inner));
    return out;
  }

  /** Number of users of each expression that may be named here. */
  #usesIn(body: readonly Statement[]): Map<E, number> {
    const uses = new Map<E, number>(), seen = new Set<E>();
    const count = (e: E, weight: number, mayName: (e: E) => boolean): void => {
      if (trivial.has(e.op)) return;
      const mayBeNamed = mayName(e);
      if (mayBeNamed) uses.set(e, (uses.get(e) ?? 0) + weight);
      if (seen.has(e)) return;
      seen.add(e);
      for (const a of e.args) count(a, mayBeNamed ? 1 : weight, mayName);
    };
    const isFixed = (e: E): boolean => !this.#traitsOf(e).changes;
    const walk = (
      all: readonly Statement[],
      weight: number,
      inside: ReadonlySet<string> | null,
    ) => {
      const mayName = (e: E): boolean => {
        const { variables, loads } = this.#traitsOf(e);
        return isFixed(e) && (inside === null || !loads && variables.isDisjointFrom(inside));
      };
      for (const s of all) {
        for (const e of expressionsOf(s)) count(e, weight, mayName);
        if ("body" in s) {
          const declared = new Set([...inside ?? [], ...declaredIn(s)]);
          walk(s.body, s.s === "for" ? 2 : weight, declared);
        }
      }
    };
    walk(body, 1, null);
    return uses;
  }
}

/** The names that a statement and those inside declare. */
function declaredIn(s: Statement): string[] {
  const inner = "body" in s ? s.body.flatMap(declaredIn) : [];
  return s.s === "for" ? [s.at.name, ...inner] : s.s === "let" ? [s.to.name, ...inner] : inner;
}

function rebuilt(e: E, rewrite: (e: E) => E): E {
  const args = e.args.map(rewrite);
  return args.every((a, k) => a === e.args[k]) ? e : make(e.op, e.kind, args, e);
}

function substituted(s: Statement, rewrite: (e: E) => E): Statement {
  return mapStatement(s, rewrite, (all) => all.map((inner) => substituted(inner, rewrite)));
}
