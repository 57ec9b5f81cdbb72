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

/**
 * Writes a file that appears under its name only when it is complete: a crash or a second Ctrl+C
 * halfway leaves the former file as it was. Where the permissions are for the file alone, it is
 * written in place.
 *
 * @param path Where the file will be; a file beside it holds the bytes until then.
 * @param parts The bytes, in order.
 */
export async function writeWhole(
  path: string | URL,
  parts: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): Promise<void> {
  const beside = path instanceof URL
    ? new URL(`${path.href}.${Deno.pid}.part`)
    : `${path}.${Deno.pid}.part`;
  const unfinished = mayRename(beside) ? beside : path;
  const file = await Deno.open(unfinished, { write: true, create: true, truncate: true });
  try {
    for await (const part of parts) await writeFully(file, part);
    file.close();
    if (unfinished !== path) await Deno.rename(unfinished, path);
  } catch (error) {
    closeIfOpen(file);
    if (unfinished !== path) await Deno.remove(unfinished);
    throw error;
  }
}

/** Deno wants both permissions to rename a file. */
function mayRename(path: string | URL): boolean {
  return (["read", "write"] as const).every((name) =>
    Deno.permissions.querySync({ name, path }).state === "granted"
  );
}

async function writeFully(file: Deno.FsFile, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.byteLength;) at += await file.write(bytes.subarray(at));
}

function closeIfOpen(file: Deno.FsFile): void {
  try {
    file.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BadResource)) throw error;
  }
}
