/** Conditions, floats and memory: expressions above whole numbers. */
import {
  add,
  div,
  type E,
  type Element,
  firstLane,
  int,
  isMultiple,
  type Kind,
  lanes,
  laneStep,
  make,
  mod,
  type Place,
  type Range,
  sub,
  type Whole,
  whole,
} from "./expression.ts";

// ---- conditions

/** A condition that ranges decide is a constant. */
export const truth = (value: boolean): E => make("const", "bool", [], { value: Number(value) });

export function lt(a: Whole, b: Whole): E {
  const left = sub(a, b), [low, high] = left.range;
  return high < 0 ? truth(true) : low >= 0 ? truth(false) : make("<", "bool", [left, int(0)]);
}

/** True for numbers from 0 to before `size`: one comparison finds negative ones, too. */
export function within(a: E, size: E): E {
  if (a.range[0] >= 0) return lt(a, size);
  return make("within", "bool", [a, size]);
}

/** True where all conditions are; what is known of them is left out. */
export function all(conditions: readonly E[]): E {
  const open = conditions.filter(({ op }) => op !== "const");
  if (conditions.some(({ op, value }) => op === "const" && !value)) return truth(false);
  return open.length === 0 ? truth(true) : open.reduce((a, b) => make("and", "bool", [a, b]));
}

export const or = (a: E, b: E): E => make("or", "bool", [a, b]);

export const not = (a: E): E => a.op === "const" ? truth(!a.value) : make("not", "bool", [a]);

/** True where a float is larger than another one; where they are the same. Of vectors: in each lane. */
export const above = (a: E, b: E): E => make("above", "bool", [a, b]);
export const isSame = (a: E, b: E): E => make("same", "bool", [a, b]);

/** True where a condition holds in a lane. */
export const anyLane = (a: E): E => a.width === 1 ? a : make("any", "bool", [a], { width: 1 });

/** A value that a condition chooses; neither is left out, so both must be there. */
export const select = (condition: E, a: E, b: E): E => make("?", a.kind, [condition, a, b]);

/** A whole number that a condition chooses. */
export function choose(condition: E, a: Whole, b: Whole): E {
  if (condition.op === "const") return whole(condition.value ? a : b);
  const [x, y] = [whole(a), whole(b)];
  const range: Range = [Math.min(x.range[0], y.range[0]), Math.max(x.range[1], y.range[1])];
  return make("?", "int", [condition, x, y], { range });
}

// ---- bits of whole numbers that are not negative

/** The low bits. */
export const lowBits = (a: E, count: number): E => mod(a, 2 ** count);

export function shiftRight(a: E, by: E): E {
  if (by.op === "const") return div(a, 2 ** by.value);
  return make(">>", "int", [a, by], { range: [0, a.range[1]] });
}

/** A bit of each lane, or as many bits of one number as the index has lanes: they are neighbours. */
export function bit(a: E, index: E): E {
  const range: Range = [0, 1];
  if (index.width === 1) return make("bit", "int", [a, index], { range });
  if (a.width > 1 || !isWholeVector(index)) throw new Error("Cannot take bits: lanes lie apart");
  return make("laneBits", "int", [a, firstLane(index)], { range, width: index.width });
}

/** The bits in which two numbers that are not negative differ. */
export function exclusiveOr(a: E, b: E): E {
  const bits = Math.ceil(Math.log2(Math.max(a.range[1], b.range[1]) + 1));
  return make("^", "int", [a, b], { range: [0, 2 ** bits - 1] });
}

/** Two numbers of 16 bits as a word: the first is its low half. */
export const pair = (low: E, high: E): E => make("pair", "word", [low, high]);

/** A byte as a number with a sign. */
export const signed = (byte: E): E => make("signed", "int", [byte], { range: [-128, 127] });

// ---- vectors of numbers of 16 bits

const SHORT: Range = [-(2 ** 15), 2 ** 15 - 1];

/** Neighbours in memory, whole numbers of at most 16 bits; by an offset from a place as for {@linkcode loadFrom}. */
export const loadShorts = (place: Place, base: E, offset: E): E =>
  make("load", "int16", [base, firstLane(offset)], {
    place,
    width: offset.width,
    range: wholeRanges[place.element] ?? SHORT,
  });

/** The low bits that a mask of ones has, of numbers that are not negative. */
export const shortMask = (a: E, mask: number): E =>
  a.range[0] >= 0 && a.range[1] <= mask
    ? a
    : make("%", "int16", [a, int(mask + 1)], { range: [0, mask] });

/** Bits shifted right, by the same number in all lanes, of numbers that are not negative. */
export function shortRight(a: E, by: E): E {
  if (by.op !== "const") return make(">>", "int16", [a, by], { range: [0, a.range[1]] });
  const range: Range = [0, a.range[1] >> by.value];
  return by.value === 0 ? a : make(">>", "int16", [a, by], { range });
}

/** A sum of vectors, and of constants, times factors. */
export function shortSum(args: readonly E[], factors: readonly number[]): E {
  const range = [0, 1].map((end) =>
    args.reduce((all, a, k) => all + factors[k]! * a.range[factors[k]! > 0 ? end : 1 - end]!, 0)
  ) as [number, number];
  return make("sum", "int16", args, { factors, range });
}

/** A pair of numbers in all pairs of lanes. */
export const repeated = (pair: E, width: number): E =>
  make("repeated", "int16", [pair], { width, range: pair.range });

/** Neighbouring bits of a word from one on, each in a lane. */
export const shortBits = (word: E, first: E, width: number): E =>
  make("laneBits", "int16", [word, first], { width, range: [0, 1] });

/** Whole numbers that fit, as numbers of 16 bits. */
export const toShorts = (a: E): E => make("short", "int16", [a], { range: SHORT });

/** Products of two vectors of numbers of 16 bits, those of neighbours added: half as many lanes of 32 bits. */
export const dot = (a: E, b: E): E => make("dot", "int", [a, b], { width: a.width / 2 });

// ---- floats

export const float = (value: number): E => make("const", "float", [], { value });
export const toFloat = (e: E): E => e.op === "const" ? float(e.value) : make("float", "float", [e]);
/** The nearest whole number of a float, an even one of two; 0 or any other for what is no number. */
export const nearest = (a: E): E => make("nearest", "int", [a]);
/** The float that 16 bits of half precision stand for. */
export const fromHalf = (bits: E): E => make("fromHalf", "float", [bits]);
export const fadd = (a: E, b: E): E => make("fadd", "float", [a, b]);
export function fmul(a: E, b: E): E {
  if (a.op === "const" && b.op === "const") return float(Math.fround(a.value * b.value));
  return make("fmul", "float", [a, b]);
}
/** `a * b + c`, rounded once or twice, as the device has it; of floats or doubles. */
export const fma = (a: E, b: E, c: E): E => make("fma", c.kind, [a, b, c]);
/** 2 to the power of a float, approximately. */
export const exp2 = (a: E): E => make("exp2", "float", [a]);

/** The larger of two floats: `a` where `b` is not a number. */
export const larger = (a: E, b: E): E => make("larger", "float", [a, b]);

/** Operations on the bits of words: their table is a dialect's. */
export type WordOperation = "mask" | "flip" | "left" | "join" | "spread";

/**
 * Bits of words: `mask` shifts a word right and masks it by the number, `flip` and `left` are by that; `join` is of
 * two that have no bit in common, `spread` moves each of four bits to a byte of its own.
 */
export const words = (operation: WordOperation, args: readonly E[], value = 0): E =>
  make("words", "int", args, {
    name: operation,
    value,
    range: [0, operation === "mask" && value < 2 ** 31 ? value : 2 ** 32 - 1],
  });

/** Element `at` of those that a word of memory has, as a float. */
export const unpacked = (word: E, at: number, dtype: "float16" | "bfloat16" | "uint8"): E =>
  make("unpacked", "float", [word], { name: dtype, value: at });

/** Two floats as a word of elements of a half type: the first is its low half. */
export const packed = (low: E, high: E, dtype: "float16" | "bfloat16"): E =>
  make("packed", "word", [low, high], { name: dtype });

/** A value in all lanes of a vector. */
export const splat = (a: E, width: number): E =>
  a.width === width ? a : make("splat", a.kind, [a], { width });

/** The lanes of a vector from one on; what is behind the last is 0. */
export const lanesFrom = (e: E, first: number): E =>
  first === 0 ? e : make("lanesFrom", e.kind, [e], { value: first, width: e.width });

/** Lanes of two vectors in turn: those of their first or their second halves. */
export const interleaved = (a: E, b: E, half: 0 | 1): E =>
  make("interleaved", a.kind, [a, b], { value: half });

/** Every second lane of two vectors: the first of each pair, or the other. */
export const everySecond = (a: E, b: E, odd: 0 | 1): E =>
  make("everySecond", a.kind, [a, b], { value: odd });

/** The sum of a vector's lanes. */
export const laneSum = (e: E): E => e.width === 1 ? e : make("laneSum", e.kind, [e], { width: 1 });

/** One lane of a vector. */
export const lane = (e: E, value: number): E =>
  e.width === 1 ? e : make("lane", e.kind, [e], { value, width: 1, range: e.range });

// ---- memory

const wholeRanges: Partial<Record<Element, Range>> = {
  uint8: [0, 255],
  int8: [-128, 127],
  uint16: [0, 2 ** 16 - 1],
  // As bits: what is made of them is in range again.
  uint32: [0, 2 ** 32 - 1],
};

/**
 * An element, or as many neighbours as the index has lanes. Its operand is where they begin, and its value 1
 * where that is known to be a multiple of their number.
 */
export function load(place: Place, index: E): E {
  const first = firstLane(index);
  return loadOf(place, [first], index, isMultiple(first, index.width));
}

/** The same by an offset from a place that does not change in a loop, whose address is kept. */
export const loadFrom = (place: Place, base: E, offset: E): E =>
  loadOf(place, [base, firstLane(offset)], offset, isMultiple(add(base, offset), offset.width));

function loadOf(place: Place, at: readonly E[], index: E, isAligned: boolean): E {
  if (!isWholeVector(index)) throw new Error(`Cannot load ${place.buffer}: lanes lie apart`);
  const range = wholeRanges[place.element], { width } = index;
  const rest = { place, width, value: Number(isAligned) };
  return range ? make("load", "int", at, { ...rest, range }) : make("load", "float", at, rest);
}

/** As many neighbours from a place on: lanes are picked by {@linkcode lane}. */
export const loadVector = (place: Place, first: E, width: number): E =>
  load(place, add(first, lanes(width)));

/** The first `count` of as many floats, of which neighbours are one or two apart; other lanes are 0. */
export const loadPart = (place: Place, first: E, count: E, width: number, apart = 1): E =>
  make("loadPart", "float", [first, count], { place, width, value: apart });

/** As many neighbours of floats, those from `low` to before `high`; other lanes are 0. */
export const loadBetween = (place: Place, first: E, low: E, high: E, width: number): E =>
  make("loadBetween", "float", [first, low, high], { place, width });

/** A register of a work-item; `index` tells several of one name apart. */
export const register = (name: string, index: number, width = 1, kind: Kind = "float"): E =>
  make("register", kind, [], { name: `${name}_${index}`, width });

/** True where a load is of neighbours, or of one element. */
const isWholeVector = (index: E): boolean => index.width === 1 || laneStep(index) === 1;
