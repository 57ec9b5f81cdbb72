import { saveFile } from "../../backend/internal.ts";
import type { Tensor } from "../core/mod.ts";
import { encodeElements } from "./core/elements.ts";
import { type LoadOptions, loadRules } from "./core/load_options.ts";
import { loading } from "./core/tensor_source.ts";
import { SafetensorsFile } from "./safetensors_file.ts";
import { planSafetensors } from "./safetensors_format.ts";
import { requireState } from "../core/apply.ts";
import { checkOptions, type Rules, takes } from "../core/rules/options.ts";

/** Data written beside the tensors. */
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
 * host holds only the largest. Types stay as they are; those that are none here become the next that
 * holds all their values: uint16 int32, floats of 8 bits float16.
 *
 * @param path The file, or the index of several: "model.safetensors.index.json".
 * @param options Where they are put.
 * @returns The tensors by name, in the order of the file's header.
 * @throws {FileFormatError} For a file that is damaged or no safetensors file.
 */
export function loadSafetensors(
  path: string | URL,
  options: LoadOptions = {},
): Promise<Record<string, Tensor>> {
  checkOptions("load a safetensors file", options, loadRules);
  return loading(SafetensorsFile.open(path), options);
}

/**
 * Reads only what a safetensors file says of its writer.
 *
 * @param path The file.
 * @returns The text that {@link saveSafetensors} was given as `metadata`.
 * @throws {FileFormatError} For a file that is damaged or no safetensors file.
 */
export async function readSafetensorsMetadata(
  path: string | URL,
): Promise<Readonly<Record<string, string>>> {
  using file = await SafetensorsFile.open(path);
  return file.metadata;
}
