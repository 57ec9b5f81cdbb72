import { crc32 } from "../archives/crc32.ts";
import { compress } from "../core/gzip.ts";
import type { Pixels } from "./bmp.ts";
import { SIGNATURE } from "./png_reader.ts";

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
