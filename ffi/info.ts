/**
 * One generic way to ask an object for its properties. The tables beside the classes say what each
 * property is; the C functions all have the same last four parameters.
 *
 * @module
 */
import { check } from "./errors.ts";
import type { Memory } from "./symbols/types.ts";

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
export function readBytes(ask: InfoCall, parameter: number, call: string): Uint8Array<ArrayBuffer> {
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
export function readString(ask: InfoCall, parameter: number, call: string): string {
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

/** How each kind of property is read. */
export const readers = {
  string: readString,
  /** Words of a string that is separated by blanks. */
  words: (ask: InfoCall, parameter: number, call: string): string[] =>
    readString(ask, parameter, call).split(/\s+/).filter((word) => word.length > 0),
  /** Words of a string that is separated by semicolons. */
  list: (ask: InfoCall, parameter: number, call: string): string[] =>
    readString(ask, parameter, call).split(";").filter((word) => word.length > 0),
  u32: (ask: InfoCall, parameter: number, call: string): number => {
    readScalar(ask, parameter, call, 4n);
    return scratch32[0]!;
  },
  i32: (ask: InfoCall, parameter: number, call: string): number => {
    readScalar(ask, parameter, call, 4n);
    return scratch32[0]! | 0;
  },
  bool: (ask: InfoCall, parameter: number, call: string): boolean => {
    readScalar(ask, parameter, call, 4n);
    return scratch32[0] !== 0;
  },
  /** A size or a 64-bit count, as a number. */
  size: (ask: InfoCall, parameter: number, call: string): number => {
    readScalar(ask, parameter, call, 8n);
    return scratch32[0]! + scratch32[1]! * 2 ** 32;
  },
  /** A bit field or a handle. */
  bits: (ask: InfoCall, parameter: number, call: string): bigint => {
    readScalar(ask, parameter, call, 8n);
    return scratch[0]!;
  },
  sizes: (ask: InfoCall, parameter: number, call: string): number[] =>
    Array.from(words(readBytes(ask, parameter, call)), Number),
  /** Handles, or a property list. */
  bitsList: (ask: InfoCall, parameter: number, call: string): bigint[] =>
    Array.from(words(readBytes(ask, parameter, call))),
  version: (ask: InfoCall, parameter: number, call: string): string => {
    readScalar(ask, parameter, call, 4n);
    return version(scratch32[0]!);
  },
  nameVersions: (ask: InfoCall, parameter: number, call: string): NameVersion[] =>
    nameVersions(readBytes(ask, parameter, call)),
  hex: (ask: InfoCall, parameter: number, call: string): string =>
    readBytes(ask, parameter, call).toHex(),
} as const;

/** A kind of property. */
export type PropertyKind = keyof typeof readers;

/** Which properties an object has: name to kind. */
export type PropertyTable = { readonly [name: string]: PropertyKind };

/** The value of a property of that kind. */
export type PropertyValue<K extends PropertyKind> = ReturnType<typeof readers[K]>;
