/**
 * Instructions of warps on the host: a ring of local memory with asynchronous copies, matrices that are read from
 * it, products of fragments. Layouts of products are the units' own; those of `ldmatrix` the PTX ISA's.
 */
import { type DType, fromBfloat16Bits, toBfloat16Bits } from "../../../backend/graph/dtype.ts";
import { int } from "../../../backend/tile/language/expression.ts";
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
    Object.assign(half, { bits, writer: item, written: this.#epoch() });
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

/** Bits of a float, and the float of bits. */
export const bitsOf = (x: number): number => new Uint32Array(Float32Array.of(x).buffer)[0]!;
export const floatOf = (bits: number): number => new Float32Array(Uint32Array.of(bits).buffer)[0]!;

/** A float as a number of TF32: ten bits of its mantissa. */
export const toTf32 = (bits: number): number => ((bits + 0x1000) & 0xffffe000) >>> 0;

const decode = {
  f16: (word: number, k: number): number =>
    new Float16Array(Uint16Array.of(word >>> 16 * k).buffer)[0]!,
  bf16: (word: number, k: number): number => floatOf(word >>> 16 * k << 16 >>> 0),
  tf32: (word: number): number => floatOf(word),
};

/** The elements that the words of a warp's work-items hold, by row and term: each is there, and once if not the same. */
function elementsOf(
  name: MatrixUnitName,
  { elements, at }: OperandLayout,
  words: readonly (readonly number[])[],
  count: number,
): Map<string, number> {
  const found = new Map<string, number>();
  const read = decode[name.split("_")[1] as keyof typeof decode];
  words.forEach((own, lane) =>
    own.forEach((word, n) => {
      const [row, term] = at(int(lane), n);
      for (let k = 0; k < elements; k++) {
        const key = `${row.value},${term.value + k}`, element = read(word, k);
        if (found.has(key) && !Object.is(found.get(key), element)) {
          throw new Error(`The layout of ${name} has two elements at ${key}`);
        }
        found.set(key, element);
      }
    })
  );
  if (found.size !== count) throw new Error(`The layout of ${name} leaves elements out`);
  return found;
}

/** The sums of a warp's work-items, of which each gives words and has sums before. */
export function multiplied(
  name: MatrixUnitName,
  left: readonly (readonly number[])[],
  right: readonly (readonly number[])[],
  sums: readonly (readonly number[])[],
): number[][] {
  const unit = matrixUnits[name], { rows, columns, terms } = unit;
  const a = elementsOf(name, unit.left, left, rows * terms);
  const b = elementsOf(name, unit.right, right, columns * terms);
  return sums.map((own, lane) =>
    own.map((before, register) => {
      const [row, column] = unit.sum(int(lane), register);
      let sum = before;
      for (let k = 0; k < terms; k++) {
        sum += a.get(`${row.value},${k}`)! * b.get(`${column.value},${k}`)!;
      }
      return Math.fround(sum);
    })
  );
}

/** The number of 16 bits of a half type, and the bits of a number. */
export const halfNumber = (bits: number, dtype: DType): number =>
  dtype === "float16" ? decode.f16(bits, 0) : fromBfloat16Bits(bits);
export const halfBits = (x: number, dtype: DType): number =>
  dtype === "float16" ? new Uint16Array(Float16Array.of(x).buffer)[0]! : toBfloat16Bits(x);

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
