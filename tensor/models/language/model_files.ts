/** Files of a model's parts: one GGUF file, or a folder as Hugging Face has them. */
import { host } from "../../core/rules/host.ts";
import { FileFormatError, readingFile, shown } from "../../io/core/file_format_error.ts";
import { isRecord, parseJson } from "../../io/core/json.ts";
import { GgufFile } from "../../io/gguf/gguf.ts";
import { SafetensorsFile } from "../../io/safetensors_file.ts";
import type { DeviceHandle } from "../../../backend/internal.ts";
import { ChatTemplate } from "../text/chat_template.ts";
import { ggufTokenizer } from "../text/gguf_vocabulary.ts";
import type { TokenizerFiles } from "../text/tokenizer.ts";
import {
  GgufWeights,
  SafetensorsWeights,
  weightForm,
  type WeightReader,
} from "../weights/weight_reader.ts";
import type { RawConfig } from "./decoder/architectures/config.ts";
import { type Sampling, samplingRules } from "./sampling.ts";
import { textConfig, textWeights } from "./text_part.ts";
import { ggufConfig } from "./decoder/architectures/gguf_config.ts";

/** The open files of a model. */
export interface ModelFiles extends Disposable {
  readonly isGguf: boolean;
  /** config.json, or the same of a GGUF file's header. */
  readonly config: RawConfig;
  readonly tokenizer: TokenizerFiles;
  readonly template: ChatTemplate | null;
  /** Options for writing that the files advise. */
  readonly advised: Readonly<Sampling>;
  /** Reads weights for a device, in the form of an element type or "packed". */
  weights(device: DeviceHandle, dtype?: string): WeightReader;
}

/** Opens a GGUF file, or a folder with config.json, safetensors and tokenizer.json. */
export async function openModel(path: string): Promise<ModelFiles> {
  const { isDirectory } = await readingFile(path, () => host.stat(path));
  return isDirectory ? await openFolder(path) : await openGguf(path);
}

async function openGguf(path: string): Promise<ModelFiles> {
  const file = await GgufFile.open(path), { metadata, tensors } = file;
  try {
    const source = metadata["tokenizer.chat_template"];
    return {
      isGguf: true,
      config: await ggufConfig(file),
      tokenizer: ggufTokenizer(metadata),
      advised: advisedIn(metadata, "gguf"),
      template: typeof source === "string"
        ? new ChatTemplate(source, specialTokens(metadata))
        : null,
      weights: (device, dtype) =>
        new GgufWeights(file, device, weightForm(dtype, device, elementsOf(tensors))),
      [Symbol.dispose]: () => file[Symbol.dispose](),
    };
  } catch (error) {
    file[Symbol.dispose]();
    throw error;
  }
}

/** Options, and what files call them. */
const advice = [
  ["temperature", "temperature", "general.sampling.temp"],
  ["topK", "top_k", "general.sampling.top_k"],
  ["topP", "top_p", "general.sampling.top_p"],
  ["minP", "min_p", "general.sampling.min_p"],
  ["repetitionPenalty", "repetition_penalty", "general.sampling.penalty_repeat"],
] as const;

function advisedIn(source: Readonly<Record<string, unknown>>, kind: "folder" | "gguf"): Sampling {
  return Object.fromEntries(
    advice.flatMap(([ours, folder, gguf]) => {
      const value = source[kind === "gguf" ? gguf : folder];
      return typeof value === "number" && samplingRules[ours].accepts(value) ? [[ours, value]] : [];
    }),
  );
}

/** The texts of the tokens that templates name. */
function specialTokens(metadata: Readonly<Record<string, unknown>>): Record<string, string> {
  const tokens = metadata["tokenizer.ggml.tokens"] as readonly string[];
  const names = { bos_token: "bos", eos_token: "eos", unk_token: "unknown", pad_token: "padding" };
  return Object.fromEntries(
    Object.entries(names).flatMap(([name, theirs]) => {
      const token = tokens[metadata[`tokenizer.ggml.${theirs}_token_id`] as number];
      return token === undefined ? [] : [[name, token]];
    }),
  );
}

function elementsOf(tensors: ReadonlyMap<string, { shape: readonly number[] }>): number {
  return [...tensors.values()].reduce((n, { shape }) => n + shape.reduce((a, b) => a * b, 1), 0);
}

/** The contents of a JSON file; null where there is none. */
export async function readJson(path: string): Promise<RawConfig | null> {
  const text = await readText(path);
  if (text === null) return null;
  return await readingFile(path, () => parseJson(text, "It") as RawConfig | null);
}

async function readText(path: string): Promise<string | null> {
  try {
    return await host.readTextFile(path);
  } catch (error) {
    if (error instanceof host.errors.NotFound) return null;
    throw error;
  }
}

/** Files of other forms, and how what is read is made of them. */
const remedies: Readonly<Record<string, string>> = {
  "tokenizer.json": "a tokenizer.model or a vocabulary of another form becomes one by " +
    'AutoTokenizer.from_pretrained("folder").save_pretrained("folder") of Python\'s transformers',
  "model.safetensors": "a pytorch_model.bin becomes one by " +
    'AutoModel.from_pretrained("folder").save_pretrained("folder") of Python\'s transformers',
};

function missingFile(folder: string, name: string): FileFormatError {
  return new FileFormatError(
    `Cannot load the model in "${folder}": it has no ${name}; a folder holds config.json, ` +
      `model.safetensors, or an index of several, and tokenizer.json${
        name in remedies ? `: ${remedies[name]}` : ""
      }`,
  );
}

/** A file that must be there. */
export async function requiredJson(folder: string, name: string): Promise<RawConfig> {
  const found = await readJson(`${folder}/${name}`);
  if (isRecord(found)) return found;
  if (found === null) throw missingFile(folder, name);
  throw new FileFormatError(
    `Cannot load the model in "${folder}": its ${name} is not a JSON object`,
  );
}

/** Opens the safetensors of a folder: one file, or several with an index. */
export async function openWeights(folder: string): Promise<SafetensorsFile> {
  const names: string[] = [];
  for await (const { name } of host.readDir(folder)) names.push(name);
  const name = ["model.safetensors", "model.safetensors.index.json"].find((n) => names.includes(n));
  const rest = names.filter((n) => n.endsWith(".safetensors"));
  const found = name ?? (rest.length === 1 ? rest[0] : undefined);
  if (found) return await SafetensorsFile.open(`${folder}/${found}`);
  throw missingFile(folder, "model.safetensors");
}

async function openFolder(folder: string): Promise<ModelFiles> {
  const [config, tokenizer] = await Promise.all(
    ["config.json", "tokenizer.json"].map((name) => requiredJson(folder, name)),
  ) as [RawConfig, RawConfig];
  const settings = await readJson(`${folder}/tokenizer_config.json`) ?? {};
  const generation = await readJson(`${folder}/generation_config.json`) ?? {};
  const source = await readText(`${folder}/chat_template.jinja`) ?? templateIn(settings);
  const template = source === null ? null : new ChatTemplate(source, tokenTexts(settings));
  const file = await openWeights(folder), part = textConfig(config, file);
  const own = part ?? config, weights = part ? textWeights(file) : file;
  const ends = [own.eos_token_id, generation.eos_token_id].flat();
  return {
    isGguf: false,
    config: { ...own, eos_token_id: ends.filter((id) => id !== undefined && id !== null) },
    tokenizer: { tokenizer, config: settings },
    template,
    // What is to be written without chance is given a temperature, too, at times.
    advised: generation.do_sample === true ? advisedIn(generation, "folder") : {},
    weights: (device, dtype) =>
      new SafetensorsWeights(
        weights,
        device,
        weightForm(dtype, device, elementsOf(weights.tensors)),
      ),
    [Symbol.dispose]: () => file[Symbol.dispose](),
  };
}

/** The template in tokenizer_config.json: one, or several with names. */
function templateIn({ chat_template: source }: RawConfig): string | null {
  if (typeof source === "string") return source;
  if (!Array.isArray(source)) return null;
  const named = source as { name: string; template: string }[];
  return (named.find(({ name }) => name === "default") ?? named[0])?.template ?? null;
}

/** The texts of special tokens, which stand as they are or in an object. */
function tokenTexts(settings: RawConfig): Record<string, string> {
  return Object.fromEntries(
    Object.entries(settings).flatMap(([name, value]) => {
      if (!name.endsWith("_token")) return [];
      const text = typeof value === "string" ? value : (value as { content?: unknown })?.content;
      return typeof text === "string" ? [[name, text]] : [];
    }),
  );
}

/** The ids that end a text. */
export function endsOf({ eos_token_id: ids }: RawConfig): Set<number> {
  const list = [ids ?? []].flat();
  if (list.every(Number.isInteger)) return new Set(list as number[]);
  throw new TypeError(`Cannot load the model: its eos_token_id is ${shown(ids)}`);
}
