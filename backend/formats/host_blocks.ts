/** Blocks on the host: in the order of files, in that of device memory, and as numbers. */
import {
  blockBytes,
  type BlockFormat,
  type BlockReader,
  fieldPlaces,
  valueOf,
} from "./block_format.ts";
import { type BlockFormatName, formatTable } from "./block_formats.ts";

/** The bytes of whole blocks in the order of device memory: each field's of all blocks side by side. */
export function fieldsApart(bytes: Uint8Array, format: BlockFormat): Uint8Array<ArrayBuffer> {
  const size = blockBytes(format), blocks = bytes.length / size, places = fieldPlaces(format);
  const out = new Uint8Array(bytes.length);
  let offset = 0;
  for (const [name, count] of Object.entries(format.fields)) {
    let to = places[name]!.start * blocks;
    for (let from = offset; from < bytes.length; from += size) {
      for (let k = 0; k < count; k++) out[to++] = bytes[from + k]!;
    }
    offset += count;
  }
  return out;
}

/** Bits of half precision, and the number that they stand for. */
const bits = new Uint16Array(1), halves = new Float16Array(bits.buffer);

function fromHalf(value: number): number {
  bits[0] = value;
  return halves[0]!;
}

/** The row of a format as JavaScript: `at` is the element's place in its block. */
class ScriptReader implements BlockReader<string> {
  readonly at = "at";
  readonly #address: (field: string) => string;

  /** @param address Where a field of the block begins in `bytes`. */
  constructor(address: (field: string) => string) {
    this.#address = address;
  }

  byte = (field: string, index: string): string => `bytes[${this.#address(field)} + ${index}]`;
  int8 = (field: string, index: string): string => `(${this.byte(field, index)} << 24 >> 24)`;
  word = (field: string, index: string): string => {
    const parts = [0, 8, 16, 24].map((shift, k) =>
      `${this.byte(field, `4 * ${index} + ${k}`)} << ${shift}`
    );
    return `((${parts.join(" | ")}) >>> 0)`;
  };
  half = (field: string, index: string): string => {
    const [low, high] = [0, 1].map((k) => this.byte(field, `2 * ${index} + ${k}`));
    return this.fromHalf(`${low} | ${high} << 8`);
  };
  int = (value: number): string => `(${value})`;
  add = (a: string, b: string): string => `(${a} + ${b})`;
  and = (a: string, mask: number): string => `(${a} & ${mask})`;
  shiftRight = (a: string, by: string): string => `(${a} >>> ${by})`;
  bit = (a: string, index: string): string => `(${a} >>> ${index} & 1)`;
  shiftLeft = (a: string, by: number): string => `(${a} << ${by})`;
  below = (a: string, limit: number, below: string, above: string): string =>
    `(${a} < ${limit} ? ${below} : ${above})`;
  float = (a: string): string => a;
  fromHalf = (bits: string): string => `fromHalf(${bits})`;
  multiply = (a: string, b: string): string => `fround(${a} * ${b})`;
  sum = (a: string, b: string): string => `fround(${a} + ${b})`;
}

/** Reads elements of packed bytes on the host. */
export interface HostBlocks {
  /**
   * An element in the order of device memory.
   *
   * @param bytes All blocks, fields apart.
   * @param blocks How many there are.
   * @param index Which element of all.
   */
  element(bytes: Uint8Array, blocks: number, index: number): number;
  /** All elements, of whole blocks in the order of files. */
  decode(bytes: Uint8Array): Float32Array<ArrayBuffer>;
}

/** Neighbours of a block that have scale and offset in common, in every format. */
const RUN = 16;

function compiled(format: BlockFormat): HostBlocks {
  const { elements, fields } = format, size = blockBytes(format), places = fieldPlaces(format);
  const apart = new ScriptReader((field) => {
    const { start, bytes } = places[field]!;
    return `${start} * blocks + block * ${bytes}`;
  });
  const names = Object.keys(fields);
  const whole = new ScriptReader((field) => {
    const before = names.slice(0, names.indexOf(field)).map((name) => fields[name]!);
    return `from + ${before.reduce((a, b) => a + b, 0)}`;
  });
  const scale = format.scale?.(whole) ?? "1", offset = format.offset?.(whole) ?? "0";
  const scaled = format.scale ? whole.multiply("scale", format.quant(whole)) : format.quant(whole);
  const value = format.offset ? whole.sum(scaled, "offset") : scaled;
  const text = `return {
    element(bytes, blocks, index) {
      const block = Math.floor(index / ${elements}), at = index % ${elements};
      return ${valueOf(format, apart)};
    },
    decode(bytes) {
      const values = new Float32Array(bytes.length / ${size} * ${elements});
      for (let from = 0, to = 0; to < values.length; from += ${size}) {
        for (let first = 0; first < ${elements}; first += ${RUN}) {
          let at = first;
          const scale = ${scale}, offset = ${offset}, end = ${Math.min(RUN, elements)};
          for (let k = 0; k < end; k++, at++) values[to++] = ${value};
        }
      }
      return values;
    },
  };`;
  return Function("fround", "fromHalf", text)(Math.fround, fromHalf);
}

const readers = new Map<BlockFormatName, HostBlocks>();

/** The reader of a format. */
export function hostBlocks(name: BlockFormatName): HostBlocks {
  let reader = readers.get(name);
  if (reader === undefined) readers.set(name, reader = compiled(formatTable[name]));
  return reader;
}
