import { host, type HostFile } from "../../core/rules/host.ts";
import { FileFormatError } from "./file_format_error.ts";

/**
 * Fills `into` from the file's current position.
 *
 * @throws {FileFormatError} Where the file ends before that.
 */
export async function readFully(file: HostFile, into: Uint8Array): Promise<void> {
  for (let at = 0; at < into.byteLength;) {
    const count = await file.read(into.subarray(at));
    if (count === null) {
      throw new FileFormatError(`The file ends ${into.byteLength - at} bytes too soon`);
    }
    at += count;
  }
}

/** The most that is read of what has no size: a pipe may have no end, and a device such as /dev/zero has none. */
const MAX_PIPED_BYTES = 2 ** 30;

/**
 * All bytes of a file, or of a pipe.
 *
 * @throws {FileFormatError} Where something that is no regular file does not end within 1 GiB.
 */
export async function readWhole(path: string | URL): Promise<Uint8Array<ArrayBuffer>> {
  using file = await host.open(path);
  if ((await file.stat()).isFile) return await host.readFile(path);
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let total = 0;
  for (;;) {
    const chunk = new Uint8Array(1 << 20), count = await file.read(chunk);
    if (count === null) return await new Blob(chunks).bytes();
    chunks.push(chunk.subarray(0, count));
    total += count;
    if (total <= MAX_PIPED_BYTES) continue;
    throw new FileFormatError("It is no regular file, and does not end within 1 GiB");
  }
}
