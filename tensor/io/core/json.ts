import { FileFormatError } from "./file_format_error.ts";

/** Deeper than any file nests its values: what walks them, or shows them, must not run out of stack. */
const MAX_DEPTH = 64;

/**
 * The value of a text in JSON.
 *
 * @param text The text, or its bytes in UTF-8.
 * @param what The text's name in the error.
 * @throws {FileFormatError} When it is not JSON, or nested too deep.
 */
export function parseJson(text: string | Uint8Array, what: string): unknown {
  let value: unknown;
  try {
    const decoder = new TextDecoder("utf-8", { fatal: true });
    value = JSON.parse(typeof text === "string" ? text : decoder.decode(text));
  } catch (error) {
    throw new FileFormatError(`${what} is not JSON: ${(error as Error).message}`, { cause: error });
  }
  requireFlat(value, MAX_DEPTH, what);
  return value;
}

function requireFlat(value: unknown, depth: number, what: string): void {
  if (typeof value !== "object" || value === null) return;
  if (depth === 0) throw new FileFormatError(`${what} is nested deeper than ${MAX_DEPTH} levels`);
  for (const part of Object.values(value)) requireFlat(part, depth - 1, what);
}

/** True for an object with names, as files hold settings. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * The object of a text in JSON.
 *
 * @throws {FileFormatError} When it is none.
 */
export function parseJsonObject(text: string | Uint8Array, what: string): Record<string, unknown> {
  const value = parseJson(text, what);
  if (isRecord(value)) return value;
  throw new FileFormatError(`${what} is not a JSON object`);
}
