/**
 * The safetensors format (https://huggingface.co/docs/safetensors): eight bytes with the length of
 * a JSON header, the header, then the tensors' bytes without holes.
 *
 * @module
 */
import type { DType } from "../../backend/internal.ts";
import {
  decodeElements,
  elementBytes,
  type ElementType,
  elementTypeOf,
  encodeElements,
} from "./core/elements.ts";
import { requireValue, takes } from "../core/rules/options.ts";
import { FileFormatError, shown } from "./core/file_format_error.ts";
import { readerOf } from "./core/reader_of.ts";
import { checkedSize, checkFilled, type HostArray } from "./core/host_array.ts";
import { isRecord, parseJsonObject } from "./core/json.ts";

/** Place of one tensor in the data part of a file. */
export interface SafetensorsEntry {
  /** Stored type of its elements. */
  readonly type: ElementType;
  /** The length of each axis. */
  readonly shape: readonly number[];
  /** Its first byte, counted from the end of the header. */
  readonly start: number;
  /** The byte after its last. */
  readonly end: number;
}

/** The parsed header of a file. */
export interface SafetensorsHeader {
  /** By name, in the header's order. */
  readonly entries: ReadonlyMap<string, SafetensorsEntry>;
  /** Free text of the writer, such as `{"format": "pt"}`. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** The bytes before the header: its length as a little-endian 64-bit integer. */
export const PREFIX_BYTES = 8;
// The bound of the format's own implementation: a hostile length must not become an allocation.
const MAX_HEADER_BYTES = 100_000_000;
const ALIGNMENT = 8;

const storedNames: Partial<Record<string, ElementType>> = {
  BOOL: "b1",
  U8: "u1",
  U16: "u2",
  U32: "u4",
  I8: "i1",
  I16: "i2",
  I32: "i4",
  I64: "i8",
  F16: "f2",
  F32: "f4",
  F64: "f8",
  BF16: "bf",
  F8_E4M3: "e4",
  F8_E5M2: "e5",
};
const nameOf = new Map(Object.entries(storedNames).map(([name, type]) => [type, name]));

/**
 * The length of the header, from the first eight bytes.
 *
 * @param prefix The first bytes of the file.
 * @param fileBytes The length of the whole file, which bounds it.
 */
export function headerLength(prefix: Uint8Array, fileBytes: number): number {
  if (prefix.byteLength < PREFIX_BYTES) {
    throw new FileFormatError(
      `A safetensors file has at least ${PREFIX_BYTES} bytes: this one has ${fileBytes}`,
    );
  }
  const length = new DataView(prefix.buffer, prefix.byteOffset).getBigUint64(0, true);
  const room = Math.min(fileBytes - PREFIX_BYTES, MAX_HEADER_BYTES);
  if (length > BigInt(room)) {
    throw new FileFormatError(
      `The header claims ${length} bytes: at most ${room} fit in a file of ${fileBytes}${
        readerOf(prefix)
      }`,
    );
  }
  return Number(length);
}

/**
 * Reads and checks a header: every tensor's bytes match its shape and dtype, and together they fill
 * the rest of the file without holes or overlaps.
 *
 * @param bytes The header's JSON text.
 * @param dataBytes The bytes that follow it in the file.
 */
export function parseHeader(bytes: Uint8Array, dataBytes: number): SafetensorsHeader {
  const { __metadata__: metadata = {}, ...tensors } = parseJsonObject(bytes, "The header");
  if (!isRecord(metadata) || !Object.values(metadata).every((text) => typeof text === "string")) {
    throw new FileFormatError("The header's __metadata__ is not a map from text to text");
  }
  const entries = new Map(
    Object.entries(tensors).map(([name, entry]) => [name, parseEntry(name, entry)]),
  );
  checkNoHoles(entries, dataBytes);
  return { entries, metadata: metadata as Record<string, string> };
}

function parseEntry(name: string, entry: unknown): SafetensorsEntry {
  const what = `Tensor "${name}"`;
  if (!isRecord(entry)) throw new FileFormatError(`${what} is not described by an object`);
  const { dtype, shape, data_offsets: offsets } = entry;
  const type = typeof dtype === "string" && Object.hasOwn(storedNames, dtype)
    ? storedNames[dtype]
    : undefined;
  if (type === undefined) {
    const known = Object.keys(storedNames).join(", ");
    throw new FileFormatError(`${what} has dtype ${shown(dtype)}: netcl reads ${known}`);
  }
  const nbytes = checkedSize(shape, what) * elementBytes(type);
  const [start, end] = Array.isArray(offsets) && offsets.length === 2 ? offsets : [];
  if (!Number.isSafeInteger(start) || !Number.isSafeInteger(end) || start < 0) {
    throw new FileFormatError(`${what} has no valid data_offsets: got ${shown(offsets)}`);
  }
  if (end - start !== nbytes) {
    throw new FileFormatError(
      `${what} of shape [${shape}] and dtype ${dtype} takes ${nbytes} bytes: ` +
        `its data_offsets [${offsets}] hold ${end - start}`,
    );
  }
  return { type, shape: shape as number[], start, end };
}

function checkNoHoles(entries: ReadonlyMap<string, SafetensorsEntry>, dataBytes: number): void {
  const inOrder = [...entries].sort(([, a], [, b]) => a.start - b.start || a.end - b.end);
  let at = 0;
  for (const [name, { start, end }] of inOrder) {
    if (start !== at) {
      throw new FileFormatError(`Tensor "${name}" begins at byte ${start}: expected at ${at}`);
    }
    at = end;
  }
  if (at !== dataBytes) {
    throw new FileFormatError(
      `The tensors take ${at} bytes: ${dataBytes} follow the header. The file is damaged`,
    );
  }
}

/** Header data of a tensor before its values are at hand. */
export type ArrayType = { readonly shape: readonly number[]; readonly dtype: DType };

/**
 * Plans a file: the bytes up to the data, and the order in which the data follows.
 *
 * Names keep their order in the header. The data lies by element size, largest first, so that each
 * tensor is aligned for a reader that maps the file.
 *
 * @param arrays What to write, by name.
 * @param metadata Free text to go with it.
 */
export function planSafetensors(
  arrays: Readonly<Record<string, ArrayType>>,
  metadata: Readonly<Record<string, string>> = {},
): { prefix: Uint8Array; order: string[] } {
  for (const [name, text] of Object.entries(metadata)) {
    // Readers refuse a file with anything else in it.
    requireValue("write a safetensors file", `metadata "${name}"`, text, takes.text);
  }
  const names = Object.keys(arrays);
  if (names.includes("__metadata__")) {
    throw new RangeError('Cannot write a tensor named "__metadata__": the format keeps that name');
  }
  const widthOf = (name: string) => elementBytes(elementTypeOf(arrays[name]!.dtype));
  const order = names.toSorted((a, b) => widthOf(b) - widthOf(a));
  const offsets = new Map<string, [number, number]>();
  let at = 0;
  for (const name of order) {
    const start = at;
    at += widthOf(name) * arrays[name]!.shape.reduce((size, n) => size * n, 1);
    offsets.set(name, [start, at]);
  }
  const entries = names.map((name) => [name, {
    dtype: nameOf.get(elementTypeOf(arrays[name]!.dtype)),
    shape: arrays[name]!.shape,
    data_offsets: offsets.get(name),
  }]);
  const withMetadata = Object.keys(metadata).length > 0 ? [["__metadata__", metadata]] : [];
  return { prefix: encodeHeader(Object.fromEntries([...withMetadata, ...entries])), order };
}

function encodeHeader(header: Record<string, unknown>): Uint8Array {
  const json = new TextEncoder().encode(JSON.stringify(header));
  const length = Math.ceil(json.byteLength / ALIGNMENT) * ALIGNMENT;
  const prefix = new Uint8Array(PREFIX_BYTES + length).fill(0x20);
  new DataView(prefix.buffer).setBigUint64(0, BigInt(length), true);
  prefix.set(json, PREFIX_BYTES);
  return prefix;
}

/**
 * Reads a whole file that is in memory already.
 *
 * @param bytes The file.
 * @returns The arrays by name, in the header's order, and the writer's metadata.
 */
export function decodeSafetensors(
  bytes: Uint8Array,
): { arrays: Record<string, HostArray>; metadata: Readonly<Record<string, string>> } {
  requireValue("read a safetensors file", "bytes", bytes, takes.arrayView);
  const dataStart = PREFIX_BYTES + headerLength(bytes, bytes.byteLength);
  const header = parseHeader(
    bytes.subarray(PREFIX_BYTES, dataStart),
    bytes.byteLength - dataStart,
  );
  const data = bytes.subarray(dataStart);
  const arrays = Object.fromEntries(
    [...header.entries].map(([name, entry]) => [
      name,
      decodeEntry(entry, data.subarray(entry.start, entry.end)),
    ]),
  );
  return { arrays, metadata: header.metadata };
}

/** The array of one entry, from its own bytes. */
export function decodeEntry(entry: SafetensorsEntry, bytes: Uint8Array): HostArray {
  return { ...decodeElements(entry.type, bytes), shape: entry.shape };
}

/**
 * Writes a whole file into memory.
 *
 * @param arrays The arrays by name.
 * @param metadata Free text to go with them.
 */
export function encodeSafetensors(
  arrays: Readonly<Record<string, HostArray>>,
  metadata: Readonly<Record<string, string>> = {},
): Uint8Array {
  requireValue("write a safetensors file", "arrays", arrays, takes.object("arrays by name"));
  requireValue("write a safetensors file", "metadata", metadata, takes.object("texts by name"));
  for (const [name, array] of Object.entries(arrays)) checkFilled(array, `tensor "${name}"`);
  const { prefix, order } = planSafetensors(arrays, metadata);
  const parts = order.map((name) => encodeElements(arrays[name]!.data, arrays[name]!.dtype));
  const bytes = new Uint8Array(parts.reduce((n, part) => n + part.byteLength, prefix.byteLength));
  let at = 0;
  for (const part of [prefix, ...parts]) {
    bytes.set(part, at);
    at += part.byteLength;
  }
  return bytes;
}
