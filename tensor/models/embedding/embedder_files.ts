/** The files of a model of vectors: one GGUF file, or a folder as Hugging Face has them. */
import type { DeviceHandle } from "../../../backend/internal.ts";
import { host } from "../../core/rules/host.ts";
import { readingFile, shown } from "../../io/core/file_format_error.ts";
import type { RawConfig } from "../language/decoder/architectures/config.ts";
import { openModel, openWeights, readJson, requiredJson } from "../language/model_files.ts";
import type { TokenizerFiles } from "../text/tokenizer.ts";
import { SafetensorsWeights, weightForm, type WeightReader } from "../weights/weight_reader.ts";
import type { Pooling } from "./pooling.ts";
import { type SentenceSettings, sentenceSettings } from "./sentence_files.ts";

/** The open files of a model of vectors. */
export interface EmbedderFiles extends Disposable {
  readonly isGguf: boolean;
  readonly config: RawConfig;
  readonly tokenizer: TokenizerFiles;
  /** Settings that make one vector of a text. */
  readonly said: SentenceSettings;
  /** Reads weights for a device, in the form of an element type or "packed". */
  weights(device: DeviceHandle, dtype: string): WeightReader;
}

/** Opens a GGUF file, or a folder with config.json, safetensors and tokenizer.json. */
export async function openEmbedder(path: string): Promise<EmbedderFiles> {
  const { isDirectory } = await readingFile(path, () => host.stat(path));
  return isDirectory ? await openFolder(path) : await openGguf(path);
}

async function openFolder(folder: string): Promise<EmbedderFiles> {
  const config = await requiredJson(folder, "config.json");
  const tokenizer = await requiredJson(folder, "tokenizer.json");
  const settings = await readJson(`${folder}/tokenizer_config.json`) ?? {};
  const said = await sentenceSettings(folder, settings.model_max_length);
  const file = await openWeights(folder);
  return {
    isGguf: false,
    config,
    // What cuts and pads texts stands in the file for others; here batches are made by length.
    tokenizer: { tokenizer: { ...tokenizer, truncation: null, padding: null }, config: settings },
    said,
    weights: (device, dtype) => new SafetensorsWeights(file, device, weightForm(dtype, device, 0)),
    [Symbol.dispose]: () => file[Symbol.dispose](),
  };
}

/** Poolings by the numbers of `pooling_type`; a file that has none, or 0, leaves the choice. */
const poolingTypes: readonly Pooling[] = ["mean", "mean", "first", "last"];

async function openGguf(path: string): Promise<EmbedderFiles> {
  const files = await openModel(path), { config, tokenizer } = files;
  const pooling = (): readonly Pooling[] => {
    const found = poolingTypes[Number(config.pooling_type ?? 0)];
    if (found) return [found];
    throw new TypeError(
      `Cannot load the embedder in "${path}": its pooling_type is ${shown(config.pooling_type)} ` +
        `(4 ranks texts, and makes no vectors); netcl reads 0 to 3: pass pooling to choose one`,
    );
  };
  return {
    isGguf: true,
    config,
    tokenizer,
    // Vectors have length 1, as llama.cpp gives them.
    said: { pooling, dense: [], isNormalized: true, most: Infinity, prompt: "", isLower: false },
    weights: (device, dtype) => files.weights(device, dtype),
    [Symbol.dispose]: () => files[Symbol.dispose](),
  };
}
