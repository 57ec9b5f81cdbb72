/**
 * NumPy's .npy format (numpy.lib.format): a magic string, a version, a Python dict literal with
 * dtype, order and shape, then the elements.
 *
 * This folder (`numpy/`) reads and writes NumPy's files. It imports `archives/` and `core/` beside it.
 *
 * @module
 */
import type { DType } from "../../../backend/internal.ts";
import {
  decodeElements,
  elementBytes,
  type ElementType,
  elementTypeOf,
  encodeElements,
  isNumpyType,
} from "../core/elements.ts";
import { requireValue, takes } from "../../core/rules/options.ts";
import { FileFormatError, shown } from "../core/file_format_error.ts";
import { readerOf } from "../core/reader_of.ts";
import { checkedSize, checkFilled, type HostArray, toRowMajor } from "../core/host_array.ts";
import { parsePythonLiteral } from "./python_literal.ts";

const MAGIC = [0x93, ...new TextEncoder().encode("NUMPY")];
const ALIGNMENT = 64;
// Longer headers exist for structured dtypes only, which no tensor has.
const MAX_HEADER_BYTES = 65_535;

interface NpyHeader {
  readonly type: ElementType;
  readonly littleEndian: boolean;
  readonly columnMajor: boolean;
  readonly shape: readonly number[];
  readonly size: number;
}

/**
 * Reads a whole .npy file.
 *
 * Either byte order and either element order are read. Types stay as they are; uint16, which is
 * none here, becomes int32.
 *
 * @param bytes The file.
 * @throws {FileFormatError} For anything but one array of numbers that fills the file.
 */
export function decodeNpy(bytes: Uint8Array): HostArray {
  const [headerStart, headerEnd] = headerRange(bytes);
  const header = parseHeader(bytes.subarray(headerStart, headerEnd));
  const body = bytes.subarray(headerEnd);
  const expected = header.size * elementBytes(header.type);
  if (body.byteLength !== expected) {
    throw new FileFormatError(
      `Shape [${header.shape}] takes ${expected} bytes: ${body.byteLength} follow the header`,
    );
  }
  const { data, dtype } = decodeElements(header.type, body, header.littleEndian);
  const rowMajor = header.columnMajor ? toRowMajor(data, header.shape) : data;
  return { data: rowMajor, shape: header.shape, dtype };
}

function headerRange(bytes: Uint8Array): [start: number, end: number] {
  requireValue("read a .npy file", "bytes", bytes, takes.arrayView);
  if (!MAGIC.every((byte, i) => bytes[i] === byte)) {
    throw new FileFormatError(
      `This is no .npy file: it does not begin with \\x93NUMPY${readerOf(bytes)}`,
    );
  }
  const major = bytes[6];
  if (major === undefined || major < 1 || major > 3) {
    throw new FileFormatError(`The .npy version is ${major ?? "missing"}: netcl reads 1, 2 and 3`);
  }
  const start = major === 1 ? 10 : 12;
  if (bytes.byteLength < start) throw new FileFormatError("The file ends within its first bytes");
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const length = major === 1 ? view.getUint16(8, true) : view.getUint32(8, true);
  const room = Math.min(bytes.byteLength - start, MAX_HEADER_BYTES);
  if (length > room) {
    throw new FileFormatError(`The header claims ${length} bytes: at most ${room} can be read`);
  }
  return [start, start + length];
}

function parseHeader(bytes: Uint8Array): NpyHeader {
  const literal = parsePythonLiteral(new TextDecoder().decode(bytes));
  if (!(literal instanceof Map)) throw new FileFormatError("The header is not a Python dict");
  const columnMajor = literal.get("fortran_order");
  if (typeof columnMajor !== "boolean") {
    throw new FileFormatError(`fortran_order is neither True nor False: ${shown(columnMajor)}`);
  }
  const shape = literal.get("shape");
  const size = checkedSize(shape, "The array");
  return { ...parseDescr(literal.get("descr")), columnMajor, shape: shape as number[], size };
}

function parseDescr(descr: unknown): { type: ElementType; littleEndian: boolean } {
  const [, order, type] = /^([<>|=])(.*)$/.exec(typeof descr === "string" ? descr : "") ?? [];
  if (isNumpyType(type)) return { type, littleEndian: order !== ">" };
  throw new FileFormatError(
    `An array of dtype ${shown(descr)} is not read: save it with .astype() as one of ` +
      "bool, int8 to int64, uint8, uint16, uint32, float16, float32, float64",
  );
}

/**
 * The bytes of a .npy file, version 1, row-major, little-endian.
 *
 * @param array What to write.
 * @throws {TypeError} For bfloat16, which NumPy does not have.
 */
export function encodeNpy(array: HostArray): Uint8Array {
  checkFilled(array, "an .npy file");
  const header = encodeHeader(array.shape, array.dtype);
  const body = encodeElements(array.data, array.dtype);
  const bytes = new Uint8Array(header.byteLength + body.byteLength);
  bytes.set(header);
  bytes.set(body, header.byteLength);
  return bytes;
}

function encodeHeader(shape: readonly number[], dtype: DType): Uint8Array {
  if (dtype === "bfloat16") {
    throw new TypeError('Cannot write bfloat16 as .npy, which has no such type: cast("float32")');
  }
  const type = elementTypeOf(dtype);
  const order = elementBytes(type) === 1 ? "|" : "<";
  const tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
  const dict = `{'descr': '${order}${type}', 'fortran_order': False, 'shape': ${tuple}, }`;
  const total = Math.ceil((10 + dict.length + 1) / ALIGNMENT) * ALIGNMENT;
  const bytes = new Uint8Array(total).fill(0x20);
  bytes.set([...MAGIC, 1, 0]);
  new DataView(bytes.buffer).setUint16(8, total - 10, true);
  bytes.set(new TextEncoder().encode(dict), 10);
  bytes[total - 1] = 0x0a;
  return bytes;
}
