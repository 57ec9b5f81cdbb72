import { crc32 } from "../archives/crc32.ts";
import { compress, DEFAULT_MAX_BYTES, expand } from "../core/gzip.ts";
import { FileFormatError } from "../core/file_format_error.ts";
import type { Pixels } from "./bmp.ts";

const SIGNATURE = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);
/** The colour types of 1, 3 and 4 bytes a pixel. */
const colorTypes: Readonly<Record<number, number>> = { 1: 0, 3: 2, 4: 6 };
/** Each byte is written as its difference from that of the pixel to the left, which packs better. */
const LEFT_FILTER = 1;

/** The bytes of a PNG file (ISO 15948), 8 bits a channel. */
export async function encodePng(pixels: Pixels): Promise<Uint8Array<ArrayBuffer>> {
  const { width, height, channels } = pixels, header = new Uint8Array(13);
  const view = new DataView(header.buffer);
  view.setUint32(0, width);
  view.setUint32(4, height);
  header.set([8, colorTypes[channels]!], 8);
  const parts = [
    SIGNATURE,
    ...chunk("IHDR", header),
    ...chunk("IDAT", await compress(filteredRows(pixels), "deflate")),
    ...chunk("IEND", new Uint8Array()),
  ];
  return new Blob(parts).bytes();
}

function filteredRows({ width, height, channels, data }: Pixels): Uint8Array<ArrayBuffer> {
  const rowBytes = width * channels, rows = new Uint8Array((rowBytes + 1) * height);
  for (let row = 0, to = 0; row < height; row++) {
    rows[to++] = LEFT_FILTER;
    for (let k = 0; k < rowBytes; k++) {
      const at = row * rowBytes + k;
      rows[to++] = data[at]! - (k >= channels ? data[at - channels]! : 0);
    }
  }
  return rows;
}

function chunk(type: string, data: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[] {
  const name = new TextEncoder().encode(type), frame = new DataView(new ArrayBuffer(8));
  frame.setUint32(0, data.length);
  frame.setUint32(4, crc32(data, crc32(name)));
  const numbers = new Uint8Array(frame.buffer);
  return [numbers.subarray(0, 4), name, data, numbers.subarray(4)];
}

/** The values of a pixel of 16 bits each, by the colour type: gray, colours, gray with alpha, with alpha. */
const wideChannels: Readonly<Record<number, number>> = { 0: 1, 2: 3, 4: 2, 6: 4 };

/** The size that the header of a PNG of 16 bits says; null for any other picture. */
function wideHeader(bytes: Uint8Array): { width: number; height: number; values: number } | null {
  if (bytes.length < 33 || SIGNATURE.some((byte, k) => bytes[k] !== byte)) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset), values = wideChannels[bytes[25]!];
  const isInterlaced = bytes[28] !== 0;
  if (bytes[24] !== 16 || values === undefined || isInterlaced) return null;
  return { width: view.getUint32(16), height: view.getUint32(20), values };
}

/** The compressed rows, which may lie in several parts. */
function rowParts(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (let at = SIGNATURE.length; at + 8 <= bytes.length;) {
    const length = view.getUint32(at), from = at + 8;
    const name = String.fromCharCode(...bytes.subarray(at + 4, from));
    if (name === "IEND") break;
    if (name === "IDAT") parts.push(bytes.subarray(from, from + length));
    at = from + length + 4;
  }
  return parts;
}

/** The predictor of a byte of those to the left, above, and above to the left (ISO 15948, 9.2). */
const predictors: readonly ((left: number, up: number, corner: number) => number)[] = [
  () => 0,
  (left) => left,
  (_, up) => up,
  (left, up) => left + up >> 1,
  (left, up, corner) => {
    const a = Math.abs(up - corner), b = Math.abs(left - corner);
    const c = Math.abs(left + up - 2 * corner);
    return a <= b && a <= c ? left : b <= c ? up : corner;
  },
];

/**
 * The pixels of a PNG of 16 bits a channel, which the runtime does not read, rounded to 8; null for any other
 * picture, and for one that is interlaced.
 *
 * @throws {FileFormatError} Where it is damaged.
 */
export async function decodeWidePng(bytes: Uint8Array<ArrayBuffer>): Promise<Pixels | null> {
  const header = wideHeader(bytes);
  if (!header) return null;
  const { width, height, values } = header, step = 2 * values, rowBytes = step * width;
  const total = (rowBytes + 1) * height;
  if (!(width > 0 && height > 0 && total <= DEFAULT_MAX_BYTES)) {
    throw new FileFormatError(`The picture has ${width} times ${height} pixels, which is no size`);
  }
  const rows = await expand(await new Blob(rowParts(bytes)).bytes(), "deflate", total);
  if (rows.length !== total) {
    throw new FileFormatError(`The picture has ${rows.length} bytes of pixels: ${total} are due`);
  }
  for (let row = 0; row < height; row++) unfilter(rows, row * (rowBytes + 1), rowBytes, step);
  return { width, height, ...eightBits(rows, { width, height, values }) };
}

/** Turns the differences of a row into its bytes; the row before it is done already. */
function unfilter(rows: Uint8Array, begin: number, rowBytes: number, step: number): void {
  const predictor = predictors[rows[begin]!], above = begin - rowBytes - 1;
  if (!predictor) throw new FileFormatError(`The picture has a filter ${rows[begin]} of rows`);
  for (let k = 1; k <= rowBytes; k++) {
    const left = k > step ? rows[begin + k - step]! : 0, up = above >= 0 ? rows[above + k]! : 0;
    const corner = k > step && above >= 0 ? rows[above + k - step]! : 0;
    rows[begin + k]! += predictor(left, up, corner);
  }
}

/** Values of 16 bits as those of 8; gray with alpha becomes colours with alpha. */
function eightBits(
  rows: Uint8Array,
  { width, height, values }: { width: number; height: number; values: number },
): { data: Uint8Array<ArrayBuffer>; channels: number } {
  const channels = values === 2 ? 4 : values, data = new Uint8Array(width * height * channels);
  const rowBytes = 2 * values * width + 1;
  for (let k = 0; k < width * height; k++) {
    const from = Math.floor(k / width) * rowBytes + 1 + k % width * 2 * values;
    for (let c = 0; c < channels; c++) {
      const at = from + 2 * (values === 2 ? Number(c === 3) : c);
      data[k * channels + c] = Math.round((rows[at]! << 8 | rows[at + 1]!) / 257);
    }
  }
  return { data, channels };
}
