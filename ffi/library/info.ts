/**
 * One generic way to ask an object for its properties. The tables beside the classes say what each
 * property is; the C functions all have the same last four parameters.
 *
 * @module
 */
import { check } from "./errors.ts";
import type { Memory } from "../symbols/types.ts";

/** A clGet...Info function, bound to its object. */
export type InfoCall = (parameter: number, size: bigint, value: Memory, sizeOut: Memory) => number;

/** An extension or a language version, and its version number. */
export interface NameVersion {
  /** The name, as in `"cl_khr_fp64"`. */
  readonly name: string;
  /** The version, as in `"1.0.0"`. */
  readonly version: string;
}

const scratch = new BigUint64Array(1);
const scratch32 = new Uint32Array(scratch.buffer);
const size = new BigUint64Array(1);
const text = new TextDecoder();

/** The bytes of a property of any size. */
function readBytes(ask: InfoCall, parameter: number, call: string): Uint8Array<ArrayBuffer> {
  size[0] = 0n;
  check(ask(parameter, 0n, null, size), call);
  const bytes = new Uint8Array(Number(size[0]));
  if (bytes.length > 0) check(ask(parameter, size[0]!, bytes, null), call);
  return bytes;
}

function readScalar(ask: InfoCall, parameter: number, call: string, bytes: bigint): void {
  scratch[0] = 0n; // some drivers write 4 bytes where the header says 8
  check(ask(parameter, bytes, scratch, null), call);
}

/** Reads a C string. */
function readString(ask: InfoCall, parameter: number, call: string): string {
  const bytes = readBytes(ask, parameter, call);
  const end = bytes.indexOf(0);
  return text.decode(end < 0 ? bytes : bytes.subarray(0, end)).trim();
}

function words(bytes: Uint8Array<ArrayBuffer>): BigUint64Array {
  return new BigUint64Array(bytes.buffer, 0, bytes.length >> 3);
}

/** Packed as 10 bits major, 10 bits minor, 12 bits patch. */
function version(packed: number): string {
  return `${packed >>> 22}.${packed >>> 12 & 1023}.${packed & 4095}`;
}

function nameVersions(bytes: Uint8Array<ArrayBuffer>): NameVersion[] {
  const view = new DataView(bytes.buffer);
  return Array.from({ length: Math.floor(bytes.length / 68) }, (_, i) => {
    const name = text.decode(bytes.subarray(68 * i + 4, 68 * (i + 1)));
    return {
      name: name.slice(0, name.indexOf("\0")),
      version: version(view.getUint32(68 * i, true)),
    };
  });
}

/** The value of each kind of property. */
export interface PropertyTypes {
  /** Text. */
  string: string;
  /** Words of a text, between blanks. */
  words: string[];
  /** Words of a text, between semicolons. */
  list: string[];
  /** A number of 32 bits. */
  u32: number;
  /** A truth value. */
  bool: boolean;
  /** A size, or another number of 64 bits. */
  size: number;
  /** A bit field or a handle. */
  bits: bigint;
  /** Sizes. */
  sizes: number[];
  /** Handles, or a property list. */
  bitsList: bigint[];
  /** A packed version, as in `"3.0.0"`. */
  version: string;
  /** Names with versions. */
  nameVersions: NameVersion[];
  /** Bytes, such as those of an identifier. */
  hex: string;
}

/** A kind of property. */
export type PropertyKind = keyof PropertyTypes;

type Readers = {
  [K in PropertyKind]: (ask: InfoCall, parameter: number, call: string) => PropertyTypes[K];
};

function split(separator: RegExp): Readers["words"] {
  return (ask, parameter, call) =>
    readString(ask, parameter, call).split(separator).filter((word) => word.length > 0);
}

/** Reader of each kind of property. */
export const readers: Readers = {
  string: readString,
  words: split(/\s+/),
  list: split(/;/),
  u32(ask, parameter, call) {
    readScalar(ask, parameter, call, 4n);
    return scratch32[0]!;
  },
  bool(ask, parameter, call) {
    readScalar(ask, parameter, call, 4n);
    return scratch32[0] !== 0;
  },
  size(ask, parameter, call) {
    readScalar(ask, parameter, call, 8n);
    return scratch32[0]! + scratch32[1]! * 2 ** 32;
  },
  bits(ask, parameter, call) {
    readScalar(ask, parameter, call, 8n);
    return scratch[0]!;
  },
  sizes: (ask, parameter, call) => Array.from(words(readBytes(ask, parameter, call)), Number),
  bitsList: (ask, parameter, call) => Array.from(words(readBytes(ask, parameter, call))),
  version(ask, parameter, call) {
    readScalar(ask, parameter, call, 4n);
    return version(scratch32[0]!);
  },
  nameVersions: (ask, parameter, call) => nameVersions(readBytes(ask, parameter, call)),
  hex: (ask, parameter, call) => readBytes(ask, parameter, call).toHex(),
};
