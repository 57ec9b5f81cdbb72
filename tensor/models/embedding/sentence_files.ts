/** Files of sentence-transformers beside a model: what makes one vector of a text. */
import { host } from "../../core/rules/host.ts";
import type { DeviceHandle } from "../../../backend/internal.ts";
import type { Tensor } from "../../core/mod.ts";
import { FileFormatError, shown } from "../../io/core/file_format_error.ts";
import { loadTorch } from "../../io/torch/torch.ts";
import { loadSafetensors } from "../../io/safetensors.ts";
import { withRole } from "../../nn/module/parameter.ts";
import { ConfigReader, type RawConfig } from "../language/decoder/architectures/config.ts";
import { readJson } from "../language/model_files.ts";
import { Projection } from "../weights/projection.ts";
import type { Pooling } from "./pooling.ts";

/** A layer behind pooling. */
export interface DenseLayer {
  readonly projection: Projection;
  readonly activation: (x: Tensor) => Tensor;
}

/** Settings that the files have. */
export interface SentenceSettings {
  /** Throws where the model makes one vector in a way that is not read. */
  readonly pooling: () => readonly Pooling[];
  /** The folders of layers behind pooling. */
  readonly dense: readonly string[];
  readonly isNormalized: boolean;
  /** The most tokens of a text. */
  readonly most: number;
  /** Text in front of each. */
  readonly prompt: string;
  readonly isLower: boolean;
}

/** Sentence-transformers' names of what makes one vector, in the order in which several stand side by side. */
const modes: readonly (readonly [mode: string, flag: string, pooling: Pooling])[] = [
  ["cls", "pooling_mode_cls_token", "first"],
  ["max", "pooling_mode_max_tokens", "max"],
  ["mean", "pooling_mode_mean_tokens", "mean"],
  ["mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", "root"],
  ["weightedmean", "pooling_mode_weightedmean_tokens", "weighted"],
  ["lasttoken", "pooling_mode_lasttoken", "last"],
];

/** Parts of models that are read, by the end of their types. */
const readParts = ["Transformer", "Pooling", "Dense", "Normalize"];

/** Settings from sentence-transformers' own files of a model; `limit` is the tokenizer's. */
export async function sentenceSettings(folder: string, limit: unknown): Promise<SentenceSettings> {
  const modules = await readJson(`${folder}/modules.json`);
  const list = Array.isArray(modules) ? modules as { type?: unknown; path?: unknown }[] : [];
  const parts = list.map(({ type, path }) => ({
    type: String(type).split(".").at(-1)!,
    path: `${folder}/${path ?? ""}`,
  }));
  const odd = parts.find(({ type }) => !readParts.includes(type));
  if (odd !== undefined) {
    throw new TypeError(
      `Cannot load the embedder in "${folder}": its modules.json has a part ${shown(odd.type)}; ` +
        `netcl reads ${readParts.join(", ")}`,
    );
  }
  const outside = list.find(({ path = "" }) =>
    typeof path !== "string" || /(^|[\\/])\.\.([\\/]|$)/.test(path)
  );
  if (outside) {
    throw new FileFormatError(
      `Cannot load the embedder in "${folder}": its modules.json names ${shown(outside.path)}: ` +
        "expected a folder in it",
    );
  }
  const place = parts.find(({ type }) => type === "Pooling")?.path ?? `${folder}/1_Pooling`;
  const config = await readJson(`${place}/config.json`) ?? {};
  const own = await readJson(`${folder}/sentence_bert_config.json`) ?? {};
  const prompt = await defaultPrompt(folder, config);
  const said = new ConfigReader(own).optionalSize("max_seq_length");
  // Tokenizers without a limit have one of 10^30.
  const most = said ?? (typeof limit === "number" && limit > 0 ? limit : Infinity);
  return {
    pooling: () => poolingIn(config, folder),
    dense: parts.filter(({ type }) => type === "Dense").map(({ path }) => path),
    isNormalized: parts.some(({ type }) => type === "Normalize"),
    most,
    prompt,
    isLower: own.do_lower_case === true,
  };
}

/** The text that stands in front of each, unless it is asked otherwise. */
async function defaultPrompt(folder: string, pooling: RawConfig): Promise<string> {
  const config = await readJson(`${folder}/config_sentence_transformers.json`) ?? {};
  const name = config.default_prompt_name, prompts = config.prompts as RawConfig | undefined;
  if (typeof name !== "string") return "";
  const prompt = prompts?.[name];
  if (typeof prompt !== "string") {
    throw new FileFormatError(
      `Cannot load the embedder in "${folder}": it has no prompt of the name ${shown(name)}`,
    );
  }
  if (pooling.include_prompt !== false || prompt === "") return prompt;
  throw new TypeError(
    `Cannot load the embedder in "${folder}": it leaves its prompt ${shown(prompt)} out of ` +
      `pooling, which netcl does not read`,
  );
}

function poolingIn(config: RawConfig, folder: string): readonly Pooling[] {
  const { pooling_mode: named } = config;
  const flags = Object.keys(config).filter((name) =>
    name.startsWith("pooling_mode_") && config[name] === true
  );
  const asked = named === undefined ? flags : [named].flat();
  if (asked.length === 0) return ["mean"];
  const found = modes.filter((names) => asked.some((name) => names.includes(name as Pooling)));
  // Names in a list stand in its order, flags in that of the table.
  const order = named === undefined
    ? found
    : asked.flatMap((name) => found.filter(([mode]) => mode === name));
  if (order.length === asked.length) return order.map(([, , pooling]) => pooling);
  throw new TypeError(
    `Cannot load the embedder in "${folder}": it makes one vector by ${
      asked.join(" and ")
    }; netcl ` +
      `reads ${modes.map(([mode]) => mode).join(", ")}: pass pooling to choose one`,
  );
}

/** Activations of layers behind pooling, by the end of PyTorch's names. */
const activations: Readonly<Record<string, (x: Tensor) => Tensor>> = {
  Identity: (x) => x,
  Tanh: (x) => x.tanh(),
  ReLU: (x) => x.relu(),
  GELU: (x) => x.gelu(),
  SiLU: (x) => x.silu(),
  Sigmoid: (x) => x.sigmoid(),
};

/** Reads a layer behind pooling. */
export async function readDense(folder: string, device: DeviceHandle): Promise<DenseLayer> {
  const config = await readJson(`${folder}/config.json`) ?? {};
  const named = String(config.activation_function ?? "Tanh").split(".").at(-1)!;
  const activation = Object.hasOwn(activations, named) ? activations[named]! : null;
  if (!activation) {
    throw new TypeError(
      `Cannot load the embedder's layer in "${folder}": it has the activation ${shown(named)}; ` +
        `netcl reads ${Object.keys(activations).join(", ")}`,
    );
  }
  const state = await stateIn(folder);
  const take = (name: string) => {
    const tensor = state[name];
    return tensor && withRole(tensor.cast("float32").to(device), "parameter");
  };
  const weight = take("linear.weight");
  if (weight) {
    return { projection: new Projection(weight, take("linear.bias") ?? null), activation };
  }
  throw new FileFormatError(`Cannot load the layer in "${folder}": it has no linear.weight`);
}

async function stateIn(folder: string): Promise<Readonly<Record<string, Tensor>>> {
  for await (const { name } of host.readDir(folder)) {
    if (name === "model.safetensors") return await loadSafetensors(`${folder}/${name}`);
  }
  return await loadTorch(`${folder}/pytorch_model.bin`) as Record<string, Tensor>;
}
