/** Reads PNG files (ISO 15948) of every type of colour and depth, interlaced ones too. */
import { crc32 } from "../archives/crc32.ts";
import { DEFAULT_MAX_BYTES, expand } from "../core/gzip.ts";
import { FileFormatError, shown } from "../core/file_format_error.ts";
import type { Pixels } from "./bmp.ts";

/** The first bytes of every file. */
export const SIGNATURE = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);

const GRAY = 0, COLORS = 2, PALETTE = 3, GRAY_ALPHA = 4, COLORS_ALPHA = 6;

/** By the type of colour: values of a pixel, and the bits that one may have. */
const types: Readonly<Record<number, readonly [values: number, depths: readonly number[]]>> = {
  [GRAY]: [1, [1, 2, 4, 8, 16]],
  [COLORS]: [3, [8, 16]],
  [PALETTE]: [1, [1, 2, 4, 8]],
  [GRAY_ALPHA]: [2, [8, 16]],
  [COLORS_ALPHA]: [4, [8, 16]],
};

/** Pixels of an interlaced picture that come together: the first one, and the steps to the next. */
const passes = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
] as const;

interface Header {
  readonly width: number;
  readonly height: number;
  /** Bits of a value. */
  readonly bits: number;
  readonly color: number;
  /** Values of a pixel. */
  readonly values: number;
  readonly isInterlaced: boolean;
}

type Chunks = ReadonlyMap<string, readonly Uint8Array<ArrayBuffer>[]>;

/** Chunks by name; of those that are read the checksums are right. */
function chunksOf(bytes: Uint8Array<ArrayBuffer>): Chunks {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const chunks = new Map<string, Uint8Array<ArrayBuffer>[]>();
  for (let at = SIGNATURE.length; at + 12 <= bytes.length;) {
    const end = at + 8 + view.getUint32(at), named = bytes.subarray(at + 4, end);
    const name = String.fromCharCode(...named.subarray(0, 4));
    if (end + 4 > bytes.length) break;
    if (/^[A-Z]|^tRNS/.test(name) && crc32(named) !== view.getUint32(end)) {
      throw new FileFormatError(`The picture is damaged: its part ${shown(name)} has another sum`);
    }
    const all = chunks.get(name) ?? [];
    chunks.set(name, all);
    all.push(named.subarray(4));
    if (name === "IEND") return chunks;
    at = end + 4;
  }
  throw new FileFormatError("The picture is cut: it has no end");
}

function headerOf([header, second]: readonly Uint8Array<ArrayBuffer>[] = []): Header {
  if (header?.length !== 13 || second) throw new FileFormatError("The picture has no header");
  const view = new DataView(header.buffer, header.byteOffset);
  const width = view.getUint32(0), height = view.getUint32(4);
  const [bits, color, , , interlace] = header.subarray(8) as unknown as number[];
  const [values, depths] = types[color!] ?? [];
  if (!depths?.includes(bits!) || interlace! > 1) {
    throw new FileFormatError(
      `The picture has colours of type ${color} with ${bits} bits, interlaced by method ${interlace}`,
    );
  }
  // Four bytes a pixel, or eight of 16 bits.
  const isSize = width > 0 && height > 0 && 8 * width * height <= 2 * DEFAULT_MAX_BYTES;
  if (!isSize) {
    throw new FileFormatError(`The picture has ${width} times ${height} pixels, which is no size`);
  }
  return {
    width,
    height,
    bits: bits!,
    color: color!,
    values: values!,
    isInterlaced: interlace === 1,
  };
}

/** Turns the differences in a row into its bytes, by its filter (ISO 15948, 9.2): none, or from ... */
const filters: readonly ((row: Uint8Array, above: Uint8Array, step: number) => void)[] = [
  () => {},
  function left(row, _, step) {
    for (let k = step; k < row.length; k++) row[k]! += row[k - step]!;
  },
  function up(row, above) {
    for (let k = 0; k < row.length; k++) row[k]! += above[k]!;
  },
  function average(row, above, step) {
    for (let k = 0; k < row.length; k++) {
      row[k]! += (k < step ? 0 : row[k - step]!) + above[k]! >> 1;
    }
  },
  function nearest(row, above, step) {
    for (let k = 0; k < row.length; k++) {
      const left = k < step ? 0 : row[k - step]!, corner = k < step ? 0 : above[k - step]!;
      const up = above[k]!, a = Math.abs(up - corner), b = Math.abs(left - corner);
      const c = Math.abs(left + up - 2 * corner);
      row[k]! += a <= b && a <= c ? left : b <= c ? up : corner;
    }
  },
];

/** Writes a pixel, the `k`-th of a row. */
type Paint = (row: Uint8Array, k: number, data: Uint8Array, to: number) => void;

/** The `k`-th value of a row, of so many bits. */
function valueOf(row: Uint8Array, k: number, bits: number): number {
  if (bits === 8) return row[k]!;
  if (bits === 16) return row[2 * k]! << 8 | row[2 * k + 1]!;
  return row[k * bits >> 3]! >> 8 - bits - (k * bits & 7) & (1 << bits) - 1;
}

/** The writing of pixels, and their bytes: gray, red-green-blue, or these and alpha. */
function painter(
  { bits, color, values }: Header,
  chunks: Chunks,
): { channels: number; paint: Paint } {
  const [alphas] = chunks.get("tRNS") ?? [], scale = 255 / (2 ** bits - 1);
  if (color === PALETTE) {
    const [palette] = chunks.get("PLTE") ?? [], channels = alphas ? 4 : 3;
    const paint: Paint = (row, k, data, to) => {
      const at = 3 * valueOf(row, k, bits);
      if (!palette || at + 3 > palette.length) {
        throw new FileFormatError(`The picture has no colour ${at / 3} in its table`);
      }
      for (let c = 0; c < 3; c++) data[to + c] = palette[at + c]!;
      if (alphas) data[to + 3] = alphas[at / 3] ?? 255;
    };
    return { channels, paint };
  }
  if (alphas && alphas.length !== 2 * values) {
    throw new FileFormatError("The picture does not say which of its colours is transparent");
  }
  const key = alphas && [...alphas].flatMap((byte, k) => k % 2 ? [alphas[k - 1]! << 8 | byte] : []);
  const isGray = color === GRAY || color === GRAY_ALPHA, hasAlpha = color >= GRAY_ALPHA;
  const channels = hasAlpha || key ? 4 : values, colors = values - Number(hasAlpha);
  const paint: Paint = (row, k, data, to) => {
    const from = k * values,
      eight = (c: number) => Math.round(valueOf(row, from + c, bits) * scale);
    for (let c = 0; c < Math.min(channels, 3); c++) data[to + c] = eight(isGray ? 0 : c);
    if (hasAlpha) data[to + 3] = eight(colors);
    else if (key) data[to + 3] = key.every((v, c) => valueOf(row, from + c, bits) === v) ? 0 : 255;
  };
  return { channels, paint };
}

/**
 * The pixels of a PNG file, those of 16 bits a value rounded to 8; null for any other picture.
 *
 * @throws {FileFormatError} Where it is damaged.
 */
export async function decodePng(bytes: Uint8Array<ArrayBuffer>): Promise<Pixels | null> {
  if (SIGNATURE.some((byte, k) => bytes[k] !== byte)) return null;
  const chunks = chunksOf(bytes), header = headerOf(chunks.get("IHDR"));
  const { width, height, bits, values } = header, { channels, paint } = painter(header, chunks);
  const parts = (header.isInterlaced ? passes : [[0, 0, 1, 1]] as const).map(([x, y, dx, dy]) => {
    const columns = Math.ceil((width - x) / dx),
      count = columns > 0 ? Math.ceil((height - y) / dy) : 0;
    return { x, y, dx, dy, columns, count, rowBytes: Math.ceil(columns * values * bits / 8) };
  });
  const total = parts.reduce((sum, { rowBytes, count }) => sum + (rowBytes + 1) * count, 0);
  const packed = await new Blob([...chunks.get("IDAT") ?? []]).bytes();
  const rows = await expand(packed, "deflate", total);
  if (rows.length !== total) {
    throw new FileFormatError(`The picture has ${rows.length} bytes of pixels: ${total} are due`);
  }
  const data = new Uint8Array(width * height * channels), step = Math.ceil(values * bits / 8);
  // Values of 8 bits that stand as they are wanted are copied.
  const isPlain = bits === 8 && channels === values && header.color !== PALETTE;
  let at = 0;
  for (const { x, y, dx, dy, columns, count, rowBytes } of parts) {
    let above = new Uint8Array(rowBytes);
    for (let k = 0; k < count; k++) {
      const row = rows.subarray(at + 1, at + 1 + rowBytes), filter = filters[rows[at]!];
      if (!filter) throw new FileFormatError(`The picture has a filter ${rows[at]} of rows`);
      filter(row, above, step);
      const to = ((y + k * dy) * width + x) * channels;
      if (isPlain && dx === 1) data.set(row, to);
      else for (let i = 0; i < columns; i++) paint(row, i, data, to + i * dx * channels);
      above = row;
      at += rowBytes + 1;
    }
  }
  return { width, height, channels, data };
}
