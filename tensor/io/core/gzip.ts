import { readWhole } from "./file.ts";
import { FileFormatError } from "./file_format_error.ts";
import { type Rules, takes } from "../../core/rules/options.ts";

/**
 * The most that is expanded unless more is asked for: a gzip stream of a megabyte can expand to one
 * gigabyte, and a hostile file must not take all memory. The largest of the usual data sets (MNIST and
 * its kin) take 47 MB.
 */
export const DEFAULT_MAX_BYTES = 2 ** 30;

/** Limit of a compressed file's expansion. */
export interface ReadOptions {
  /** The most bytes that a gzipped file may expand to; 1 GiB unless given. */
  maxBytes?: number;
}

/** Rules for {@linkcode ReadOptions}. */
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
 * @throws {FileFormatError} Where the stream is damaged, cut or too large.
 */
export function gunzip(
  bytes: Uint8Array<ArrayBuffer>,
  { maxBytes = DEFAULT_MAX_BYTES }: ReadOptions = {},
): Promise<Uint8Array<ArrayBuffer>> {
  return expand(bytes, "gzip", maxBytes);
}

/**
 * Expands compressed bytes.
 *
 * @param bytes The whole stream.
 * @param format What compressed them.
 * @param maxBytes The most that they may expand to.
 * @throws {FileFormatError} Where the stream is damaged, cut or too large.
 */
export async function expand(
  bytes: Uint8Array<ArrayBuffer>,
  format: CompressionFormat,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let total = 0;
  try {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream(format));
    for await (const chunk of stream) {
      total += chunk.byteLength;
      if (total > maxBytes) break;
      chunks.push(chunk);
    }
  } catch (error) {
    throw new FileFormatError(`The ${format} stream is damaged: ${(error as Error).message}`, {
      cause: error,
    });
  }
  if (total > maxBytes) {
    throw new FileFormatError(
      `The ${format} stream expands to more than ${maxBytes} bytes: give a larger maxBytes to read it`,
    );
  }
  return await new Blob(chunks).bytes();
}

/** Compresses bytes. */
export function compress(
  bytes: Uint8Array<ArrayBuffer>,
  format: CompressionFormat,
): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream(format));
  return new Response(stream).bytes();
}
