import { FileFormatError } from "../core/file_format_error.ts";

/** Pixels in rows from the top, `channels` bytes each: gray, red-green-blue, or these and alpha. */
export interface Pixels {
  /** Pixels a row. */
  readonly width: number;
  /** Rows. */
  readonly height: number;
  /** Bytes a pixel: 1, 3 or 4. */
  readonly channels: number;
  /** The bytes. */
  readonly data: Uint8Array;
}

const HEADER_BYTES = 54;

/**
 * The pixels of a bitmap as a runtime writes it: 24 bits, 32 with alpha, or 8 by a table of grays;
 * uncompressed, from the lowest row up.
 *
 * @throws {FileFormatError} For other bitmaps.
 */
export function decodeBmp(bytes: Uint8Array): Pixels {
  if (bytes.length < HEADER_BYTES) throw new FileFormatError("The bitmap is cut");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const start = view.getUint32(10, true), bits = view.getUint16(28, true);
  const width = view.getInt32(18, true), height = view.getInt32(22, true);
  const channels = { 8: 1, 24: 3, 32: 4 }[bits], rowBytes = Math.ceil(width * bits / 32) * 4;
  if (channels === undefined || width < 0 || height < 0) {
    throw new FileFormatError(
      `A bitmap of ${width} x ${height} pixels of ${bits} bits is not read`,
    );
  }
  if (start + rowBytes * height > bytes.length) throw new FileFormatError("The bitmap is cut");
  const data = new Uint8Array(width * height * channels);
  let to = 0;
  for (let row = height - 1; row >= 0; row--) {
    let from = start + row * rowBytes;
    if (channels === 1) data.set(bytes.subarray(from, from + width), to);
    else {
      // Blue comes first in a bitmap.
      for (let k = to; k < to + width * channels; k += channels, from += channels) {
        data[k] = bytes[from + 2]!;
        data[k + 1] = bytes[from + 1]!;
        data[k + 2] = bytes[from]!;
        if (channels === 4) data[k + 3] = bytes[from + 3]!;
      }
    }
    to += width * channels;
  }
  return { width, height, channels, data };
}
