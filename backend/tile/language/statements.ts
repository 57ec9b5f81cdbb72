/**
 * The statements of a work-item: the level that is checked and rendered. All work-items of a group run the
 * same ones; a kernel's digest is theirs.
 */
import type { E, Element, Kind, Place } from "./expression.ts";

/** A statement. */
export type Statement =
  /** A name for a value that several statements need. */
  | { readonly s: "let"; readonly to: E; readonly value: E }
  | { readonly s: "set"; readonly to: E; readonly value: E }
  | Store
  /** A value that is computed, by its coordinates: what becomes of it the kernel around it says. */
  | { readonly s: "result"; readonly at: readonly E[]; readonly value: E }
  | For
  | { readonly s: "if"; readonly condition: E; readonly body: readonly Statement[] }
  /** Work-items of a group wait for each other. */
  | { readonly s: "barrier" }
  /** The value of the work-item whose number differs in the bits of `mask`. */
  | { readonly s: "shuffle"; readonly to: E; readonly from: E; readonly mask: number };

/** Stores an element, or a vector of neighbours from an index on. */
export interface Store {
  readonly s: "store";
  readonly place: Place;
  readonly index: E;
  readonly value: E;
  /** It does not stay in the caches. */
  readonly streams?: boolean;
}

/** Runs statements for the numbers from 0 to before `count`. */
export interface For {
  readonly s: "for";
  readonly at: E;
  readonly count: E;
  readonly body: readonly Statement[];
  /** Turns that are written one after the other; all of them where it is infinite. */
  readonly unroll?: number;
}

/** Numbers that work-items have in memory of their own, or of their group. */
export interface TileArray {
  readonly space: "local" | "private";
  readonly name: string;
  readonly size: number;
  readonly kind: Kind;
}

/** A number that a launch hands over. */
export interface SizeArgument {
  readonly name: string;
  readonly value: number;
}

/** A kernel in statements. */
export interface TileKernel {
  readonly name: string;
  /** The buffers that it reads, by name. */
  readonly inputs: readonly { readonly name: string; readonly element: Element }[];
  readonly sizes: readonly SizeArgument[];
  readonly arrays: readonly TileArray[];
  readonly groups: number;
  /** Work-items of a group. */
  readonly items: number;
  readonly body: readonly Statement[];
}

/** The expressions of a statement, without those of statements inside. */
export function expressionsOf(s: Statement): readonly E[] {
  switch (s.s) {
    case "let":
    case "set":
      return [s.value];
    case "store":
      return [s.index, s.value];
    case "result":
      return [...s.at, s.value];
    case "for":
      return [s.count];
    case "if":
      return [s.condition];
    case "shuffle":
      return [s.from];
    case "barrier":
      return [];
  }
}

/** A statement with its expressions, and the statements inside, replaced. */
export function mapStatement(
  s: Statement,
  expression: (e: E) => E,
  body: (all: readonly Statement[]) => readonly Statement[],
): Statement {
  switch (s.s) {
    case "let":
    case "set":
      return { ...s, value: expression(s.value) };
    case "store":
      return { ...s, index: expression(s.index), value: expression(s.value) };
    case "result":
      return { ...s, at: s.at.map(expression), value: expression(s.value) };
    case "for":
      return { ...s, count: expression(s.count), body: body(s.body) };
    case "if":
      return { ...s, condition: expression(s.condition), body: body(s.body) };
    case "shuffle":
      return { ...s, from: expression(s.from) };
    case "barrier":
      return s;
  }
}

/** Reads and writes of local memory by a statement and those inside. */
export function localAccess(s: Statement): { reads: Set<string>; writes: Set<string> } {
  const reads = new Set<string>(), writes = new Set<string>(), seen = new Set<E>();
  const look = (e: E): void => {
    if (seen.has(e)) return;
    seen.add(e);
    if (e.place?.space === "local") reads.add(e.place.buffer);
    e.args.forEach(look);
  };
  const walk = (s: Statement): void => {
    expressionsOf(s).forEach(look);
    if (s.s === "store" && s.place.space === "local") writes.add(s.place.buffer);
    if ("body" in s) s.body.forEach(walk);
  };
  walk(s);
  return { reads, writes };
}
