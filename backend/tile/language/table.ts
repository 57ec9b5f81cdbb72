/**
 * The table of expressions: what one is, and how equal ones are found, so that they are one object. What is found out
 * about expressions and statements lasts as long as their table.
 */
import type { DType } from "../../graph/dtype.ts";

/**
 * Kind of an expression: an index, a condition, a float of 32 bits, a word of 32 bits of which a matrix unit says
 * what they mean, a number of another element type. A vector of an element type is a few neighbours as they lie
 * in memory.
 */
export type Kind = "int" | "bool" | "float" | "word" | DType;

/** Layout of an element in memory: an element type's, or whole numbers of other widths. */
export type Element = DType | "int8" | "uint16" | "uint32";

/**
 * Elements that are read or written; those of work-groups are local, those of work-items private. A ring is local
 * memory of bytes that stages of operands go through.
 */
export interface Place {
  readonly space: "global" | "local" | "ring" | "private";
  readonly buffer: string;
  readonly element: Element;
}

/** The lowest and the highest value. */
export type Range = readonly [low: number, high: number];

/** A value of one work-item; `width` lanes of a vector. */
export interface E {
  readonly op: string;
  readonly kind: Kind;
  readonly width: number;
  readonly args: readonly E[];
  /** The value of a constant, the lane that is picked. */
  readonly value: number;
  /** Of a sum: what each operand is multiplied with. */
  readonly factors: readonly number[];
  readonly name: string;
  readonly range: Range;
  readonly place: Place | null;
  /** The arrays of local memory that it reads. */
  readonly locals: readonly string[];
  readonly id: number;
}

/** Data of an expression beside its operands. */
type Rest = Partial<Pick<E, "value" | "factors" | "name" | "range" | "width" | "place">>;

const ALL: Range = [-Infinity, Infinity],
  ONES: readonly number[] = [],
  NONE: readonly string[] = [];

/** An expression in the table: others of its hash follow it. */
interface Entry extends E {
  readonly next: Entry | undefined;
}

let known = new Map<number, Entry>(), nextId = 0;
/** Numbers of the texts that expressions are of. */
const texts = new Map<string, number>();

function numberOf(text: string): number {
  let number = texts.get(text);
  if (number === undefined) texts.set(text, number = texts.size);
  return number;
}

const mixed = (hash: number, more: number): number =>
  Math.imul(hash ^ more, 0x9e3779b1) ^ hash >>> 15;

/** The expression of an operation; the same one for the same operands. Its range follows from these. */
export function make(op: string, kind: Kind, args: readonly E[], rest: Rest = {}): E {
  const { value = 0, factors = ONES, name = "", range = ALL, place = null } = rest;
  let width = rest.width ?? 1, hash = mixed(numberOf(op), numberOf(kind));
  for (let k = 0; k < args.length; k++) {
    const a = args[k]!;
    hash = mixed(hash, a.id);
    if (rest.width === undefined && a.width > width) width = a.width;
  }
  for (let k = 0; k < factors.length; k++) hash = mixed(hash, factors[k]!);
  if (value !== 0) hash = mixed(hash, value);
  if (name !== "") hash = mixed(hash, numberOf(name));
  const first = known.get(hash);
  for (let e = first; e !== undefined; e = e.next) {
    if (
      e.op === op && e.kind === kind && e.width === width && e.name === name &&
      Object.is(e.value, value) && areSame(e.args, args) && areSame(e.factors, factors) &&
      isSamePlace(e.place, place)
    ) return e;
  }
  const locals = localsOf(args, place), id = nextId++;
  const e: Entry = {
    op,
    kind,
    width,
    args,
    value,
    factors,
    name,
    range,
    place,
    locals,
    id,
    next: first,
  };
  known.set(hash, e);
  return e;
}

function areSame<T>(a: readonly T[], b: readonly T[]): boolean {
  if (a.length !== b.length) return false;
  for (let k = 0; k < a.length; k++) if (a[k] !== b[k]) return false;
  return true;
}

const isSamePlace = (a: Place | null, b: Place | null): boolean =>
  a === b || a !== null && b !== null && a.buffer === b.buffer && a.space === b.space &&
    a.element === b.element;

/** The arrays of local memory that an operation of such operands reads. */
function localsOf(args: readonly E[], place: Place | null): readonly string[] {
  let found = place !== null && isLocal(place) ? [place.buffer] : NONE;
  for (const { locals } of args) {
    if (locals.length === 0 || locals === found) continue;
    found = found.length === 0 ? locals : [...new Set([...found, ...locals])];
  }
  return found;
}

/** True for memory of a group. */
export const isLocal = ({ space }: Place): boolean => space === "local" || space === "ring";

/** Findings by expression or statement. */
interface Findings<K, V> {
  get(key: K): V | undefined;
  set(key: K, value: V): unknown;
}

// deno-lint-ignore no-explicit-any -- of all kinds of findings, by name
let findings: Map<string, Findings<any, any>> | null = null;

/**
 * A function whose results are kept by their argument, an expression or a statement, as long as the table of
 * expressions is: weak tables would take collectors a third of the time of a program.
 */
export function kept<K extends WeakKey, V>(name: string, of: (key: K) => V): (key: K) => V {
  const outer = new WeakMap<K, V>();
  return (key) => {
    const all: Findings<K, V> = findings?.getOrInsertComputed(name, () => new Map<K, V>()) ?? outer;
    let found = all.get(key);
    if (found === undefined) all.set(key, found = of(key));
    return found;
  };
}

/** Runs `fn` with a table of expressions of its own, which goes with it: those of others are not in it. */
export function withExpressions<T>(fn: () => T): T {
  const outer = [known, findings] as const;
  [known, findings] = [new Map(), new Map()];
  try {
    return fn();
  } finally {
    [known, findings] = outer;
  }
}
