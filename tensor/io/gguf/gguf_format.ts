/**
 * The header of a GGUF file, versions 2 and 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md):
 * typed values by key, then where each tensor lies. Everything is little-endian.
 */
import {
  blockBytes,
  type BlockFormat,
  type BlockFormatName,
  formatTable,
} from "../../../backend/internal.ts";
import { FileFormatError, shown } from "../core/file_format_error.ts";
import { checkedSize } from "../core/host_array.ts";
import type { ElementType } from "../core/elements.ts";
import { elementBytes } from "../core/elements.ts";

/** A format of blocks in a GGUF file. */
export type BlockType = Extract<BlockFormatName, `Q${string}`>;

/** A type of elements in a GGUF file. */
export type GgufType = BlockType | "F32" | "F16" | "BF16" | "F64" | "I8" | "I16" | "I32" | "I64";

/** Types whose elements stand alone, as `elements.ts` names them. */
export const plainTypes: Readonly<Partial<Record<GgufType, ElementType>>> = {
  F32: "f4",
  F16: "f2",
  BF16: "bf",
  F64: "f8",
  I8: "i1",
  I16: "i2",
  I32: "i4",
  I64: "i8",
};

/** The types by their numbers in a file. */
const typeNumbers: Readonly<Record<number, GgufType>> = {
  0: "F32",
  1: "F16",
  2: "Q4_0",
  3: "Q4_1",
  6: "Q5_0",
  7: "Q5_1",
  8: "Q8_0",
  10: "Q2_K",
  11: "Q3_K",
  12: "Q4_K",
  13: "Q5_K",
  14: "Q6_K",
  24: "I8",
  25: "I16",
  26: "I32",
  27: "I64",
  28: "F64",
  30: "BF16",
};

/** A value of a header. */
export type GgufValue = number | bigint | boolean | string | readonly GgufValue[];

/** Place of a tensor. */
export interface GgufEntry {
  /** Stored type of its elements. */
  readonly type: GgufType;
  /** Rows first, as everywhere in netcl; the file has them the other way round. */
  readonly shape: readonly number[];
  /** Its first byte, counted from the file's first. */
  readonly start: number;
  /** Size in bytes. */
  readonly nbytes: number;
}

/** The parsed header of a file. */
export interface GgufHeader {
  readonly metadata: Readonly<Record<string, GgufValue>>;
  readonly tensors: ReadonlyMap<string, GgufEntry>;
}

const MAGIC = 0x46554747;
const MAX_AXES = 4;
const DEFAULT_ALIGNMENT = 32;
/** Arrays within arrays: real files have none, and a hostile one must not fill the stack. */
const MAX_NESTING = 4;

/** The row of a type of blocks; undefined for one whose elements stand alone. */
export function blockFormatOf(type: GgufType): BlockFormat | undefined {
  return Object.hasOwn(plainTypes, type) ? undefined : formatTable[type as BlockType];
}

/** More of the file is needed than was read. */
class MoreNeeded extends Error {}

/** Reads values one after the other. */
class Reader {
  readonly #view: DataView<ArrayBuffer>;
  readonly #bytes: Uint8Array<ArrayBuffer>;
  readonly #fileBytes: number;
  at = 0;

  constructor(bytes: Uint8Array<ArrayBuffer>, fileBytes: number) {
    this.#bytes = bytes;
    this.#fileBytes = fileBytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Passes so many bytes; gives back where they begin. */
  #take(count: number, what: string): number {
    const from = this.at;
    if (count > this.#fileBytes - from) {
      throw new FileFormatError(`The file ends within ${what}, at byte ${from}`);
    }
    if (count > this.#bytes.length - from) throw new MoreNeeded();
    this.at += count;
    return from;
  }

  number(type: keyof typeof scalars, what: string): number | bigint | boolean {
    const [width, read] = scalars[type];
    return read(this.#view, this.#take(width, what));
  }

  uint32(what: string): number {
    return this.number(4, what) as number;
  }

  /** A length or a place: more than 2^53 - 1 is damage. */
  size(what: string): number {
    const value = Number(this.number(10, what));
    if (Number.isSafeInteger(value)) return value;
    throw new FileFormatError(`The file has ${value} as ${what}`);
  }

  text(what: string): string {
    const length = this.size(`the length of ${what}`), from = this.#take(length, what);
    return new TextDecoder().decode(this.#bytes.subarray(from, from + length));
  }

  value(type: number, what: string, depth = 0): GgufValue {
    if (type === 8) return this.text(what);
    if (type === 9) return this.#array(what, depth);
    if (isScalar(type)) return this.number(type, what);
    throw new FileFormatError(`The value of ${what} has type ${type}: there are 0 to 12`);
  }

  #array(what: string, depth: number): GgufValue[] {
    if (depth === MAX_NESTING) throw new FileFormatError(`${what} has arrays in arrays in arrays`);
    const type = this.uint32(what), length = this.size(`the length of ${what}`);
    const least = type === 8 ? 8 : type === 9 ? 12 : isScalar(type) ? scalars[type][0] : 1;
    if (length * least > this.#fileBytes - this.at) {
      throw new FileFormatError(`${what} claims ${length} values: the file ends before`);
    }
    if (length * least > this.#bytes.length - this.at) throw new MoreNeeded();
    return Array.from({ length }, () => this.value(type, what, depth + 1));
  }
}

type Scalar = readonly [
  bytes: number,
  read: (v: DataView, at: number) => number | bigint | boolean,
];

/** By the numbers of their types; whole numbers of 64 bits are bigint where a number would be rounded. */
const scalars = {
  0: [1, (v, at) => v.getUint8(at)],
  1: [1, (v, at) => v.getInt8(at)],
  2: [2, (v, at) => v.getUint16(at, true)],
  3: [2, (v, at) => v.getInt16(at, true)],
  4: [4, (v, at) => v.getUint32(at, true)],
  5: [4, (v, at) => v.getInt32(at, true)],
  6: [4, (v, at) => v.getFloat32(at, true)],
  7: [1, (v, at) => v.getUint8(at) !== 0],
  10: [8, (v, at) => exact(v.getBigUint64(at, true))],
  11: [8, (v, at) => exact(v.getBigInt64(at, true))],
  12: [8, (v, at) => v.getFloat64(at, true)],
} as const satisfies Record<number, Scalar>;

function isScalar(type: number): type is keyof typeof scalars {
  return Object.hasOwn(scalars, type);
}

function exact(value: bigint): number | bigint {
  return Number.isSafeInteger(Number(value)) ? Number(value) : value;
}

/**
 * Reads and checks a header.
 *
 * @param bytes The first bytes of a file.
 * @param fileBytes The length of the whole file.
 * @returns The header; null where it is longer than `bytes`.
 * @throws {FileFormatError} When the file is damaged, or of a kind that netcl does not read.
 */
export function parseGgufHeader(
  bytes: Uint8Array<ArrayBuffer>,
  fileBytes: number,
): GgufHeader | null {
  try {
    return headerOf(new Reader(bytes, fileBytes), fileBytes);
  } catch (error) {
    if (error instanceof MoreNeeded) return null;
    throw error;
  }
}

function headerOf(reader: Reader, fileBytes: number): GgufHeader {
  if (reader.uint32("the magic number") !== MAGIC) {
    throw new FileFormatError('It is no GGUF file: it does not begin with "GGUF"');
  }
  const version = reader.uint32("the version");
  if (version !== 2 && version !== 3) {
    const why = version % 0x10000 === 0 ? ", or one in the other byte order" : "";
    throw new FileFormatError(`It is GGUF of version ${version}${why}: netcl reads 2 and 3`);
  }
  const count = reader.size("the number of tensors"), values = reader.size("the number of values");
  const metadata = new Map<string, GgufValue>();
  for (let k = 0; k < values; k++) {
    const key = reader.text("a key");
    if (metadata.has(key)) throw new FileFormatError(`The key ${shown(key)} is there twice`);
    metadata.set(key, reader.value(reader.uint32(shown(key)), shown(key)));
  }
  const entries = new Map<string, GgufEntry>();
  for (let k = 0; k < count; k++) {
    const name = reader.text("the name of a tensor");
    if (entries.has(name)) throw new FileFormatError(`Tensor ${shown(name)} is there twice`);
    entries.set(name, entryOf(reader, `Tensor ${shown(name)}`));
  }
  const alignment = metadata.get("general.alignment") ?? DEFAULT_ALIGNMENT;
  const tensors = placed(entries, dataStart(reader.at, alignment), fileBytes);
  return { metadata: Object.fromEntries(metadata), tensors };
}

function entryOf(reader: Reader, what: string): GgufEntry {
  const axes = reader.uint32(what);
  if (axes > MAX_AXES) {
    throw new FileFormatError(`${what} has ${axes} axes: at most ${MAX_AXES} are read`);
  }
  const shape = Array.from({ length: axes }, () => reader.size(what)).reverse();
  const number = reader.uint32(what), type = typeNumbers[number];
  if (type === undefined) {
    const known = Object.values(typeNumbers).join(", ");
    throw new FileFormatError(`${what} has type ${number} of ggml: netcl reads ${known}`);
  }
  const format = blockFormatOf(type), size = checkedSize(shape, what);
  if (format && (shape.at(-1) ?? 1) % format.elements !== 0) {
    throw new FileFormatError(
      `${what} of ${type} has rows of ${
        shape.at(-1) ?? 1
      }: blocks have ${format.elements} elements`,
    );
  }
  const nbytes = format
    ? size / format.elements * blockBytes(format)
    : size * elementBytes(plainTypes[type]!);
  return { type, shape, start: reader.size(what), nbytes };
}

function dataStart(headerBytes: number, alignment: GgufValue): number {
  if (typeof alignment === "number" && Number.isInteger(Math.log2(alignment)) && alignment >= 1) {
    return Math.ceil(headerBytes / alignment) * alignment;
  }
  throw new FileFormatError(`general.alignment is ${shown(String(alignment))}: no power of two`);
}

/** Counts places from the file's first byte, and holds them against its length and each other. */
function placed(
  entries: ReadonlyMap<string, GgufEntry>,
  dataStart: number,
  fileBytes: number,
): Map<string, GgufEntry> {
  const tensors = new Map(
    [...entries].map(([name, entry]) => [name, { ...entry, start: entry.start + dataStart }]),
  );
  let end = dataStart;
  for (const [name, entry] of [...tensors].sort(([, a], [, b]) => a.start - b.start)) {
    if (entry.start < end) {
      throw new FileFormatError(`Tensor ${shown(name)} overlaps the one before it`);
    }
    end = entry.start + entry.nbytes;
    if (end > fileBytes) {
      throw new FileFormatError(
        `Tensor ${shown(name)} ends at byte ${end}: the file has ${fileBytes}`,
      );
    }
  }
  return tensors;
}
