/**
 * Models and data that were made elsewhere: their files as tensors.
 *
 * This folder holds what runs models; the readers of files lie in `io/`, and are given on from there.
 * It imports `io/` and what lies below it.
 *
 * @module
 */
export { loadNpz, type LoadNpzOptions, saveNpz } from "../io/numpy/npz.ts";
export { GgufFile, loadGguf } from "../io/gguf/gguf.ts";
export type { GgufEntry, GgufType, GgufValue } from "../io/gguf/gguf_format.ts";
export type { BlockType } from "../io/gguf/gguf_format.ts";
export { SafetensorsFile } from "../io/safetensors_file.ts";
export type { SafetensorsEntry } from "../io/safetensors_format.ts";
export type { ElementType } from "../io/core/elements.ts";
export type { TensorSource } from "../io/core/tensor_source.ts";
export type { HostArray } from "../io/core/host_array.ts";
export type { LoadOptions } from "../io/core/load_options.ts";
export { loadTorch } from "../io/torch/torch.ts";
export {
  type BatchOptions,
  LanguageModel,
  type LoadModelOptions,
  type ProcessGroup,
} from "./language/language_model.ts";
export type { Batch } from "./language/batch.ts";
export type { Chat } from "./language/chat.ts";
export type { Sampling } from "./language/sampling.ts";
export type { TextEnd, TextStream } from "./text/text_pieces.ts";
export type { Message, TemplateVariables } from "./text/chat_template.ts";
export { type SpecialTokenOptions, Tokenizer, type TokenizerFiles } from "./text/tokenizer.ts";
export { Adapters, loadAdapters, lora, type LoraOptions } from "./adapters/lora.ts";
export { loadOnnx, OnnxModel, type OnnxValue } from "./onnx/onnx_model.ts";
export { saveOnnx, type SaveOnnxOptions } from "./onnx/export/save_onnx.ts";
export { Embedder, type LoadEmbedderOptions } from "./embedding/embedder.ts";
export type { Pooling } from "./embedding/pooling.ts";
