import { decodeElements, elementBytes, type ElementType } from "./core/elements.ts";
import { FileFormatError, readingFile } from "./core/file_format_error.ts";
import { readerOf } from "./core/reader_of.ts";
import { readMaybeGzipped, type ReadOptions, readRules } from "./core/gzip.ts";
import { checkedSize, type HostArray } from "./core/host_array.ts";
import { checkOptions, requireValue, takes } from "../core/rules/options.ts";

// The third byte of the magic number (http://yann.lecun.com/exdb/mnist, "the IDX file format").
const types: Partial<Record<number, ElementType>> = {
  0x08: "u1",
  0x09: "i1",
  0x0b: "i2",
  0x0c: "i4",
  0x0d: "f4",
  0x0e: "f8",
};

/**
 * Reads an IDX file, the format of MNIST and its kin, gzipped or not.
 *
 * @param path The file.
 * @param options How much a gzipped file may expand to.
 * @returns The values, the shape and the dtype, for a `TensorDataset` or `Tensor.fromHost`.
 * @throws {FileFormatError} For a file that is damaged or no IDX file.
 *
 * @example A file of two bytes
 * ```ts
 * import { loadIdx } from "@netcl/netcl";
 *
 * const path = await Deno.makeTempFile();
 * await Deno.writeFile(path, Uint8Array.of(0, 0, 8, 1, 0, 0, 0, 2, 7, 9));
 * const { data, shape, dtype } = await loadIdx(path);
 * console.assert(data.join() === "7,9" && shape[0] === 2 && dtype === "uint8");
 * await Deno.remove(path);
 * ```
 */
export function loadIdx(path: string | URL, options: ReadOptions = {}): Promise<HostArray> {
  checkOptions("read an IDX file", options, readRules);
  return readingFile(path, async () => decodeIdx(await readMaybeGzipped(path, options)));
}

/**
 * Reads the bytes of an IDX file. Types stay as they are.
 *
 * @param bytes The file, expanded.
 * @throws {FileFormatError} For bytes that are no whole IDX file.
 */
export function decodeIdx(bytes: Uint8Array): HostArray {
  requireValue("read an IDX file", "bytes", bytes, takes.arrayView);
  const type = types[bytes[2] ?? -1];
  const axes = bytes[3];
  if (bytes[0] !== 0 || bytes[1] !== 0 || type === undefined || axes === undefined) {
    throw new FileFormatError(
      `This is no IDX file: its first four bytes are not 0, 0, type, axes${readerOf(bytes)}`,
    );
  }
  const start = 4 + 4 * axes;
  if (bytes.byteLength < start) {
    throw new FileFormatError(`The header of ${axes} axes takes ${start} bytes: the file is cut`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, start);
  const shape = Array.from({ length: axes }, (_, axis) => view.getUint32(4 + 4 * axis));
  const expected = checkedSize(shape, "The array") * elementBytes(type);
  const body = bytes.subarray(start);
  if (body.byteLength !== expected) {
    throw new FileFormatError(
      `Shape [${shape}] takes ${expected} bytes: ${body.byteLength} follow the header`,
    );
  }
  return { ...decodeElements(type, body, false), shape };
}
