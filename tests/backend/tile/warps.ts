/**
 * Instructions of warps on the host: a ring of local memory with asynchronous copies, matrices that are read from
 * it, products of fragments. Layouts of products are the units' own; those of `ldmatrix` the PTX ISA's.
 */
import { type DType, fromBfloat16Bits, toBfloat16Bits } from "../../../backend/graph/dtype.ts";
import { type E, int } from "../../../backend/tile/language/expression.ts";
import type { Matrices, MatrixUnitName } from "../../../backend/tile/language/statements.ts";
import { matrixUnits, type OperandLayout } from "../../../backend/tile/matrix_units.ts";

/** Sixteen bits of a ring, who wrote and read them, and behind which barrier. */
interface Half {
  bits: number;
  writer: number;
  written: number;
  reader: number;
  read: number;
}

interface Copied {
  readonly byte: number;
  readonly halves: readonly number[];
}

const SEVERAL = -2;

/** Local memory that stages of operands go through. */
export class Ring {
  readonly #halves: Half[];
  readonly #fault: (text: string) => void;
  readonly #epoch: () => number;
  /** Copies of each work-item: those since the last commit, and groups that nobody has waited for. */
  readonly #open = new Map<number, Copied[]>();
  readonly #groups = new Map<number, Copied[][]>();

  constructor(bytes: number, fault: (text: string) => void, epoch: () => number) {
    this.#halves = Array.from(
      { length: bytes / 2 },
      () => ({ bits: 0, writer: -1, written: -1, reader: -1, read: -1 }),
    );
    this.#fault = fault;
    this.#epoch = epoch;
  }

  #at(byte: number): Half | null {
    const half = byte % 2 === 0 ? this.#halves[byte / 2] : undefined;
    if (half === undefined) this.#fault("ring outside");
    return half ?? null;
  }

  read(item: number, byte: number): number {
    const half = this.#at(byte), epoch = this.#epoch();
    if (half === null) return 0;
    if (half.written < 0) this.#fault("read before write: ring");
    if (half.written === epoch && half.writer !== item) {
      this.#fault("no barrier between write and read: ring");
    }
    half.reader = half.read === epoch && half.reader !== item ? SEVERAL : item;
    half.read = epoch;
    return half.bits;
  }

  word(item: number, byte: number): number {
    return (this.read(item, byte) | this.read(item, byte + 2) << 16) >>> 0;
  }

  /** True where nobody else reads, or has written, since the last barrier. */
  #isFree(half: Half, item: number): boolean {
    const epoch = this.#epoch();
    if (half.written === epoch && half.writer !== item) this.#fault("double write: ring");
    if (half.read === epoch && half.reader !== item) {
      this.#fault("no barrier between read and write: ring");
    }
    return true;
  }

  write(item: number, byte: number, bits: number): void {
    const half = this.#at(byte);
    if (half === null || !this.#isFree(half, item)) return;
    half.bits = bits;
    half.writer = item;
    half.written = this.#epoch();
  }

  writeWord(item: number, byte: number, word: number): void {
    this.write(item, byte, word & 0xffff);
    this.write(item, byte + 2, word >>> 16);
  }

  copy(item: number, byte: number, halves: readonly number[]): void {
    if (byte % (2 * halves.length) !== 0) this.#fault("copy unaligned");
    halves.forEach((_, k) => {
      const half = this.#at(byte + 2 * k);
      if (half) this.#isFree(half, item);
    });
    this.#open.getOrInsertComputed(item, () => []).push({ byte, halves });
  }

  commit(item: number): void {
    this.#groups.getOrInsertComputed(item, () => []).push(this.#open.get(item) ?? []);
    this.#open.delete(item);
  }

  wait(item: number, left: number): void {
    const groups = this.#groups.get(item) ?? [];
    while (groups.length > left) {
      for (const { byte, halves } of groups.shift()!) {
        halves.forEach((bits, k) => this.write(item, byte + 2 * k, bits));
      }
    }
  }

  /**
   * The words of a warp's work-items, of as many matrices as each of them gets words; `bytes` are the addresses
   * that they give.
   */
  matrices(
    first: number,
    bytes: readonly number[],
    count: number,
    how: Matrices["how"],
  ): number[][] {
    if (how === "alone") {
      const size = 4 * count, atOnce = 32 / count;
      if (bytes.some((byte) => byte % size !== 0)) this.#fault("words unaligned");
      for (let lane = 0; lane < bytes.length; lane += atOnce) {
        this.#banks(bytes.slice(lane, lane + atOnce).map((byte) => byte / size), atOnce);
      }
      return bytes.map((byte, lane) =>
        Array.from({ length: count }, (_, k) => this.word(first + lane, byte + 4 * k))
      );
    }
    for (let matrix = 0; matrix < count; matrix++) {
      const rows = bytes.slice(8 * matrix, 8 * matrix + 8);
      if (rows.some((byte) => byte % 16 !== 0)) this.#fault("matrix unaligned");
      this.#banks(rows.map((byte) => byte / 16), 8);
    }
    return bytes.map((_, lane) =>
      Array.from({ length: count }, (_, matrix) => {
        const row = (k: number): number => bytes[8 * matrix + k]!, own = first + lane;
        if (how === "rows") return this.word(own, row(lane >> 2) + (lane & 3) * 4);
        const half = (k: number): number =>
          this.read(own, row((lane & 3) * 2 + k) + (lane >> 2) * 2);
        return (half(0) | half(1) << 16) >>> 0;
      })
    );
  }

  /** Different places of one bank are read one after the other. */
  #banks(places: readonly number[], banks: number): void {
    const all = new Set(places);
    if (new Set([...all].map((place) => place % banks)).size < all.size) {
      this.#fault("bank conflict");
    }
  }
}

const bits = new Uint32Array(1), halves = new Uint16Array(bits.buffer);
const floats = new Float32Array(bits.buffer), halfFloats = new Float16Array(bits.buffer);

/** Bits of a float, and the float of bits. */
export function bitsOf(x: number): number {
  floats[0] = x;
  return bits[0]!;
}

export function floatOf(word: number): number {
  bits[0] = word;
  return floats[0]!;
}

/** The number of a float16, and its bits. */
export function float16Of(half: number): number {
  halves[0] = half;
  return halfFloats[0]!;
}

function bitsOfFloat16(x: number): number {
  halfFloats[0] = x;
  return halves[0]!;
}

/** A float as a number of TF32: ten bits of its mantissa. */
export const toTf32 = (bits: number): number => ((bits + 0x1000) & 0xffffe000) >>> 0;

const decode = {
  f16: (word: number, k: number): number => float16Of(word >>> 16 * k & 0xffff),
  bf16: (word: number, k: number): number => floatOf(word >>> 16 * k << 16 >>> 0),
  tf32: (word: number): number => floatOf(word),
};

/** Places in a matrix, row by row, of what work-items hold: worked out once, by the layout and their number. */
const places = new WeakMap<object, Map<number, readonly number[][]>>();

function placesOf(
  layout: object,
  lanes: number,
  placeOf: (lane: E) => number[],
): readonly number[][] {
  return places.getOrInsertComputed(layout, () => new Map()).getOrInsertComputed(
    lanes,
    () => Array.from({ length: lanes }, (_, lane) => placeOf(int(lane))),
  );
}

/** Places of the first elements of each work-item's words; the others of a word follow. */
function placesOfWords(layout: OperandLayout, lanes: number, terms: number): readonly number[][] {
  return placesOf(layout, lanes, (lane) =>
    Array.from({ length: layout.words }, (_, word) => {
      const [row, term] = layout.at(lane, word);
      return row.value * terms + term.value;
    }));
}

/** The elements that the words of a warp's work-items hold, row by row: each is there, and once if not the same. */
function elementsOf(
  name: MatrixUnitName,
  layout: OperandLayout,
  words: readonly (readonly number[])[],
  terms: number,
  count: number,
): readonly number[] {
  const found: (number | undefined)[] = new Array(count).fill(undefined);
  const read = decode[name.split("_")[1] as keyof typeof decode];
  const firsts = placesOfWords(layout, words.length, terms);
  let left = count;
  words.forEach((own, lane) =>
    own.forEach((word, n) => {
      const first = firsts[lane]![n]!;
      for (let k = 0; k < layout.elements; k++) {
        const element = read(word, k), before = found[first + k];
        if (before === undefined) left--;
        else if (!Object.is(before, element)) {
          throw new Error(`The layout of ${name} has two elements at ${first + k}`);
        }
        found[first + k] = element;
      }
    })
  );
  if (left !== 0) throw new Error(`The layout of ${name} leaves elements out`);
  return found as number[];
}

/** The sums of a warp's work-items, of which each gives words and has sums before. */
export function multiplied(
  name: MatrixUnitName,
  left: readonly (readonly number[])[],
  right: readonly (readonly number[])[],
  sums: readonly (readonly number[])[],
): number[][] {
  const unit = matrixUnits[name], { rows, columns, terms } = unit;
  const a = elementsOf(name, unit.left, left, terms, rows * terms);
  const b = elementsOf(name, unit.right, right, terms, columns * terms);
  const all = placesOf(
    unit,
    sums.length,
    (lane) =>
      Array.from({ length: unit.sums }, (_, register) => {
        const [row, column] = unit.sum(lane, register);
        return row.value * columns + column.value;
      }),
  );
  return sums.map((own, lane) =>
    own.map((before, register) => {
      const place = all[lane]![register]!, column = place % columns;
      const [x, y] = [(place - column) / columns * terms, column * terms];
      let sum = before;
      for (let k = 0; k < terms; k++) sum += a[x + k]! * b[y + k]!;
      return Math.fround(sum);
    })
  );
}

/** The number of 16 bits of a half type, and the bits of a number. */
export const halfNumber = (bits: number, dtype: DType): number =>
  dtype === "float16" ? decode.f16(bits, 0) : fromBfloat16Bits(bits);
export const halfBits = (x: number, dtype: DType): number =>
  dtype === "float16" ? bitsOfFloat16(x) : toBfloat16Bits(x);

/** A byte of a tile whose rows have 128 bytes: sixteens change places by their row. */
export const swizzled = (byte: number): number => byte ^ ((byte >> 7 & 7) << 4);

/** Row and column of a warpgroup's sum. */
export const placeOfSum = (item: number, sum: number): [row: number, column: number] => [
  (item >> 5 & 3) * 16 + (item >> 2 & 7) + (sum >> 1 & 1) * 8,
  (sum >> 2) * 8 + (item & 3) * 2 + (sum & 1),
];

/** Work-item of a warpgroup that has an element of a left operand, its word, and the half of that. */
export const placeOfLeft = (
  row: number,
  term: number,
): [item: number, word: number, isHigh: boolean] => [
  (row >> 4) * 32 + (row & 7) * 4 + ((term & 7) >> 1),
  (term >> 4) * 4 + (row >> 3 & 1) + 2 * (term >> 3 & 1),
  (term & 1) === 1,
];
