import { host, type HostFile } from "../core/rules/host.ts";
import { requireValue, takes } from "../core/rules/options.ts";
import { readFully, readWhole } from "./core/file.ts";
import { FileFormatError, readingFile, shown } from "./core/file_format_error.ts";
import type { HostArray } from "./core/host_array.ts";
import { isRecord, parseJsonObject } from "./core/json.ts";
import type { TensorSource } from "./core/tensor_source.ts";
import {
  decodeEntry,
  headerLength,
  parseHeader,
  PREFIX_BYTES,
  type SafetensorsEntry,
} from "./safetensors_format.ts";

/** A tensor, and the file that it lies in. */
interface PlacedEntry extends SafetensorsEntry {
  readonly path: string | URL;
  readonly file: HostFile;
  /** The place of the file's first tensor. */
  readonly dataStart: number;
}

/**
 * An open safetensors file, or several by their index, as large models have them: headers are read, of
 * the rest only what is asked for.
 *
 * @example One tensor of many
 * ```ts
 * import { saveSafetensors, Tensor } from "@netcl/netcl";
 * import { SafetensorsFile } from "@netcl/netcl/models";
 * import { assertEquals } from "@std/assert";
 *
 * const path = await Deno.makeTempFile();
 * await saveSafetensors(path, { a: Tensor.ones([2]), b: Tensor.zeros([1000]) });
 * using file = await SafetensorsFile.open(path);
 * assertEquals(file.tensors.get("b")?.shape, [1000]);
 * assertEquals([...(await file.decode("a")).data], [1, 1]);
 * await Deno.remove(path);
 * ```
 */
export class SafetensorsFile implements TensorSource {
  readonly #files: readonly HostFile[];
  readonly #entries: ReadonlyMap<string, PlacedEntry>;
  /** Free text of the writer, such as `{"format": "pt"}`; of several files, all of theirs. */
  readonly metadata: Readonly<Record<string, string>>;

  private constructor(
    files: readonly HostFile[],
    entries: ReadonlyMap<string, PlacedEntry>,
    metadata: Readonly<Record<string, string>>,
  ) {
    this.#files = files;
    this.#entries = entries;
    this.metadata = metadata;
  }

  /**
   * Opens a file, or the files that an index names.
   *
   * @param path The file, or the index of several: "model.safetensors.index.json".
   * @throws {FileFormatError} When one is damaged, no safetensors file, or lacks what the index promises.
   */
  static async open(path: string | URL): Promise<SafetensorsFile> {
    requireValue("read a file", "path", path, takes.path);
    const index = `${path}`.endsWith(".json") ? await readIndex(path) : null;
    const paths = index ? [...new Set(index.values())] : [path];
    const files: HostFile[] = [], entries = new Map<string, PlacedEntry>();
    const metadata: Record<string, string> = {};
    try {
      for (const each of paths) {
        await readingFile(each, async () => {
          const file = await host.open(each);
          files.push(file);
          const header = await readHeader(file);
          Object.assign(metadata, header.metadata);
          for (const [name, entry] of header.entries) {
            if (index && `${index.get(name)}` !== `${each}`) continue;
            entries.set(name, { ...entry, path: each, file, dataStart: header.dataStart });
          }
        });
      }
      await readingFile(path, () => requireAll(index, entries));
    } catch (error) {
      for (const file of files) file.close();
      throw error;
    }
    return new SafetensorsFile(files, entries, metadata);
  }

  /** Types, shapes and places by name. */
  get tensors(): ReadonlyMap<string, SafetensorsEntry> {
    return this.#entries;
  }

  /**
   * Reads the values of a tensor.
   *
   * @param name Its name.
   * @throws {RangeError} When there is none of that name.
   */
  async decode(name: string): Promise<HostArray> {
    const bytes = await this.read(name);
    return decodeEntry(this.#entries.get(name)!, bytes);
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
    const entry = this.#entries.get(name);
    if (!entry) throw new RangeError(`Cannot read tensor ${shown(name)}: the file has none`);
    return readingFile(entry.path, async () => {
      const bytes = new Uint8Array((end ?? entry.end - entry.start) - begin);
      await entry.file.seek(entry.dataStart + entry.start + begin, 0);
      await readFully(entry.file, bytes);
      return bytes;
    });
  }

  /** Closes the files. */
  [Symbol.dispose](): void {
    for (const file of this.#files) file.close();
  }
}

async function readHeader(file: HostFile) {
  const { size } = await file.stat();
  const prefix = new Uint8Array(Math.min(PREFIX_BYTES, size));
  await readFully(file, prefix);
  const header = new Uint8Array(headerLength(prefix, size));
  await readFully(file, header);
  const dataStart = PREFIX_BYTES + header.byteLength;
  return { dataStart, ...parseHeader(header, size - dataStart) };
}

/** The files of an index by the names of their tensors; all lie beside it. */
function readIndex(path: string | URL): Promise<Map<string, string | URL>> {
  return readingFile(path, async () => {
    const map = weightMap(new TextDecoder().decode(await readWhole(path)));
    return new Map(Object.entries(map).map(([name, file]) => [name, beside(path, file)]));
  });
}

function weightMap(text: string): Record<string, string> {
  const { weight_map: map } = parseJsonObject(text, "The index");
  if (!isRecord(map)) {
    throw new FileFormatError("The index has no weight_map: the files by name of tensor");
  }
  // A name with a folder in it could lead to any file of the machine.
  const odd = Object.values(map).find((file) =>
    typeof file !== "string" || !/^[^/\\\0]+\.safetensors$/.test(file)
  );
  if (odd === undefined) return map as Record<string, string>;
  throw new FileFormatError(
    `The index names ${shown(odd)}: expected a .safetensors file beside it`,
  );
}

function beside(path: string | URL, file: string): string | URL {
  if (path instanceof URL) return new URL(encodeURIComponent(file), path);
  return path.slice(0, path.length - path.split(/[/\\]/).at(-1)!.length) + file;
}

function requireAll(
  index: ReadonlyMap<string, unknown> | null,
  entries: ReadonlyMap<string, PlacedEntry>,
): void {
  const missing = [...index?.keys() ?? []].find((name) => !entries.has(name));
  if (missing === undefined) return;
  throw new FileFormatError(
    `The index promises tensor ${shown(missing)}: ${index!.get(missing)} has none`,
  );
}
