import { readWhole } from "./file.ts";
import { FileFormatError } from "./file_format_error.ts";
import { type Rules, takes } from "../core/rules/options.ts";

// A gzip stream of a megabyte can expand to one gigabyte: a bound keeps a hostile file from taking
// all memory. The largest of the usual data sets (MNIST and its kin) take 47 MB.
const DEFAULT_MAX_BYTES = 2 ** 30;

/** How much a compressed file may expand to. */
export interface ReadOptions {
  /** The most bytes that a gzipped file may expand to; 1 GiB unless given. */
  maxBytes?: number;
}

/** What {@linkcode ReadOptions} may hold. */
export const readRules: Rules<ReadOptions> = { maxBytes: takes.byteLimit };

/**
 * Reads a file; one that begins with gzip's magic number is expanded, whatever its name.
 *
 * @param path The file.
 * @param options How much it may expand to.
 */
export async function readMaybeGzipped(
  path: string | URL,
  options: ReadOptions = {},
): Promise<Uint8Array> {
  const bytes = await readWhole(path);
  return bytes[0] === 0x1f && bytes[1] === 0x8b ? await gunzip(bytes, options) : bytes;
}

/**
 * Expands gzipped bytes.
 *
 * @param bytes The whole stream.
 * @param options How much it may expand to.
 * @throws FileFormatError where the stream is damaged, cut or too large.
 */
export async function gunzip(
  bytes: Uint8Array<ArrayBuffer>,
  { maxBytes = DEFAULT_MAX_BYTES }: ReadOptions = {},
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let total = 0;
  try {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    for await (const chunk of stream) {
      total += chunk.byteLength;
      if (total > maxBytes) break;
      chunks.push(chunk);
    }
  } catch (error) {
    throw new FileFormatError(`The gzip stream is damaged: ${(error as Error).message}`, {
      cause: error,
    });
  }
  if (total > maxBytes) {
    throw new FileFormatError(
      `The gzip stream expands to more than ${maxBytes} bytes: give a larger maxBytes to read it`,
    );
  }
  return concatenate(chunks, total);
}

function concatenate(chunks: readonly Uint8Array[], total: number): Uint8Array {
  const bytes = new Uint8Array(total);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return bytes;
}
