/**
 * The table of formats. Blocks are those of GGUF files, by the names that they have there; formats of one
 * byte an element are those of int8 and fp8 weights, whose scales are tensors of their own.
 *
 * To add one: its name and its row. Sources: ggml's `ggml-quants.c` (blocks); OCP 8-bit floating point, revision 1.0.
 */
import type { BlockFormat, BlockReader } from "./block_format.ts";

/** A format of numbers of few bits: those of GGUF files by their names there, and single bytes. */
export type BlockFormatName =
  | "Q8_0"
  | "Q4_0"
  | "Q4_1"
  | "Q5_0"
  | "Q5_1"
  | "Q2_K"
  | "Q3_K"
  | "Q4_K"
  | "Q5_K"
  | "Q6_K"
  | "int8"
  | "float8_e4m3"
  | "float8_e5m2";

/** Four bits of a byte: of the low halves of 2^`run` bytes, then of their high halves. */
function nibble<V>(b: BlockReader<V>, run: number): V {
  const byte = b.byte("quants", b.add(b.and(b.at, 2 ** run - 1), lines(b, run)));
  const high = b.and(b.shiftRight(b.at, b.int(run)), 1);
  return b.and(b.shiftRight(byte, b.shiftLeft(high, 2)), 15);
}

/** The first byte of the 2^`run` bytes that have an element. */
function lines<V>(b: BlockReader<V>, run: number): V {
  return b.shiftLeft(b.shiftRight(b.at, b.int(run + 1)), run);
}

/** The fifth bit of an element, one after the other. */
function fifthBit<V>(b: BlockReader<V>): V {
  return b.shiftLeft(b.bit(b.word("high", b.int(0)), b.at), 4);
}

/** A whole number, less what stands for 0. */
function centered<V>(b: BlockReader<V>, value: V, zero: number): V {
  return b.float(b.add(value, b.int(-zero)));
}

const half = (field: string) => <V>(b: BlockReader<V>): V => b.half(field, b.int(0));

/**
 * Six bits of 8 scales and of 8 minima in three words: early ones in a byte each of the first word or the second,
 * late ones in four bits of the third, with their upper bits beside early ones. Four are masked at once.
 */
function sixBits<V>(b: BlockReader<V>, isMinimum: boolean): V {
  const j = b.shiftRight(b.at, b.int(5)), word = (k: number): V => b.word("scales", b.int(k));
  const own = word(isMinimum ? 1 : 0), last = word(2), early = b.and(own, 0x3f3f3f3f);
  const low = b.and(isMinimum ? b.shiftRight(last, b.int(4)) : last, 0x0f0f0f0f);
  const late = b.add(low, b.and(b.shiftRight(own, b.int(2)), 0x30303030));
  const shift = b.shiftLeft(b.and(j, 3), 3);
  return b.float(b.and(b.shiftRight(b.below(j, 4, early, late), shift), 255));
}

const scaleOfEight = <V>(b: BlockReader<V>): V =>
  b.multiply(b.half("scale", b.int(0)), sixBits(b, false));
const minimumOfEight = <V>(b: BlockReader<V>): V =>
  b.multiply(b.multiply(b.half("scale", b.int(1)), sixBits(b, true)), b.float(b.int(-1)));

/** Two bits of a byte: of halves of 128 elements the first 32, then the next ones. */
function twoBits<V>(b: BlockReader<V>): V {
  const half = b.shiftRight(b.at, b.int(7)), quarter = b.and(b.shiftRight(b.at, b.int(5)), 3);
  const byte = b.byte("quants", b.add(b.shiftLeft(half, 5), b.and(b.at, 31)));
  return b.and(b.shiftRight(byte, b.shiftLeft(quarter, 1)), 3);
}

/** The byte of scales that 16 neighbours share. */
function ofSixteen<V>(b: BlockReader<V>): V {
  return b.byte("scales", b.shiftRight(b.at, b.int(4)));
}

/** Six bits a scale of 16 in 12 bytes: four in halves of the first eight, two in quarters of the others. */
function scaleOfSixteen<V>(b: BlockReader<V>): V {
  const k = b.shiftRight(b.at, b.int(4));
  const first = b.byte("scales", b.and(k, 7)),
    last = b.byte("scales", b.add(b.and(k, 3), b.int(8)));
  const low = b.and(b.shiftRight(first, b.shiftLeft(b.shiftRight(k, b.int(3)), 2)), 15);
  const high = b.and(b.shiftRight(last, b.shiftLeft(b.shiftRight(k, b.int(2)), 1)), 3);
  return centered(b, b.add(low, b.shiftLeft(high, 4)), 32);
}

/** The low four bits of Q6_K in halves of 128: 32 and 32 bytes hold low and then high halves. */
function sixBitQuant<V>(b: BlockReader<V>): V {
  const line = b.and(b.at, 31), quarter = b.and(b.shiftRight(b.at, b.int(5)), 3);
  const half = b.shiftRight(b.at, b.int(7));
  const low = b.byte(
    "quants",
    b.add(b.add(b.shiftLeft(half, 6), b.shiftLeft(b.and(quarter, 1), 5)), line),
  );
  const high = b.byte("high", b.add(b.shiftLeft(half, 5), line));
  const four = b.and(b.shiftRight(low, b.shiftLeft(b.shiftRight(quarter, b.int(1)), 2)), 15);
  const two = b.and(b.shiftRight(high, b.shiftLeft(quarter, 1)), 3);
  return centered(b, b.add(four, b.shiftLeft(two, 4)), 32);
}

/** A byte of e4m3 is a half with another exponent, 2^8 too small; all ones are no number. */
function e4m3<V>(b: BlockReader<V>): V {
  const byte = b.byte("quants", b.at), rest = b.and(byte, 127);
  const sign = b.shiftLeft(b.shiftRight(byte, b.int(7)), 15),
    bits = b.add(sign, b.shiftLeft(rest, 7));
  return b.multiply(b.fromHalf(b.below(rest, 127, bits, b.int(0x7e00))), b.float(b.int(256)));
}

/** The table, by name. */
export const formatTable: Readonly<Record<BlockFormatName, BlockFormat>> = {
  Q8_0: {
    elements: 32,
    fields: { scale: 2, quants: 32 },
    scale: half("scale"),
    quant: (b) => b.float(b.int8("quants", b.at)),
  },
  Q4_0: {
    elements: 32,
    fields: { scale: 2, quants: 16 },
    packedBits: { bit: 4, count: 1 },
    scale: half("scale"),
    quant: (b) => centered(b, nibble(b, 4), 8),
  },
  Q4_1: {
    elements: 32,
    fields: { scale: 2, minimum: 2, quants: 16 },
    packedBits: { bit: 4, count: 1 },
    scale: half("scale"),
    offset: half("minimum"),
    quant: (b) => b.float(nibble(b, 4)),
  },
  Q5_0: {
    elements: 32,
    fields: { scale: 2, high: 4, quants: 16 },
    packedBits: { bit: 4, count: 1 },
    scale: half("scale"),
    quant: (b) => centered(b, b.add(nibble(b, 4), fifthBit(b)), 16),
  },
  Q5_1: {
    elements: 32,
    fields: { scale: 2, minimum: 2, high: 4, quants: 16 },
    packedBits: { bit: 4, count: 1 },
    scale: half("scale"),
    offset: half("minimum"),
    quant: (b) => b.float(b.add(nibble(b, 4), fifthBit(b))),
  },
  Q2_K: {
    elements: 256,
    fields: { scales: 16, quants: 64, scale: 4 },
    packedBits: { bit: 5, count: 2 },
    scale: (b) => b.multiply(half("scale")(b), b.float(b.and(ofSixteen(b), 15))),
    offset: (b) => {
      const minimum = b.float(b.shiftRight(ofSixteen(b), b.int(4)));
      return b.multiply(b.multiply(b.half("scale", b.int(1)), minimum), b.float(b.int(-1)));
    },
    quant: (b) => b.float(twoBits(b)),
  },
  Q3_K: {
    elements: 256,
    fields: { high: 32, quants: 64, scales: 12, scale: 2 },
    packedBits: { bit: 5, count: 2 },
    scale: (b) => b.multiply(half("scale")(b), scaleOfSixteen(b)),
    quant: (b) => {
      const third = b.bit(b.byte("high", b.and(b.at, 31)), b.shiftRight(b.at, b.int(5)));
      return centered(b, b.add(twoBits(b), b.shiftLeft(third, 2)), 4);
    },
  },
  Q4_K: {
    elements: 256,
    fields: { scale: 4, scales: 12, quants: 128 },
    packedBits: { bit: 5, count: 1 },
    scale: scaleOfEight,
    offset: minimumOfEight,
    quant: (b) => b.float(nibble(b, 5)),
  },
  Q5_K: {
    elements: 256,
    fields: { scale: 4, scales: 12, high: 32, quants: 128 },
    packedBits: { bit: 5, count: 1 },
    scale: scaleOfEight,
    offset: minimumOfEight,
    quant: (b) => {
      const byte = b.byte("high", b.and(b.at, 31)), bit = b.shiftRight(b.at, b.int(5));
      return b.float(b.add(nibble(b, 5), b.shiftLeft(b.bit(byte, bit), 4)));
    },
  },
  Q6_K: {
    elements: 256,
    fields: { quants: 128, high: 64, scales: 16, scale: 2 },
    packedBits: { bit: 5, count: 2 },
    scale: (b) =>
      b.multiply(
        b.half("scale", b.int(0)),
        b.float(b.int8("scales", b.shiftRight(b.at, b.int(4)))),
      ),
    quant: sixBitQuant,
  },
  int8: {
    elements: 1,
    fields: { quants: 1 },
    quant: (b) => b.float(b.int8("quants", b.at)),
  },
  float8_e4m3: { elements: 1, fields: { quants: 1 }, quant: e4m3 },
  float8_e5m2: {
    elements: 1,
    fields: { quants: 1 },
    quant: (b) => b.fromHalf(b.shiftLeft(b.byte("quants", b.at), 8)),
  },
};
