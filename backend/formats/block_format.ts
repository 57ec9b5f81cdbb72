/**
 * Numbers that are stored in blocks of few bits, as files of language models have them: what a row of
 * the table says of a format, and in what terms. A row is written once, over any values: numbers of the
 * host, texts of OpenCL C or JavaScript, expressions of tile programs.
 *
 * This folder (`formats/`) imports nothing. The graph names formats, the tensor layer checks sizes, the
 * writers of both backends render the rows.
 */

/** Operations that a row may use; `V` stands for a value, whole or not, of whoever reads it. */
export interface BlockReader<V> {
  /** The place of the element in its block, from 0. */
  readonly at: V;
  /** An unsigned byte of a field of the block. */
  byte(field: string, index: V): V;
  /** A signed byte. */
  int8(field: string, index: V): V;
  /** Four bytes, the lowest first, as one number without a sign; the index counts words. */
  word(field: string, index: V): V;
  /** A number of half precision, as a float; the index counts halves. */
  half(field: string, index: V): V;
  /** A whole number. */
  int(value: number): V;
  /** Of whole numbers. */
  add(a: V, b: V): V;
  /** Of whole numbers that are not negative; the second is a constant. */
  and(a: V, mask: number): V;
  /** Of whole numbers that are not negative, by a constant or one number for all neighbours. */
  shiftRight(a: V, by: V): V;
  /** One bit: 0 or 1; neighbours have their own, or the one of a number that they share. */
  bit(a: V, index: V): V;
  /** Of whole numbers that are not negative, by a constant. */
  shiftLeft(a: V, by: number): V;
  /** `a < limit ? below : above`, of whole numbers. */
  below(a: V, limit: number, below: V, above: V): V;
  /** A whole number as a float. */
  float(a: V): V;
  /** The float that 16 bits of half precision stand for. */
  fromHalf(bits: V): V;
  /** Of floats. */
  multiply(a: V, b: V): V;
  /** Of floats. */
  sum(a: V, b: V): V;
}

/**
 * A format. An element is `scale * quant + offset`, all of them floats; neighbours have scale and offset in
 * common.
 */
export interface BlockFormat {
  /** Elements of a block: a power of two. */
  readonly elements: number;
  /** The fields of a block in their order in files, with their bytes. */
  readonly fields: Readonly<Record<string, number>>;
  /**
   * Elements whose places differ in these bits alone are in the same bytes: `count` bits from `bit` on. None
   * where it is missing.
   */
  readonly packedBits?: { readonly bit: number; readonly count: number };
  /** See above; 1 where it is missing. */
  scale?<V>(b: BlockReader<V>): V;
  /** See above; 0 where it is missing. */
  offset?<V>(b: BlockReader<V>): V;
  /** See above. */
  quant<V>(b: BlockReader<V>): V;
}

/** The bytes of a block. */
export function blockBytes({ fields }: BlockFormat): number {
  return Object.values(fields).reduce((a, b) => a + b, 0);
}

/** A field in device memory: fields of all blocks lie apart, so that each is read in whole vectors. */
export interface FieldPlace {
  /** It begins behind so many bytes for each block that there is. */
  readonly start: number;
  /** Bytes of a block. */
  readonly bytes: number;
}

/** Offsets of a format's fields in device memory: the longest first, for alignment. */
export function fieldPlaces({ fields }: BlockFormat): Readonly<Record<string, FieldPlace>> {
  const places: Record<string, FieldPlace> = {};
  let start = 0;
  for (const [name, bytes] of Object.entries(fields).sort(([, a], [, b]) => b - a)) {
    places[name] = { start, bytes };
    start += bytes;
  }
  return places;
}

/** An element's value, by the row of its format. */
export function valueOf<V>(format: BlockFormat, b: BlockReader<V>): V {
  const quant = format.quant(b), scale = format.scale?.(b), offset = format.offset?.(b);
  const scaled = scale === undefined ? quant : b.multiply(scale, quant);
  return offset === undefined ? scaled : b.sum(scaled, offset);
}
