/**
 * Expressions of tile programs. Equal ones are one object. Whole numbers are kept in a normal form, sums of
 * products of atoms with constant coefficients, each with its range: what ranges decide needs no test, what
 * coefficients divide needs no division, and neighbours in memory are those whose difference is 1.
 *
 * Sizes enter as atoms: `size * 32` is known to be a multiple of 32, whatever it is, so that kernels are
 * shared by all sizes of such a kind.
 *
 * This folder (`language/`) imports the element types of `graph/`. Programs are made of its expressions and
 * become its statements of a work-item (`statements.ts`), which the interpreter of the tests runs and the
 * writers of both backends render. Neither reads anything above that level.
 */
import { type E, kept, make, type Range } from "./table.ts";

export {
  type E,
  type Element,
  isLocal,
  kept,
  type Kind,
  make,
  type Place,
  type Range,
  withExpressions,
} from "./table.ts";

// ---- whole numbers

/** An expression of whole numbers, or a constant. */
export type Whole = E | number;

export const int = (value: number): E => make("const", "int", [], { value, range: [value, value] });

/** A variable of a range. */
export const variable = (name: string, range: Range): E => make("var", "int", [], { name, range });

/** The number of each lane of a vector. */
export const lanes = (width: number): E =>
  width === 1 ? int(0) : make("lanes", "int", [], { width, range: [0, width - 1] });

export const whole = (x: Whole): E => typeof x === "number" ? int(x) : x;

/** A sum: products of atoms with their coefficients, and a constant. */
interface Sum {
  readonly offset: number;
  readonly terms: ReadonlyMap<E, number>;
}

const none: ReadonlyMap<E, number> = new Map();

/** The normal form of a whole number. */
function sumOf(e: E): Sum {
  if (e.op === "const") return { offset: e.value, terms: none };
  return atomOf(e);
}

const atomOf = kept("sum", (e: E): Sum => {
  if (e.op === "+") return { offset: e.args[1]!.value, terms: sumOf(e.args[0]!).terms };
  if (e.op !== "sum") return { offset: 0, terms: new Map([[e, 1]]) };
  return { offset: 0, terms: new Map(e.args.map((atom, k) => [atom, e.factors[k]!])) };
});

function joined(a: Sum, b: Sum, times: number): Sum {
  const terms = new Map(a.terms), offset = a.offset + addTo(terms, b, times);
  return { offset, terms };
}

/** Adds the terms of a sum; the result is what its constant adds. */
function addTo(terms: Map<E, number>, b: Sum, times: number): number {
  for (const [e, c] of b.terms) {
    const all = (terms.get(e) ?? 0) + c * times;
    if (all === 0) terms.delete(e);
    else terms.set(e, all);
  }
  return b.offset * times;
}

/** The expression of a sum, its terms in the order in which they were made, and its constant apart. */
function build({ offset, terms }: Sum): E {
  if (terms.size === 0) return int(offset);
  return withOffset(coreOf(terms), offset);
}

/** The expression of terms. */
function coreOf(terms: ReadonlyMap<E, number>): E {
  const atoms = [...terms.keys()];
  if (atoms.length === 1 && terms.get(atoms[0]!) === 1) return atoms[0]!;
  if (atoms.length > 1) atoms.sort((a, b) => a.id - b.id);
  const factors = atoms.map((atom) => terms.get(atom)!);
  return make("sum", "int", atoms, { factors, range: rangeOf({ offset: 0, terms }) });
}

/** A number without a constant, plus one. */
function withOffset(core: E, offset: number): E {
  if (offset === 0) return core;
  const [low, high] = core.range;
  return make("+", "int", [core, int(offset)], { range: [low + offset, high + offset] });
}

export function add(...xs: readonly Whole[]): E {
  let offset = 0, only: E | null = null, terms: Map<E, number> | null = null;
  for (const x of xs) {
    if (typeof x === "number") offset += x;
    else if (x.op === "const") offset += x.value;
    else if (only === null) only = x;
    else {
      if (terms === null) offset += addTo(terms = new Map(), sumOf(only), 1);
      offset += addTo(terms, sumOf(x), 1);
    }
  }
  if (terms !== null) return build({ offset, terms });
  if (only === null) return int(offset);
  return only.op === "+"
    ? withOffset(only.args[0]!, only.args[1]!.value + offset)
    : withOffset(only, offset);
}

export const sub = (a: Whole, b: Whole): E => build(joined(sumOf(whole(a)), sumOf(whole(b)), -1));

/** The atoms of a term. */
const factors = (e: E): readonly E[] => e.op === "product" ? e.args : [e];

function product(a: E, b: E): E {
  const all = [...factors(a), ...factors(b)].sort((x, y) => x.id - y.id);
  const ends = all.reduce<number[]>(
    (found, { range: [low, high] }) => found.flatMap((x) => [x * low, x * high]),
    [1],
  ).filter((x) => !Number.isNaN(x));
  return make("product", "int", all, { range: [Math.min(...ends), Math.max(...ends)] });
}

export function mul(a: Whole, b: Whole): E {
  if (a === 1) return whole(b);
  if (b === 1) return whole(a);
  const x = sumOf(whole(a)), y = sumOf(whole(b)), terms = new Map<E, number>();
  if (y.offset !== 0) addTo(terms, { ...x, offset: 0 }, y.offset);
  if (x.offset !== 0) addTo(terms, { ...y, offset: 0 }, x.offset);
  for (const [p, c] of x.terms) {
    for (const [q, d] of y.terms) {
      addTo(terms, { offset: 0, terms: new Map([[product(p, q), c * d]]) }, 1);
    }
  }
  return build({ offset: x.offset * y.offset, terms });
}

const gcd = (a: number, b: number): number => b === 0 ? Math.abs(a) : gcd(b, a % b);

/** The lowest and the highest value of a sum. */
function rangeOf({ offset, terms }: Sum): Range {
  let low = offset, high = offset;
  for (const [{ range }, c] of terms) {
    low += c * range[c > 0 ? 0 : 1];
    high += c * range[c > 0 ? 1 : 0];
  }
  return [low, high];
}

/**
 * Quotient and remainder, of a constant or of a number that is not negative. Terms that stay below a divisor
 * of all others do not decide where the next multiple begins: neighbours have one quotient.
 */
function divide(e: E, n: number): readonly [quotient: E, remainder: E] {
  if (n === 1) return [e, int(0)];
  if (e.op === "const") {
    return [int(Math.floor(e.value / n)), int(e.value - Math.floor(e.value / n) * n)];
  }
  const known = quotientsOf(e);
  let found = known.get(n);
  if (found === undefined) known.set(n, found = dividedByParts(e, n));
  return found;
}

/** Quotients and remainders of a number, by what it was divided by. */
const quotientsOf = kept(
  "quotients",
  (_: E) => new Map<number, readonly [quotient: E, remainder: E]>(),
);

function dividedByParts(e: E, n: number): readonly [quotient: E, remainder: E] {
  const { offset, terms } = sumOf(e), rest = [...terms].filter(([, c]) => c % n !== 0);
  const steps = new Set([n, ...rest.map(([, c]) => gcd(c, n)), 1]);
  for (const step of [...steps].sort((a, b) => b - a)) {
    const over = offset - Math.floor(offset / step) * step;
    const fine: Sum = { offset: over, terms: new Map(rest.filter(([, c]) => c % step !== 0)) };
    const [low, high] = rangeOf(fine);
    if (low < 0 || high >= step) continue;
    const coarse = [...terms].filter(([atom]) => !fine.terms.has(atom));
    const left = build({
      offset: (offset - over) / step,
      terms: new Map(coarse.map(([atom, c]) => [atom, c / step])),
    });
    if (step === n) return [left, build(fine)];
    const [quotient, remainder] = divided(left, n / step);
    return [quotient, add(mul(remainder, step), build(fine))];
  }
  throw new Error(`Cannot divide by ${n}`); // 1 always fits
}

/** The same where terms are no longer told apart. */
function divided(e: E, n: number): readonly [quotient: E, remainder: E] {
  const { offset, terms } = sumOf(e), floor = Math.floor(offset / n);
  const isWhole = (c: number): boolean => c % n === 0;
  const out = new Map([...terms].filter(([, c]) => isWhole(c)).map(([atom, c]) => [atom, c / n]));
  const rest = new Map([...terms].filter(([, c]) => !isWhole(c)));
  const left = build({ offset: offset - floor * n, terms: rest }), [low, high] = left.range;
  if (low >= 0 && high < n) return [build({ offset: floor, terms: out }), left];
  // Division in kernels rounds towards 0: of what may be negative, so many multiples more are divided.
  const more = Math.ceil(Math.max(0, -low) / n);
  if (high + more * n >= 2 ** 31) return asWritten(e, n);
  const [quotient, remainder] = asWritten(add(left, more * n), n);
  return [add(build({ offset: floor - more, terms: out }), quotient), remainder];
}

/** The operations of kernels on a number that is not negative. */
function asWritten(e: E, n: number): readonly [quotient: E, remainder: E] {
  const range: Range = [Math.floor(Math.max(e.range[0], 0) / n), Math.floor(e.range[1] / n)];
  return [
    make("/", "int", [e, int(n)], { range }),
    make("%", "int", [e, int(n)], { range: [0, n - 1] }),
  ];
}

/** The quotient of a number that is not negative. */
export const div = (e: Whole, n: number): E => divide(whole(e), n)[0];

/** The remainder of a number that is not negative. */
export const mod = (e: Whole, n: number): E => divide(whole(e), n)[1];

/** Quotient and remainder of numbers that are not negative, by one that a launch hands over. */
export function divideBy(e: Whole, n: E): readonly [quotient: E, remainder: E] {
  const x = whole(e);
  if (n.op === "const") return divide(x, n.value);
  const numbers = [x, n].flatMap((each) => {
    const { offset, terms } = sumOf(each);
    return [offset, ...terms.values()];
  });
  // What divides both is left out: the remainder is known to be a multiple of it.
  const by = numbers.reduce(gcd, 0), [a, b] = [div(x, by), div(n, by)];
  const quotient = make("quotient", "int", [a, b], { range: [0, x.range[1]] });
  return [quotient, mul(make("remainder", "int", [a, b], { range: [0, b.range[1] - 1] }), by)];
}

export function min(a: Whole, b: Whole): E {
  const [x, y] = [whole(a), whole(b)], [low, high] = sub(x, y).range;
  if (high <= 0) return x;
  if (low >= 0) return y;
  const ends = [0, 1].map((k) => Math.min(x.range[k]!, y.range[k]!));
  return make("min", "int", [x, y], { range: [ends[0]!, ends[1]!] });
}

/** Distance of an index between neighbouring lanes; null where that is no constant. */
export function laneStep(index: E): number | null {
  let step = 0;
  for (const [atom, c] of sumOf(index).terms) {
    if (atom.op === "lanes") step = c;
    else if (atom.width > 1) return null;
  }
  return step;
}

/** An index with its first lane's number in the place of all: where a vector of neighbours begins. */
export function firstLane(index: E): E {
  const { offset, terms } = sumOf(index);
  return build({ offset, terms: new Map([...terms].filter(([atom]) => atom.op !== "lanes")) });
}

/** True where a number is a multiple, whatever sizes are. */
export function isMultiple(e: E, n: number): boolean {
  const { offset, terms } = sumOf(e);
  return offset % n === 0 && [...terms.values()].every((c) => c % n === 0);
}

/** Numbers of elements at whose multiples neighbours are read together, the most first. */
export const ALIGNMENTS: readonly number[] = [16, 8, 4, 2];

/** The largest of them that divides a number of elements; 1 where none does. */
export const alignmentOf = (n: number): number => ALIGNMENTS.find((by) => n % by === 0) ?? 1;
