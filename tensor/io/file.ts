import { FileFormatError } from "./file_format_error.ts";

/**
 * Fills `into` from the file's current position.
 *
 * @throws FileFormatError where the file ends before that.
 */
export async function readFully(file: Deno.FsFile, into: Uint8Array): Promise<void> {
  for (let at = 0; at < into.byteLength;) {
    const count = await file.read(into.subarray(at));
    if (count === null) {
      throw new FileFormatError(`The file ends ${into.byteLength - at} bytes too soon`);
    }
    at += count;
  }
}
