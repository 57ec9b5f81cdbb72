/** Pictures that the runtime is given: of which kinds, and how large. */
import { FileFormatError } from "../core/file_format_error.ts";
import { readerOf } from "../core/reader_of.ts";

type Size = readonly [width: number, height: number];

/** A kind of pictures: its first bytes, and where its size is held against its length. */
interface Kind {
  readonly start: RegExp;
  readonly size?: (view: DataView) => Size | null;
  /** The most pixels that a byte can stand for. */
  readonly pixelsAByte?: number;
}

/** The size in a JPEG's frame header, which stands behind other parts. */
function jpegSize(view: DataView): Size | null {
  for (let at = 2; at + 9 <= view.byteLength;) {
    const kind = view.getUint8(at + 1);
    const isFrame = kind >= 0xc0 && kind <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(kind);
    if (view.getUint8(at) !== 0xff) return null;
    if (isFrame) return [view.getUint16(at + 7), view.getUint16(at + 5)];
    at += kind === 0xff ? 1 : 2 + view.getUint16(at + 2);
  }
  return null;
}

/** The size of a GIF, whose first picture may reach beyond its screen. */
function gifSize(view: DataView): Size {
  const { byteLength } = view, word = (at: number) => view.getUint16(at, true);
  const flags = view.getUint8(10), colors = flags & 0x80 ? 2 << (flags & 7) : 0;
  let at = 13 + 3 * colors;
  for (; at + 2 < byteLength && view.getUint8(at) === 0x21; at++) {
    // Extensions: parts with their lengths, up to an empty one.
    for (at += 2; at < byteLength && view.getUint8(at) > 0;) at += 1 + view.getUint8(at);
  }
  const hasPicture = at + 9 <= byteLength && view.getUint8(at) === 0x2c;
  const reach = (k: number) => hasPicture ? word(at + 1 + k) + word(at + 5 + k) : 0;
  return [Math.max(word(6), reach(0)), Math.max(word(8), reach(2))];
}

/** The size of a bitmap: lengths of 16 bits in the oldest, of 32 with a sign in others. */
function bmpSize(view: DataView): Size | null {
  if (view.byteLength < 26) return null;
  if (view.getUint32(14, true) === 12) return [view.getUint16(18, true), view.getUint16(20, true)];
  return [Math.abs(view.getInt32(18, true)), Math.abs(view.getInt32(22, true))];
}

const kinds: readonly Kind[] = [
  // A block of 64 pixels has at least one bit.
  { start: /^\xff\xd8\xff/, size: jpegSize, pixelsAByte: 512 },
  // A code of 12 bits stands for at most 3,839 pixels.
  { start: /^GIF8[79]a/, size: gifSize, pixelsAByte: 2560 },
  { start: /^RIFF[^]{4}WEBP/ },
  // Two bytes repeat a pixel 255 times at most; the runtime takes what the header says before it reads.
  { start: /^BM/, size: bmpSize, pixelsAByte: 128 },
];

/** A picture of so few pixels is read whatever its length. */
const FEW_PIXELS = 2 ** 20;

/**
 * Refuses what the runtime must not be given: kinds that nobody asked for, whose decoders may end the process,
 * and few bytes that claim many pixels, for which it takes gigabytes.
 *
 * @throws {FileFormatError} For these.
 */
export function requireReadable(bytes: Uint8Array<ArrayBuffer>): void {
  const start = String.fromCharCode(...bytes.subarray(0, 16));
  const kind = kinds.find(({ start: pattern }) => pattern.test(start));
  if (!kind) throw new FileFormatError(`It is no PNG, JPEG, WebP, GIF or BMP${readerOf(bytes)}`);
  const { size, pixelsAByte = Infinity } = kind, { length } = bytes;
  const [width, height] = length < 16
    ? [0, 0]
    : size?.(new DataView(bytes.buffer, bytes.byteOffset, length)) ?? [0, 0];
  if (width * height <= Math.max(FEW_PIXELS, pixelsAByte * length)) return;
  throw new FileFormatError(
    `The picture claims ${width} times ${height} pixels, which ${length} bytes cannot hold`,
  );
}
