/**
 * Files that other tools write and read: safetensors and .npy both ways, IDX and CSV to read,
 * gzipped or not. What comes out of a file is checked before anything is allocated for it.
 *
 * Imports the public Tensor API and nothing below it.
 *
 * @module
 */
export { FileFormatError } from "./file_format_error.ts";
export type { HostArray } from "./host_array.ts";
export type { ReadOptions } from "./gzip.ts";
export { decodeSafetensors, encodeSafetensors } from "./safetensors_format.ts";
export {
  type LoadOptions,
  loadSafetensors,
  readSafetensorsMetadata,
  saveSafetensors,
  type SaveSafetensorsOptions,
} from "./safetensors.ts";
export { decodeNpy, encodeNpy } from "./npy_format.ts";
export { loadNpy, saveNpy } from "./npy.ts";
export { decodeIdx, loadIdx } from "./idx.ts";
export { type CsvOptions, type CsvTable, loadCsv, parseCsv } from "./csv.ts";
