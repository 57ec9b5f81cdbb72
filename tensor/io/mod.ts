/**
 * Files that other tools write and read: safetensors, .npy and .npz, pictures and sounds both ways,
 * checkpoints of PyTorch, IDX and CSV to read. What comes out of a file is checked before anything is
 * allocated for it.
 *
 * Imports the public Tensor API and nothing below it.
 *
 * @module
 */
export { FileFormatError } from "./core/file_format_error.ts";
export type { HostArray } from "./core/host_array.ts";
export type { ReadOptions } from "./core/gzip.ts";
export { decodeSafetensors, encodeSafetensors } from "./safetensors_format.ts";
export {
  loadSafetensors,
  readSafetensorsMetadata,
  saveSafetensors,
  type SaveSafetensorsOptions,
} from "./safetensors.ts";
export { decodeNpy, encodeNpy } from "./numpy/npy_format.ts";
export type { LoadOptions } from "./core/load_options.ts";
export { loadNpy, saveNpy } from "./numpy/npy.ts";
export { decodeNpz, loadNpz, type LoadNpzOptions, saveNpz } from "./numpy/npz.ts";
export { decodeIdx, loadIdx } from "./idx.ts";
export { type CsvOptions, type CsvTable, loadCsv, parseCsv } from "./csv.ts";
export { decodeTorch, loadTorch } from "./torch/torch.ts";
export {
  decodeImage,
  type DecodeImageOptions,
  encodeImage,
  type EncodeImageOptions,
  type ImageFormat,
  loadImage,
  type LoadImageOptions,
  saveImage,
} from "./pictures/picture.ts";
export {
  decodeWav,
  encodeWav,
  type EncodeWavOptions,
  type HostSound,
  loadWav,
  saveWav,
  type SaveWavOptions,
  type Sound,
} from "./sound/wav.ts";
