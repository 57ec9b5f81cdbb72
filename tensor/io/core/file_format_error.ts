import { requireValue, takes } from "../../core/rules/options.ts";

/**
 * A file that is not what its name or its reader says: damaged, truncated, or of a kind that netcl
 * does not read. The message names the file, the place and what was expected. Callers catch it to
 * go back to an older checkpoint.
 */
export class FileFormatError extends Error {
  /** The name under which stack traces and logs show the class. */
  override name = "FileFormatError";
}

/**
 * Runs `fn`; a {@link FileFormatError} that it throws, or an error of the system, gets the file's name
 * in front.
 *
 * @param path The file that `fn` reads.
 * @param fn The reader.
 * @returns What `fn` resolves to.
 */
export async function readingFile<T>(path: string | URL, fn: () => T | Promise<T>): Promise<T> {
  requireValue("read a file", "path", path, takes.path);
  try {
    return await fn();
  } catch (error) {
    if (isOfSystem(error)) error.message = `Cannot read "${path}": ${error.message}`;
    if (!(error instanceof FileFormatError)) throw error;
    throw new FileFormatError(`Cannot read "${path}": ${error.message}`, { cause: error });
  }
}

/** True for an error of the system, such as "Is a directory (os error 21)", which names no file. */
function isOfSystem(error: unknown): error is Error {
  return error instanceof Error && typeof (error as { code?: unknown }).code === "string";
}

/** A value out of a file as an error message shows it: a hostile one may be as long as the file. */
export function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length <= 80 ? text : `${text.slice(0, 80)}…`;
}
