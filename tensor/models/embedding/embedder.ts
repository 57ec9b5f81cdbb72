import { type DeviceHandle, manager } from "../../../backend/internal.ts";
import { noGrad } from "../../core/modes/grad_mode.ts";
import {
  checkOptions,
  deviceChoice,
  requireValue,
  type Rules,
  takes,
} from "../../core/rules/options.ts";
import { Tensor } from "../../class/tensor.ts";
import type { AnyModule } from "../../nn/module/module.ts";
import { shown } from "../../io/core/file_format_error.ts";
import { ConfigReader } from "../language/decoder/architectures/config.ts";
import { openWeights, readJson, requiredJson } from "../language/model_files.ts";
import { Tokenizer } from "../text/tokenizer.ts";
import { SafetensorsWeights, weightForm } from "../weights/weight_reader.ts";
import { buildEncoder, type Encoder } from "./encoder.ts";

/** Reduction of a text's token vectors to one. */
export type Pooling = "mean" | "first" | "max";

/** Options for loading a model of vectors. */
export interface LoadEmbedderOptions {
  /** The type that weights are held in; default float32. */
  dtype?: string;
  /** Its device; default the active device. */
  device?: string | DeviceHandle;
  /** Reduction to one vector of a text; default as the folder says it, else "mean". */
  pooling?: Pooling;
  /** True for vectors of length 1; default as the folder says it. */
  normalize?: boolean;
}

const rules: Rules<LoadEmbedderOptions> = {
  dtype: takes.oneOf("float32", "float16", "bfloat16"),
  device: deviceChoice,
  pooling: takes.oneOf("mean", "first", "max"),
  normalize: takes.bool,
};

/** Choices that make one vector of a text, and of how many tokens at most. */
interface Settings {
  readonly pooling: Pooling;
  readonly isNormalized: boolean;
  readonly most: number;
}

/** Rows that are computed at once: more would pad short texts to the length of long ones. */
const BATCH = 32;

/**
 * A model that turns texts into vectors, alike for texts that mean alike.
 *
 * @example Which text is nearest?
 * ```ts ignore
 * import { Embedder } from "@netcl/netcl/models";
 *
 * using embedder = await Embedder.load("all-MiniLM-L6-v2");
 * using vectors = await embedder.embed(["A cat sleeps.", "A kitten naps.", "Stocks fell."]);
 * console.log(await vectors.matmul(vectors.transpose()).toArray());
 * ```
 */
export class Embedder implements Disposable {
  /** The weights: frozen, until `requireGrad()` or `lora` is called. */
  readonly model: AnyModule;
  /** Text to ids, and back. */
  readonly tokenizer: Tokenizer;
  readonly #encoder: Encoder;
  readonly #device: DeviceHandle;
  readonly #settings: Settings;

  private constructor(
    encoder: Encoder,
    tokenizer: Tokenizer,
    device: DeviceHandle,
    settings: Settings,
  ) {
    this.#settings = settings;
    this.model = this.#encoder = encoder;
    this.tokenizer = tokenizer;
    this.#device = device;
  }

  /**
   * Loads a model: a folder with config.json, safetensors and tokenizer.json, of bert, roberta, xlm-roberta
   * or distilbert. What sentence-transformers writes beside them says how texts become one vector.
   *
   * @param folder The folder.
   * @param options The type of the weights, the device, what makes one vector.
   * @throws {FileFormatError} When a file is missing or damaged, or its tensors are not those of the model.
   * @throws {TypeError} When the architecture is not known.
   */
  static async load(folder: string, options: LoadEmbedderOptions = {}): Promise<Embedder> {
    requireValue("load an embedder", "folder", folder, takes.path);
    checkOptions("load an embedder", options, rules);
    const config = await requiredJson(folder, "config.json");
    const tokenizer = await requiredJson(folder, "tokenizer.json");
    const settings = await readJson(`${folder}/tokenizer_config.json`) ?? {};
    const said = await settingsOf(folder), { pooling = said.pooling() } = options;
    const device = manager.resolve(options.device ?? manager.active);
    using file = await openWeights(folder);
    const reader = new SafetensorsWeights(
      file,
      device,
      weightForm(options.dtype ?? "float32", device, 0),
    );
    const encoder = await buildEncoder(config, reader);
    encoder.eval();
    // What cuts and pads texts stands in the file for others; here batches are made by length.
    const own = new Tokenizer({
      tokenizer: { ...tokenizer, truncation: null, padding: null },
      config: settings,
    });
    const { normalize = said.isNormalized } = options;
    const most = Math.min(said.most, encoder.contextLength);
    return new Embedder(encoder, own, device, { pooling, isNormalized: normalize, most });
  }

  /**
   * The vectors of texts; what is longer than the model's context, or than its makers
   * cut texts, is cut off.
   *
   * @param texts One or many.
   * @returns float32 of (texts, features).
   */
  async embed(texts: string | readonly string[]): Promise<Tensor> {
    const list = typeof texts === "string" ? [texts] : texts;
    requireValue("embed", "texts", list, takes.list);
    const ids = list.map((text) => this.#idsOf(text));
    const order = [...ids.keys()].sort((a, b) => ids[a]!.length - ids[b]!.length);
    const vectors: Float32Array[] = Array(list.length);
    for (let at = 0; at < order.length; at += BATCH) {
      const rows = order.slice(at, at + BATCH);
      using pooled = noGrad(() => this.forward(rows.map((row) => ids[row]!)));
      const values = await pooled.toHost("float32"), width = pooled.shape[1]!;
      rows.forEach((row, k) => vectors[row] = values.subarray(k * width, (k + 1) * width));
    }
    const width = vectors[0]?.length ?? 0, all = new Float32Array(list.length * width);
    vectors.forEach((vector, row) => all.set(vector, row * width));
    return Tensor.fromHost(all, { shape: [list.length, width], device: this.#device });
  }

  /**
   * The vectors of ids of texts, with gradients where the model learns.
   *
   * @param ids Those of each text; they may differ in length.
   * @returns (texts, features).
   */
  forward(ids: readonly (readonly number[])[]): Tensor {
    const length = Math.max(...ids.map((row) => row.length)), shape = [ids.length, length];
    const padded = new Int32Array(ids.length * length), isText = new Uint8Array(padded.length);
    ids.forEach((row, k) => {
      padded.set(row, k * length);
      isText.fill(1, k * length, k * length + row.length);
    });
    const device = this.#device;
    using given = Tensor.fromHost(padded, { shape, device });
    using marks = Tensor.fromHost(isText, { shape, device, dtype: "bool" });
    const vectors = this.#encoder.forward(given, marks).cast("float32");
    const pooled = pooledBy[this.#settings.pooling](vectors, marks);
    if (!this.#settings.isNormalized) return pooled;
    return pooled.div(pooled.norm(-1, { keepDims: true }).maximum(1e-12));
  }

  #idsOf(text: string): number[] {
    const ids = this.tokenizer.encode(text), { most } = this.#settings;
    // The last token ends the text: it stays.
    return ids.length <= most ? ids : [...ids.slice(0, most - 1), ids.at(-1)!];
  }

  /** Gives the memory of the weights back. */
  dispose(): void {
    this.#encoder.dispose();
  }

  /** {@linkcode Embedder.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** One vector of those of a text's tokens, (N, L, width). */
const pooledBy: Readonly<Record<Pooling, (vectors: Tensor, isText: Tensor) => Tensor>> = {
  first: (vectors) => vectors.slice(null, 0),
  mean: (vectors, isText) => {
    const counted = isText.cast("float32").unsqueeze(-1);
    return vectors.mul(counted).sum(1).div(counted.sum(1));
  },
  max: (vectors, isText) => vectors.maskedFill(isText.logicalNot().unsqueeze(-1), -Infinity).max(1),
};

/** Sentence-transformers' names of what makes one vector. */
const poolingModes: Readonly<Record<string, Pooling>> = {
  pooling_mode_cls_token: "first",
  pooling_mode_mean_tokens: "mean",
  pooling_mode_max_tokens: "max",
};

/** Parts of sentence-transformers' models that are read, by the end of their types. */
const readParts = ["Transformer", "Pooling", "Normalize"];

/** Settings from sentence-transformers' own files of a model. */
async function settingsOf(folder: string): Promise<{
  /** Throws where the model makes one vector in a way that is not read. */
  readonly pooling: () => Pooling;
  readonly isNormalized: boolean;
  readonly most: number;
}> {
  const config = await readJson(`${folder}/1_Pooling/config.json`) ?? {};
  const own = await readJson(`${folder}/sentence_bert_config.json`) ?? {};
  const modules = await readJson(`${folder}/modules.json`);
  const list = Array.isArray(modules) ? modules as { type?: unknown }[] : [];
  const parts = list.map(({ type }) => String(type).split(".").at(-1)!);
  const odd = parts.find((part) => !readParts.includes(part));
  if (odd !== undefined) {
    throw new TypeError(
      `Cannot load the embedder in "${folder}": its modules.json has a part ${shown(odd)}; netcl ` +
        `reads ${readParts.join(", ")}`,
    );
  }
  const modes = Object.entries(config).flatMap(([name, is]) =>
    name.startsWith("pooling_mode_") && is === true ? [name] : []
  );
  return {
    pooling: () => {
      const [mode = "pooling_mode_mean_tokens"] = modes;
      if (modes.length <= 1 && Object.hasOwn(poolingModes, mode)) return poolingModes[mode]!;
      throw new TypeError(
        `Cannot load the embedder in "${folder}": it makes one vector by ${modes.join(" and ")}; ` +
          `netcl reads ${Object.keys(poolingModes).join(", ")}: pass pooling to choose one`,
      );
    },
    isNormalized: parts.includes("Normalize"),
    most: new ConfigReader(own).optionalSize("max_seq_length") ?? Infinity,
  };
}
