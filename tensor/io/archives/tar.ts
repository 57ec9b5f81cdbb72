import { FileFormatError, shown } from "../core/file_format_error.ts";

const BLOCK_BYTES = 512;
const NAME = [0, 100], SIZE = [124, 136], MAGIC = [257, 262] as const;

/**
 * The regular files of a tar archive (POSIX ustar), by name without a leading "./"; null where the bytes
 * are none.
 *
 * @throws {FileFormatError} Where the archive is damaged.
 */
export function findTar(
  bytes: Uint8Array<ArrayBuffer>,
): ReadonlyMap<string, Uint8Array<ArrayBuffer>> | null {
  const text = (at: number, [from, to]: readonly number[]) =>
    new TextDecoder().decode(bytes.subarray(at + from!, at + to!)).split("\0")[0]!;
  if (bytes.length < BLOCK_BYTES || text(0, MAGIC) !== "ustar") return null;
  const entries = new Map<string, Uint8Array<ArrayBuffer>>();
  for (let at = 0; at + BLOCK_BYTES <= bytes.length && bytes[at] !== 0;) {
    const name = text(at, NAME).replace(/^\.\//, ""), size = parseInt(text(at, SIZE).trim(), 8);
    const start = at + BLOCK_BYTES;
    if (!(size >= 0 && start + size <= bytes.length)) {
      throw new FileFormatError(`Entry ${shown(name)} of the tar claims ${size} bytes`);
    }
    entries.set(name, bytes.subarray(start, start + size));
    at = start + Math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES;
  }
  return entries;
}
