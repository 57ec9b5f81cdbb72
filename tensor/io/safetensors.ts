import { type DeviceHandle, saveFile } from "../../backend/internal.ts";
import { fromHost } from "../ops/functional.ts";
import type { Tensor } from "../core/tensor.ts";
import { encodeElements } from "./elements.ts";
import { readingFile } from "./file_format_error.ts";
import { readFully } from "./file.ts";
import {
  decodeEntry,
  headerLength,
  parseHeader,
  planSafetensors,
  PREFIX_BYTES,
  type SafetensorsEntry,
} from "./safetensors_format.ts";
import { requireState } from "../core/apply.ts";
import { checkOptions, deviceChoice, type Rules, takes } from "../core/rules/options.ts";

/** Where the tensors of a file are put. */
export interface LoadOptions {
  /** The device that holds them; the active one unless given. */
  device?: string | DeviceHandle;
}

/** What {@linkcode LoadOptions} may hold. */
export const loadRules: Rules<LoadOptions> = { device: deviceChoice };

/** What is written beside the tensors. */
export interface SaveSafetensorsOptions {
  /** Free text, such as `{ epoch: "12" }`; other tools show it. */
  metadata?: Record<string, string>;
}

const saveRules: Rules<SaveSafetensorsOptions> = {
  metadata: takes.object('an object of strings, such as { epoch: "12" }'),
};

/**
 * Writes tensors into a safetensors file, which PyTorch, JAX and others read.
 *
 * The values are those of the moment of the call: training may go on before the promise is kept.
 * The file appears under its name when it is complete and on the disk; a former one stays until
 * then, and of two saves to one path the one that was called later stays: see `saveFile`.
 *
 * @param path The file.
 * @param tensors What to write, by name; such as `model.stateDict()`.
 * @param options What goes with them.
 *
 * @example A model, there and back
 * ```ts
 * import { loadSafetensors, nn, saveSafetensors } from "@netcl/netcl";
 *
 * const path = await Deno.makeTempFile();
 * const model = new nn.Linear(3, 2);
 * await saveSafetensors(path, model.stateDict());
 * model.loadStateDict(await loadSafetensors(path));
 * await Deno.remove(path);
 * ```
 */
export async function saveSafetensors(
  path: string | URL,
  tensors: Record<string, Tensor>,
  options: SaveSafetensorsOptions = {},
): Promise<void> {
  requireState("save a safetensors file", tensors);
  checkOptions("save a safetensors file", options, saveRules);
  const { prefix, order } = planSafetensors(tensors, options.metadata);
  const values = order.map((name) => tensors[name]!.detach());
  async function* parts() {
    yield prefix;
    for (const tensor of values) yield encodeElements(await tensor.toHost(), tensor.dtype);
  }
  try {
    await saveFile(path, parts());
  } finally {
    for (const tensor of values) tensor.dispose();
  }
}

/**
 * Reads all tensors of a safetensors file, one after the other: beside the tensors themselves the
 * host holds only the largest. int8, int16 and uint16 become int32, and uint32 becomes int64.
 *
 * @param path The file.
 * @param options Where they are put.
 * @returns The tensors by name, in the order of the file's header.
 * @throws FileFormatError for a file that is damaged or no safetensors file.
 */
export function loadSafetensors(
  path: string | URL,
  options: LoadOptions = {},
): Promise<Record<string, Tensor>> {
  checkOptions("load a safetensors file", options, loadRules);
  return readingFile(path, async () => {
    using file = await Deno.open(path);
    const { size } = await file.stat();
    const { entries, dataStart } = await readHeader(file, size);
    const tensors = new Map<string, Tensor>();
    try {
      for (const [name, entry] of entries) {
        tensors.set(name, await readTensor(file, dataStart, entry, options));
      }
    } catch (error) {
      for (const tensor of tensors.values()) tensor.dispose();
      throw error;
    }
    return Object.fromEntries(tensors);
  });
}

/**
 * Reads only what a safetensors file says of its writer.
 *
 * @param path The file.
 * @returns The text that {@link saveSafetensors} was given as `metadata`.
 * @throws FileFormatError for a file that is damaged or no safetensors file.
 */
export function readSafetensorsMetadata(
  path: string | URL,
): Promise<Readonly<Record<string, string>>> {
  return readingFile(path, async () => {
    using file = await Deno.open(path);
    return (await readHeader(file, (await file.stat()).size)).metadata;
  });
}

async function readHeader(file: Deno.FsFile, fileBytes: number) {
  const prefix = new Uint8Array(Math.min(PREFIX_BYTES, fileBytes));
  await readFully(file, prefix);
  const header = new Uint8Array(headerLength(prefix, fileBytes));
  await readFully(file, header);
  const dataStart = PREFIX_BYTES + header.byteLength;
  return { dataStart, ...parseHeader(header, fileBytes - dataStart) };
}

async function readTensor(
  file: Deno.FsFile,
  dataStart: number,
  entry: SafetensorsEntry,
  options: LoadOptions,
): Promise<Tensor> {
  const bytes = new Uint8Array(entry.end - entry.start);
  await file.seek(dataStart + entry.start, Deno.SeekMode.Start);
  await readFully(file, bytes);
  const { data, ...type } = decodeEntry(entry, bytes);
  return fromHost(data, { ...type, ...options });
}
