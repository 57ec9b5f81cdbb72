/**
 * GGUF files, the containers of llama.cpp: read tensor by tensor. This folder (`io/gguf/`) imports
 * `io/core/`, and the formats of blocks of the backend.
 */
import { host, type HostFile } from "../../core/rules/host.ts";
import { hostBlocks } from "../../../backend/internal.ts";
import type { Tensor } from "../../core/mod.ts";
import { checkOptions } from "../../core/rules/options.ts";
import { decodeElements } from "../core/elements.ts";
import { readFully } from "../core/file.ts";
import { FileFormatError, readingFile, shown } from "../core/file_format_error.ts";
import type { HostArray } from "../core/host_array.ts";
import { type LoadOptions, loadRules } from "../core/load_options.ts";
import { loading, type TensorSource } from "../core/tensor_source.ts";
import {
  blockFormatOf,
  type BlockType,
  type GgufEntry,
  type GgufHeader,
  type GgufValue,
  parseGgufHeader,
  plainTypes,
} from "./gguf_format.ts";

/** So much is read of a file at first; headers with large vocabularies are longer. */
const FIRST_BYTES = 2 ** 20;

/** An open GGUF file: its header is read, its tensors are when they are asked for. */
export class GgufFile implements TensorSource {
  readonly #file: HostFile;
  readonly #header: GgufHeader;
  readonly #path: string | URL;

  private constructor(path: string | URL, file: HostFile, header: GgufHeader) {
    this.#path = path;
    this.#file = file;
    this.#header = header;
  }

  /**
   * Opens a file and reads its header.
   *
   * @param path The file.
   * @throws {FileFormatError} When it is damaged, or no GGUF file.
   */
  static open(path: string | URL): Promise<GgufFile> {
    return readingFile(path, async () => {
      const file = await host.open(path);
      try {
        return new GgufFile(path, file, await readHeader(file));
      } catch (error) {
        file.close();
        throw error;
      }
    });
  }

  /** The values of the header by key. */
  get metadata(): Readonly<Record<string, GgufValue>> {
    return this.#header.metadata;
  }

  /** Types, shapes and places by name. */
  get tensors(): ReadonlyMap<string, GgufEntry> {
    return this.#header.tensors;
  }

  /**
   * Reads the bytes of a tensor, or some of them, as they are in the file.
   *
   * @param name Its name.
   * @param begin The first byte of it.
   * @param end Behind the last one; by default all are read.
   * @throws {RangeError} When there is none of that name.
   */
  read(name: string, begin = 0, end?: number): Promise<Uint8Array<ArrayBuffer>> {
    const entry = this.#header.tensors.get(name);
    if (!entry) {
      throw new RangeError(`Cannot read tensor ${shown(name)}: "${this.#path}" has none`);
    }
    return readingFile(this.#path, async () => {
      const bytes = new Uint8Array((end ?? entry.nbytes) - begin);
      await this.#file.seek(entry.start + begin, 0);
      await readFully(this.#file, bytes);
      return bytes;
    });
  }

  /** Reads a tensor and decodes its blocks. */
  async decode(name: string): Promise<HostArray> {
    const bytes = await this.read(name);
    return decodeGgufEntry(this.#header.tensors.get(name)!, bytes);
  }

  /** Closes the file. */
  [Symbol.dispose](): void {
    this.#file.close();
  }
}

async function readHeader(file: HostFile): Promise<GgufHeader> {
  const { size } = await file.stat();
  for (let length = Math.min(FIRST_BYTES, size);; length = Math.min(2 * length, size)) {
    const bytes = new Uint8Array(length);
    await file.seek(0, 0);
    await readFully(file, bytes);
    const header = parseGgufHeader(bytes, size);
    if (header) return header;
  }
}

/** The values of a tensor, from its own bytes. */
export function decodeGgufEntry({ type, shape }: GgufEntry, bytes: Uint8Array): HostArray {
  if (blockFormatOf(type)) {
    return { data: hostBlocks(type as BlockType).decode(bytes), shape, dtype: "float32" };
  }
  return { ...decodeElements(plainTypes[type]!, bytes), shape };
}

/**
 * Reads a whole file that is in memory already.
 *
 * @param bytes The file.
 * @throws {FileFormatError} When it is damaged, or no GGUF file.
 */
export function decodeGguf(
  bytes: Uint8Array<ArrayBuffer>,
): { metadata: Readonly<Record<string, GgufValue>>; arrays: Record<string, HostArray> } {
  const header = parseGgufHeader(bytes, bytes.length);
  if (!header) throw new FileFormatError("The file ends within its header");
  const arrays = [...header.tensors].map(([name, entry]) =>
    [
      name,
      decodeGgufEntry(entry, bytes.subarray(entry.start, entry.start + entry.nbytes)),
    ] as const
  );
  return { metadata: header.metadata, arrays: Object.fromEntries(arrays) };
}

/**
 * Reads all tensors of a GGUF file (versions 2 and 3), the container of llama.cpp. Blocks of Q4_0, Q4_1,
 * Q5_0, Q5_1, Q8_0 and Q2_K to Q6_K are decoded to float32, bit for bit as ggml does; floats and whole
 * numbers keep their types.
 *
 * @param path The file.
 * @param options Where the tensors are put.
 * @returns The header's values by key, and the tensors by name.
 * @throws {FileFormatError} When the file is damaged, or has blocks of another kind.
 */
export async function loadGguf(
  path: string | URL,
  options: LoadOptions = {},
): Promise<{ metadata: Record<string, unknown>; tensors: Record<string, Tensor> }> {
  checkOptions("load a GGUF file", options, loadRules);
  const opening = GgufFile.open(path);
  const tensors = await loading(opening, options);
  return { metadata: { ...(await opening).metadata }, tensors };
}
