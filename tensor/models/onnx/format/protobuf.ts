/**
 * Protocol Buffers (encoding of proto2 and proto3), as far as ONNX uses them: varints, fixed floats and
 * what has a length. A message is described by a table, which reads it and writes it.
 *
 * This folder (`format/`) reads and writes ONNX's files. It imports `io/core/`.
 */
import { FileFormatError } from "../../../io/core/file_format_error.ts";

/** A field's name and contents; kinds in the plural are lists. */
export type Field =
  | readonly [name: string, kind: Kind]
  | readonly [name: string, kind: "one" | "many", message: () => Message];

type Kind =
  | "int"
  | "ints"
  | "float"
  | "floats"
  | "doubles"
  | "text"
  | "texts"
  | "bytes"
  | "bytesList";

/** The fields of a message by their numbers. */
export interface Message {
  readonly [number: number]: Field;
}

/** A message that was read: lists are there even where they are empty, other fields may be undefined. */
export type Fields = Record<string, unknown>;

const VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5;
/** A graph within a graph is three levels; more than these are an attack on the stack. */
const MAX_DEPTH = 100;
const listKinds: readonly string[] = ["ints", "floats", "doubles", "texts", "bytesList", "many"];

class Reader {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly view: DataView;
  at: number;
  readonly end: number;

  constructor(bytes: Uint8Array<ArrayBuffer>, at: number, end: number) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = at;
    this.end = end;
  }

  skip(count: number): number {
    if (!(count >= 0 && this.at + count <= this.end)) {
      throw new FileFormatError(`The message is cut at byte ${this.at}: ${count} bytes are due`);
    }
    this.at += count;
    return this.at - count;
  }

  /** A whole number of 64 bits in two's complement; beyond 2^53 the nearest one. */
  varint(): number {
    let low = 0, high = 0n;
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.bytes[this.skip(1)]!, bits = byte & 127;
      if (shift < 28) low |= bits << shift;
      else high |= BigInt(bits) << BigInt(shift);
      if (byte < 128) return high === 0n ? low : Number(BigInt.asIntN(64, high | BigInt(low)));
    }
    throw new FileFormatError(`The number at byte ${this.at} has no end`);
  }

  part(): Reader {
    const length = this.varint(), from = this.skip(length);
    return new Reader(this.bytes, from, from + length);
  }

  rest(): Uint8Array<ArrayBuffer> {
    return this.bytes.subarray(this.at, this.end);
  }
}

/**
 * Reads a message.
 *
 * @throws {FileFormatError} Where the bytes are none.
 */
export function decodeMessage(bytes: Uint8Array<ArrayBuffer>, message: Message): Fields {
  return decodePart(new Reader(bytes, 0, bytes.length), message, 0);
}

function decodePart(reader: Reader, message: Message, depth: number): Fields {
  if (depth > MAX_DEPTH) throw new FileFormatError("The message is nested too deep");
  const out: Fields = {};
  for (const [name, kind] of Object.values(message)) if (listKinds.includes(kind)) out[name] = [];
  while (reader.at < reader.end) {
    const tag = reader.varint(), field = message[tag >>> 3], wire = tag & 7;
    if (field === undefined) skipField(reader, wire);
    else readField(reader, wire, field, out, depth);
  }
  return out;
}

function skipField(reader: Reader, wire: number): void {
  if (wire === VARINT) reader.varint();
  else if (wire === FIXED64) reader.skip(8);
  else if (wire === LENGTH) reader.skip(reader.varint());
  else if (wire === FIXED32) reader.skip(4);
  else throw new FileFormatError(`The message has a field of unknown kind ${wire} at ${reader.at}`);
}

/** The wire type and the width of numbers. */
const numbers: Readonly<Record<string, readonly [wire: number, read: (r: Reader) => number]>> = {
  int: [VARINT, (r) => r.varint()],
  float: [FIXED32, (r) => r.view.getFloat32(r.skip(4), true)],
  double: [FIXED64, (r) => r.view.getFloat64(r.skip(8), true)],
};

function readField(reader: Reader, wire: number, field: Field, out: Fields, depth: number): void {
  const [name, kind] = field, isList = listKinds.includes(kind);
  const number = numbers[isList ? kind.slice(0, -1) : kind];
  const wanted = number && !(isList && wire === LENGTH) ? number[0] : LENGTH;
  if (wire !== wanted) throw new FileFormatError(`Field "${name}" has the wrong kind ${wire}`);
  if (number) {
    if (!isList) out[name] = number[1](reader);
    else if (wire !== LENGTH) (out[name] as number[]).push(number[1](reader));
    else {
      const part = reader.part(), list = out[name] as number[];
      while (part.at < part.end) list.push(number[1](part));
    }
    return;
  }
  const part = reader.part();
  const value = kind === "one" || kind === "many"
    ? decodePart(part, field[2](), depth + 1)
    : kind.startsWith("text")
    ? new TextDecoder().decode(part.rest())
    : part.rest();
  if (isList) (out[name] as unknown[]).push(value);
  else out[name] = value;
}

/** Writes a message: the fields that are there, by their names. */
export function encodeMessage(fields: Fields, message: Message): Uint8Array<ArrayBuffer> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (const [number, field] of Object.entries(message) as [string, Field][]) {
    const value = fields[field[0]];
    if (value === undefined) continue;
    for (const part of listKinds.includes(field[1]) ? value as unknown[] : [value]) {
      parts.push(...encodeField(Number(number), field, part));
    }
  }
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

function encodeField(number: number, field: Field, value: unknown): Uint8Array<ArrayBuffer>[] {
  const kind = listKinds.includes(field[1]) ? field[1].replace(/s$|List$/, "") : field[1];
  const tag = (wire: number) => varintBytes(BigInt(number << 3 | wire));
  if (kind === "int") {
    return [tag(VARINT), varintBytes(BigInt.asUintN(64, BigInt(value as number)))];
  }
  if (kind === "float") return [tag(FIXED32), bytesOf(Float32Array.of(value as number))];
  if (kind === "double") return [tag(FIXED64), bytesOf(Float64Array.of(value as number))];
  const body = kind === "text"
    ? new TextEncoder().encode(value as string)
    : kind === "bytes"
    ? value as Uint8Array<ArrayBuffer>
    : encodeMessage(value as Fields, field[2]!());
  return [tag(LENGTH), varintBytes(BigInt(body.length)), body];
}

function bytesOf(array: Float32Array<ArrayBuffer> | Float64Array<ArrayBuffer>) {
  return new Uint8Array(array.buffer);
}

function varintBytes(value: bigint): Uint8Array<ArrayBuffer> {
  const bytes: number[] = [];
  for (; value > 127n; value >>= 7n) bytes.push(Number(value & 127n) | 128);
  return Uint8Array.of(...bytes, Number(value));
}
