/** Elements of block formats in OpenCL C: a function a format, written by its row. */
import { type BlockReader, fieldPlaces, valueOf } from "../../../formats/block_format.ts";
import { type BlockFormatName, formatTable } from "../../../formats/block_formats.ts";

/** An element of a format's row as text: the function's parameters are in it by name. */
class TextBlocks implements BlockReader<string> {
  readonly at = "at";
  readonly #places: ReturnType<typeof fieldPlaces>;

  constructor(name: BlockFormatName) {
    this.#places = fieldPlaces(formatTable[name]);
  }

  #address(field: string, index: string): string {
    const { start, bytes } = this.#places[field]!;
    return `bytes + ${start} * blocks + ${bytes} * block + ${index}`;
  }
  byte = (field: string, index: string): string => `(int)*(${this.#address(field, index)})`;
  int8 = (field: string, index: string): string =>
    `(int)*(global const char*)(${this.#address(field, index)})`;
  word = (field: string, index: string): string =>
    `*(global const uint*)(${this.#address(field, `4 * ${index}`)})`;
  half = (field: string, index: string): string =>
    `vload_half(0, (global const half*)(${this.#address(field, `2 * ${index}`)}))`;
  int = (value: number): string => `${value}`;
  add = (a: string, b: string): string => `(${a} + ${b})`;
  and = (a: string, mask: number): string => `(int)(${a} & ${mask})`;
  shiftRight = (a: string, by: string): string => `(${a} >> ${by})`;
  bit = (a: string, index: string): string => `(int)((${a} >> ${index}) & 1)`;
  shiftLeft = (a: string, by: number): string => `(${a} << ${by})`;
  below = (a: string, limit: number, below: string, above: string): string =>
    `(${a} < ${limit} ? ${below} : ${above})`;
  float = (a: string): string => `(float)(${a})`;
  fromHalf = (bits: string): string => `from_float16((ushort)(${bits}))`;
  multiply = (a: string, b: string): string => `(${a} * ${b})`;
  sum = (a: string, b: string): string => `(${a} + ${b})`;
}

const names = Object.keys(formatTable) as BlockFormatName[];

/** A helper function for each format: element `at` of a block. */
export const decodeHelpers: Readonly<Record<string, string>> = Object.fromEntries(
  names.map((name) => [
    `decode_${name}`,
    `inline float decode_${name}(global const uchar* bytes, long blocks, long block, int at) {
  #pragma OPENCL FP_CONTRACT OFF
  return ${valueOf(formatTable[name], new TextBlocks(name))};
}`,
  ]),
);

/**
 * An element of a buffer of blocks.
 *
 * @param index Which element of all.
 * @param blocks How many blocks there are.
 */
export function decodedText(
  format: BlockFormatName,
  buffer: string,
  index: string,
  blocks: string,
): string {
  const { elements } = formatTable[format];
  const block = `(${index}) >> ${Math.log2(elements)}`;
  return `decode_${format}(${buffer}, ${blocks}, ${block}, (int)((${index}) & ${elements - 1}))`;
}
