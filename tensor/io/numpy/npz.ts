import { saveFile } from "../../../backend/internal.ts";
import { requireState } from "../../core/apply.ts";
import {
  checkOptions,
  deviceChoice,
  requireValue,
  type Rules,
  takes,
} from "../../core/rules/options.ts";
import { Tensor } from "../../class/tensor.ts";
import { ZipArchive } from "../archives/zip.ts";
import { zipParts } from "../archives/zip_writer.ts";
import { bytesInMemory, type ByteSource, withFileBytes } from "../core/byte_source.ts";
import { FileFormatError, readingFile, shown } from "../core/file_format_error.ts";
import { type ReadOptions, readRules } from "../core/gzip.ts";
import type { HostArray } from "../core/host_array.ts";
import type { LoadOptions } from "../core/load_options.ts";
import { decodeNpy, encodeNpy } from "./npy_format.ts";

/** Device of an archive's arrays, and the most that a compressed one may expand to. */
export interface LoadNpzOptions extends LoadOptions, ReadOptions {}

const loadRules: Rules<LoadNpzOptions> = { device: deviceChoice, maxBytes: takes.byteLimit };

const SUFFIX = ".npy";

/**
 * Reads the arrays that `numpy.savez` or `numpy.savez_compressed` wrote, as {@linkcode loadNpy} reads
 * one. Beside the tensors themselves the host holds one array at a time.
 *
 * @param path The file.
 * @param options Where the tensors are put, and how much a compressed array may expand to.
 * @returns The tensors by name, in the order of the file.
 * @throws {FileFormatError} For a file that is damaged, or that holds anything but arrays of numbers.
 */
export function loadNpz(
  path: string | URL,
  options: LoadNpzOptions = {},
): Promise<Record<string, Tensor>> {
  checkOptions("load an npz file", options, loadRules);
  const { maxBytes, ...place } = options;
  return readingFile(path, () =>
    withFileBytes(path, async (source) => {
      const tensors = new Map<string, Tensor>();
      try {
        for await (const [name, { data, ...type }] of arraysOf(source, { maxBytes })) {
          tensors.set(name, Tensor.fromHost(data, { ...type, ...place }));
        }
      } catch (error) {
        for (const tensor of tensors.values()) tensor.dispose();
        throw error;
      }
      return Object.fromEntries(tensors);
    }));
}

/**
 * Reads the bytes of an npz file.
 *
 * @param bytes The file.
 * @param options How much a compressed array may expand to.
 * @returns The arrays by name.
 * @throws {FileFormatError} For anything but an archive of arrays of numbers.
 */
export async function decodeNpz(
  bytes: Uint8Array<ArrayBuffer>,
  options: ReadOptions = {},
): Promise<Record<string, HostArray>> {
  requireValue("read an npz file", "bytes", bytes, takes.arrayView);
  checkOptions("read an npz file", options, readRules);
  return Object.fromEntries(await Array.fromAsync(arraysOf(bytesInMemory(bytes), options)));
}

async function* arraysOf(
  source: ByteSource,
  options: { maxBytes?: number | undefined },
): AsyncGenerator<[string, HostArray]> {
  const archive = await ZipArchive.open(source, options);
  for (const entry of archive.names) {
    // Tools that pack a folder write it as an entry, too.
    if (entry.endsWith("/")) continue;
    if (!entry.endsWith(SUFFIX)) {
      throw new FileFormatError(`Entry ${shown(entry)} is no array: its name does not end in .npy`);
    }
    const bytes = await archive.read(entry);
    yield [entry.slice(0, -SUFFIX.length), decodeEntry(entry, bytes)];
  }
}

function decodeEntry(entry: string, bytes: Uint8Array): HostArray {
  try {
    return decodeNpy(bytes);
  } catch (error) {
    if (!(error instanceof FileFormatError)) throw error;
    throw new FileFormatError(`Entry ${shown(entry)}: ${error.message}`, { cause: error });
  }
}

/**
 * Writes tensors as `numpy.savez` does: one file that `numpy.load` opens. The values are those of the
 * moment of the call.
 *
 * @param path The file.
 * @param tensors What to write, by name; any dtype but bfloat16, which NumPy does not have.
 *
 * @example
 * ```ts
 * import { loadNpz, saveNpz, Tensor } from "@netcl/netcl";
 *
 * const path = await Deno.makeTempFile();
 * await saveNpz(path, { x: Tensor.ones([2, 3]), y: Tensor.arange(4) });
 * const { y } = await loadNpz(path);
 * console.assert((await y!.toHost()).join() === "0,1,2,3");
 * await Deno.remove(path);
 * ```
 */
export async function saveNpz(
  path: string | URL,
  tensors: Record<string, Tensor>,
): Promise<void> {
  requireState("save an npz file", tensors);
  const values = Object.entries(tensors).map(([name, t]) => [name, t.detach()] as const);
  async function* entries() {
    for (const [name, tensor] of values) {
      const { shape, dtype } = tensor, data = await tensor.toHost();
      yield [`${name}${SUFFIX}`, encodeNpy({ data, shape, dtype })] as const;
    }
  }
  try {
    await saveFile(path, zipParts(entries()));
  } finally {
    for (const [, tensor] of values) tensor.dispose();
  }
}
