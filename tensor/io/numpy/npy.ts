import { readWhole } from "../core/file.ts";
import { saveFile } from "../../../backend/internal.ts";
import { Tensor } from "../../class/tensor.ts";
import { readingFile } from "../core/file_format_error.ts";
import { decodeNpy, encodeNpy } from "./npy_format.ts";
import { type LoadOptions, loadRules } from "../core/load_options.ts";
import { requireTensor } from "../../core/apply.ts";
import { checkOptions } from "../../core/rules/options.ts";

/**
 * Writes one tensor as NumPy's `numpy.save` does. A view is written as the values that it shows.
 *
 * @param path The file.
 * @param tensor Any dtype but bfloat16, which NumPy does not have.
 *
 * @example
 * ```ts
 * import { loadNpy, saveNpy, Tensor } from "@netcl/netcl";
 *
 * const path = await Deno.makeTempFile();
 * await saveNpy(path, Tensor.fromHost([[1, 2, 3], [4, 5, 6]]).transpose());
 * const back = await loadNpy(path);
 * console.assert((await back.toHost()).join() === "1,4,2,5,3,6");
 * await Deno.remove(path);
 * ```
 */
export async function saveNpy(path: string | URL, tensor: Tensor): Promise<void> {
  requireTensor("save a .npy file", tensor);
  const { shape, dtype } = tensor;
  async function* parts() {
    yield encodeNpy({ data: await tensor.toHost(), shape, dtype });
  }
  await saveFile(path, parts());
}

/**
 * Reads one array that `numpy.save` wrote, in either byte order and either memory order. Types
 * stay as they are; uint16, which is none here, becomes int32.
 *
 * @param path The file.
 * @param options Where the tensor is put.
 * @throws {FileFormatError} For a file that is damaged or no array of numbers.
 */
export function loadNpy(path: string | URL, options: LoadOptions = {}): Promise<Tensor> {
  checkOptions("load a npy file", options, loadRules);
  return readingFile(path, async () => {
    const { data, ...type } = decodeNpy(await readWhole(path));
    return Tensor.fromHost(data, { ...type, ...options });
  });
}
