/**
 * Argsort on the host. Elements become whole numbers in the order that is asked for, of which rows are
 * sorted digit by digit (D. Knuth, The Art of Computer Programming 3, 5.2.5): equal ones keep their order.
 * Where only the first few of a row are wanted, those are kept while it is read.
 */
import { type DType, dtypes, isFloat, type TypedArray } from "../../graph/dtype.ts";
import type { SpecialKernel } from "../../kernel/kernel.ts";
import { arrayOf, type Runner } from "./runner.ts";

type Argsort = SpecialKernel & { readonly op: "argsort" };

/** Shorter rows are sorted by insertion. */
const MIN_DIGITS_LENGTH = 40;
/** Rows from which digits of 11 bits are worth their counters; shorter ones have digits of 8. */
const MIN_LONG_DIGITS = 2048;
/** Places that are kept in order while a row is read; more are found by sorting it. */
const MAX_KEPT = 128;

const SIGN = -0x80000000, LARGEST = 0x7fffffff;

/** The runner of an argsort, or of the first places of one. */
export function argsortRunner(kernel: Argsort): Runner {
  const { rows, length, count, descending, inputs, output } = kernel;
  const dtype = inputs[0]!, flip = descending ? -1 : 0;
  const isKept = count < length && count <= MAX_KEPT && dtypes[dtype].bytes < 8;
  return {
    source: isKept ? `// the first ${count} of rows` : "// rows are sorted by digits",
    run([from], [to]) {
      const read = wordsOf(arrayOf(from!, dtype), dtype, length), sorter = new RowSorter(length);
      const places = arrayOf(to!, output.dtype);
      for (let row = 0; row < rows; row++) {
        const words = read(row * length, flip);
        const order = isKept ? firstOf(words[0]!, count) : sorter.sort(words);
        storePlaces(places, row * count, order, count);
      }
    },
  };
}

function storePlaces(into: TypedArray, start: number, order: Int32Array, count: number): void {
  if (into instanceof BigInt64Array) {
    for (let k = 0; k < count; k++) into[start + k] = BigInt(order[k]!);
  } else for (let k = 0; k < count; k++) into[start + k] = order[k]!;
}

/** Gives a row's elements as signed numbers that compare alike: the lowest words first. */
type ReadWords = (start: number, flip: number) => Int32Array[];

/**
 * Reads rows of a type into arrays that the next row takes again. `flip`: -1 turns the order
 * round, 0 keeps it. NaN is the largest, zeros are equal.
 */
function wordsOf(elements: TypedArray, dtype: DType, length: number): ReadWords {
  if (dtypes[dtype].bytes === 8) return longWords(elements, isFloat(dtype), length);
  const keys = new Int32Array(length);
  if (!isFloat(dtype)) {
    return (start, flip) => {
      for (let k = 0; k < length; k++) keys[k] = (elements[start + k] as number) ^ flip;
      return [keys];
    };
  }
  const bitsFrom = floatBits(elements, dtype, length);
  return (start, flip) => {
    const { bits, from } = bitsFrom(start);
    for (let k = 0; k < length; k++) keys[k] = floatKey(bits[from + k]!) ^ flip;
    return [keys];
  };
}

/** Position of a row's bits of floats in single precision. */
function floatBits(
  elements: TypedArray,
  dtype: DType,
  length: number,
): (start: number) => { bits: Int32Array; from: number } {
  if (dtype === "float32") {
    const bits = new Int32Array(elements.buffer, elements.byteOffset, elements.length);
    return (start) => ({ bits, from: start });
  }
  const floats = new Float32Array(length), bits = new Int32Array(floats.buffer);
  return (start) => {
    const row = elements.subarray(start, start + length);
    if (dtype === "bfloat16") {
      for (let k = 0; k < length; k++) {
        bits[k] = (row[k] as number) << 16;
      }
    } else floats.set(row as Float16Array);
    return { bits, from: 0 };
  };
}

/** The bits of a float as a signed number in the order of floats; no branch depends on the sign. */
function floatKey(bits: number): number {
  const magnitude = bits & LARGEST;
  if (magnitude > 0x7f800000) return LARGEST;
  return magnitude === 0 ? 0 : bits ^ ((bits >> 31) & LARGEST);
}

function longWords(elements: TypedArray, isDouble: boolean, length: number): ReadWords {
  const words = new Int32Array(elements.buffer, elements.byteOffset, 2 * elements.length);
  const low = new Int32Array(length), high = new Int32Array(length);
  return (start, flip) => {
    for (let k = 0; k < length; k++) {
      let lower = words[2 * (start + k)]!, upper = words[2 * (start + k) + 1]!;
      if (isDouble) {
        const magnitude = upper & LARGEST;
        const isNaN = magnitude > 0x7ff00000 || magnitude === 0x7ff00000 && lower !== 0;
        const isZero = magnitude === 0 && lower === 0;
        if (isNaN) lower = -1;
        else if (upper < 0 && !isZero) lower = ~lower;
        upper = isNaN ? LARGEST : isZero ? 0 : upper < 0 ? upper ^ LARGEST : upper;
      }
      // Lower words have no sign.
      low[k] = lower ^ SIGN ^ flip;
      high[k] = upper ^ flip;
    }
    return [low, high];
  };
}

/** The places of the `count` smallest of a row, in order. */
function firstOf(keys: Int32Array, count: number): Int32Array {
  const best = new Int32Array(count), places = new Int32Array(count);
  let filled = 0, worst = LARGEST;
  for (let k = 0; k < keys.length; k++) {
    const key = keys[k]!;
    if (filled === count && key >= worst) continue;
    let at = filled < count ? filled++ : count - 1;
    for (; at > 0 && best[at - 1]! > key; at--) {
      best[at] = best[at - 1]!;
      places[at] = places[at - 1]!;
    }
    best[at] = key;
    places[at] = k;
    worst = best[count - 1]!;
  }
  return places;
}

/** Sorts rows of one length. */
class RowSorter {
  readonly #length: number;
  readonly #bits: number;
  readonly #counts: Int32Array;
  /** Keys in their present order, and places of the row in it; two of each, which take turns. */
  readonly #keys: [Int32Array, Int32Array];
  readonly #places: [Int32Array, Int32Array];

  constructor(length: number) {
    this.#length = length;
    this.#bits = length < MIN_LONG_DIGITS ? 8 : 11;
    this.#counts = new Int32Array(Math.ceil(32 / this.#bits) << this.#bits);
    const array = (): Int32Array => new Int32Array(length);
    this.#keys = [array(), array()];
    this.#places = [array(), array()];
  }

  /** The order of a row by its words, the last of which says most. */
  sort(words: readonly Int32Array[]): Int32Array {
    const [places] = this.#places;
    for (let k = 0; k < this.#length; k++) places[k] = k;
    for (const word of words) {
      const [keys] = this.#keys, [order] = this.#places;
      for (let k = 0; k < this.#length; k++) keys[k] = word[order[k]!]!;
      if (this.#length < MIN_DIGITS_LENGTH) this.#insert();
      else this.#byDigits();
    }
    return this.#places[0];
  }

  #insert(): void {
    const [keys] = this.#keys, [places] = this.#places;
    for (let k = 1; k < this.#length; k++) {
      const key = keys[k]!, place = places[k]!;
      let at = k;
      for (; at > 0 && keys[at - 1]! > key; at--) {
        keys[at] = keys[at - 1]!;
        places[at] = places[at - 1]!;
      }
      keys[at] = key;
      places[at] = place;
    }
  }

  #byDigits(): void {
    const bits = this.#bits, size = 1 << bits;
    this.#count();
    for (let shift = 0, base = 0; shift < 32; shift += bits, base += size) {
      const [keys] = this.#keys;
      const first = ((keys[0]! ^ SIGN) >>> shift) & (size - 1);
      if (this.#counts[base + first] === this.#length) continue;
      this.#move(shift, base);
    }
  }

  /** Counts each digit's values, whatever the order. */
  #count(): void {
    const bits = this.#bits, size = 1 << bits, mask = size - 1, counts = this.#counts.fill(0);
    const [keys] = this.#keys, length = keys.length;
    for (let k = 0; k < length; k++) {
      const key = keys[k]! ^ SIGN;
      counts[key & mask]!++;
      counts[size + ((key >>> bits) & mask)]!++;
      counts[2 * size + ((key >>> 2 * bits) & mask)]!++;
      if (bits === 8) counts[3 * size + (key >>> 24)]!++;
    }
  }

  /** Moves all elements to where a digit puts them. */
  #move(shift: number, base: number): void {
    const mask = (1 << this.#bits) - 1, counts = this.#counts;
    const [keys, nextKeys] = this.#keys, [places, nextPlaces] = this.#places;
    for (let digit = 0, sum = 0; digit <= mask; digit++) {
      const count = counts[base + digit]!;
      counts[base + digit] = sum;
      sum += count;
    }
    for (let k = 0; k < keys.length; k++) {
      const key = keys[k]!, digit = base + (((key ^ SIGN) >>> shift) & mask);
      const at = counts[digit]!++;
      nextKeys[at] = key;
      nextPlaces[at] = places[k]!;
    }
    this.#keys.reverse();
    this.#places.reverse();
  }
}
