/**
 * Bytes of files, read part by part.
 *
 * This folder (`core/`) is what all readers and writers share: bytes, elements, arrays on the host, the
 * error for damaged files. It imports the element types of `backend/` and the rules of `core/` of tensors.
 */
import { host } from "../../core/rules/host.ts";
import { readFully, readWhole } from "./file.ts";
import { FileFormatError } from "./file_format_error.ts";

/** Bytes that are read part by part, from a file or from memory. */
export interface ByteSource {
  /** Their count. */
  readonly size: number;
  /**
   * The bytes from `offset` on; those in memory are not copied.
   *
   * @throws {FileFormatError} Where there are not as many.
   */
  read(offset: number, length: number): Promise<Uint8Array<ArrayBuffer>>;
}

/** Bytes in memory. */
export function bytesInMemory(bytes: Uint8Array<ArrayBuffer>): ByteSource {
  const size = bytes.byteLength;
  return {
    size,
    read: (offset, length) =>
      new Promise((resolve) => {
        requirePart(size, offset, length);
        resolve(bytes.subarray(offset, offset + length));
      }),
  };
}

/** Runs `fn` with the bytes of a file, which is open meanwhile; a pipe is read to its end first. */
export async function withFileBytes<T>(
  path: string | URL,
  fn: (source: ByteSource) => Promise<T>,
): Promise<T> {
  const { size, isFile } = await host.stat(path);
  if (!isFile) return await fn(bytesInMemory(await readWhole(path)));
  using file = await host.open(path);
  return await fn({
    size,
    async read(offset, length) {
      requirePart(size, offset, length);
      const bytes = new Uint8Array(length);
      await file.seek(offset, 0);
      await readFully(file, bytes);
      return bytes;
    },
  });
}

function requirePart(size: number, offset: number, length: number): void {
  const fits = [offset, length].every((n) => Number.isSafeInteger(n) && n >= 0);
  if (fits && offset + length <= size) return;
  throw new FileFormatError(
    `The file has ${size} bytes: bytes ${offset} to ${offset + length} are beyond its end`,
  );
}
