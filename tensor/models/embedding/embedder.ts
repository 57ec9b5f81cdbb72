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
import { undivided } from "../../distributed/tensor_parallel/split_work.ts";
import { completeConfig, decoderConfig } from "../language/decoder/architectures/decoder_config.ts";
import { architectures } from "../language/decoder/architectures/table.ts";
import { buildDecoder } from "../language/decoder/build_decoder.ts";
import { Tokenizer } from "../text/tokenizer.ts";
import type { WeightReader } from "../weights/weight_reader.ts";
import { buildEncoder } from "./build_encoder.ts";
import { type EmbedderFiles, openEmbedder } from "./embedder_files.ts";
import { pooled, type Pooling, poolings } from "./pooling.ts";
import { type DenseLayer, readDense } from "./sentence_files.ts";

/** Options for loading a model of vectors. */
export interface LoadEmbedderOptions {
  /** The type that weights are held in, or "packed" for all as the file has it; default float32. */
  dtype?: string;
  /** Its device; default the active device. */
  device?: string | DeviceHandle;
  /**
   * Reduction of a text's token vectors to one: their "mean", "max", sum by the "root" of their number, mean
   * "weighted" by place, the "first" or the "last"; default as the files say it, else "mean".
   */
  pooling?: Pooling;
  /** True for vectors of length 1; default as the folder says it, true for GGUF files. */
  normalize?: boolean;
}

const rules: Rules<LoadEmbedderOptions> = {
  dtype: takes.oneOf("packed", "float32", "float16", "bfloat16"),
  device: deviceChoice,
  pooling: takes.oneOf(...poolings),
  normalize: takes.bool,
};

/** Choices that make one vector of a text, and of how many tokens at most. */
interface Settings {
  readonly pooling: readonly Pooling[];
  readonly dense: readonly DenseLayer[];
  readonly isNormalized: boolean;
  readonly most: number;
  /** The text as the model reads it. */
  readonly given: (text: string) => string;
}

/** A model of vectors of tokens. */
interface TextEncoder {
  readonly model: AnyModule;
  readonly contextLength: number;
  /** (N, L) and bool of (N, L), false for padding behind texts, give (N, L, width). */
  readonly forward: (ids: Tensor, isText: Tensor) => Tensor;
}

/** An encoder, or a decoder, in which nobody looks at padding behind a text either. */
async function textEncoder(
  { config, isGguf }: EmbedderFiles,
  reader: WeightReader,
  device: DeviceHandle,
): Promise<TextEncoder> {
  const type = String(config.model_type);
  const row = Object.values(architectures).find(({ types }) => types.includes(type));
  if (!row) {
    const model = await buildEncoder(config, reader, isGguf);
    return {
      model,
      contextLength: model.contextLength,
      forward: (ids, isText) => model.forward(ids, isText),
    };
  }
  // The header of a GGUF file leaves nothing out.
  const raw = isGguf ? config : completeConfig(row, config);
  const isTied = !reader.has(isGguf ? "output.weight" : `${row.outer.head}.weight`);
  const options = { device, isGguf, isTied, work: undivided };
  const model = await buildDecoder(row, decoderConfig(row, raw), reader, options);
  const { contextLength } = model.config;
  return { model, contextLength, forward: (ids, isText) => model.encode(ids, isText) };
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
  readonly #encoder: TextEncoder;
  readonly #device: DeviceHandle;
  readonly #settings: Settings;

  private constructor(
    encoder: TextEncoder,
    tokenizer: Tokenizer,
    device: DeviceHandle,
    settings: Settings,
  ) {
    this.#settings = settings;
    this.#encoder = encoder;
    this.model = encoder.model;
    this.tokenizer = tokenizer;
    this.#device = device;
  }

  /**
   * Loads a model: a folder with config.json, safetensors and tokenizer.json, of bert, roberta, xlm-roberta,
   * camembert, electra, distilbert, mpnet, albert, nomic_bert or modernbert, or a GGUF file of bert, nomic-bert or
   * modern-bert, or either of an architecture of `LanguageModel`. How texts become one vector stands in
   * what sentence-transformers writes beside a folder's model, and in a GGUF file's header.
   *
   * @param path The folder or file.
   * @param options The type of the weights, the device, what makes one vector.
   * @throws {FileFormatError} When a file is missing or damaged, or its tensors are not those of the model.
   * @throws {TypeError} When the architecture is not known.
   */
  static async load(path: string, options: LoadEmbedderOptions = {}): Promise<Embedder> {
    requireValue("load an embedder", "path", path, takes.path);
    checkOptions("load an embedder", options, rules);
    using files = await openEmbedder(path);
    const { said } = files;
    const pooling = options.pooling ? [options.pooling] : said.pooling();
    const device = manager.resolve(options.device ?? manager.active);
    const reader = files.weights(device, options.dtype ?? "float32");
    const encoder = await textEncoder(files, reader, device);
    encoder.model.eval();
    const dense = await Promise.all(said.dense.map((path) => readDense(path, device)));
    const own = new Tokenizer(files.tokenizer);
    const given = (text: string) => said.prompt + (said.isLower ? text.toLowerCase() : text);
    const { normalize: isNormalized = said.isNormalized } = options;
    const most = Math.min(said.most, encoder.contextLength);
    return new Embedder(encoder, own, device, { pooling, dense, isNormalized, most, given });
  }

  /**
   * The vectors of texts. A text of more tokens than the model has positions for, or than its makers
   * advise, is cut off there.
   *
   * @param texts One or many.
   * @returns float32 of (texts, features).
   * @throws {RangeError} When the tokenizer has no token for one, such as an empty text.
   */
  async embed(texts: string | readonly string[]): Promise<Tensor> {
    const list = typeof texts === "string" ? [texts] : texts;
    requireValue("embed", "texts", list, takes.list);
    const ids = list.map((text) => this.#idsOf(text));
    requireTokens(ids);
    const order = [...ids.keys()].sort((a, b) => ids[a]!.length - ids[b]!.length);
    const vectors: Float32Array[] = Array(list.length);
    for (let at = 0; at < order.length; at += BATCH) {
      const rows = order.slice(at, at + BATCH);
      using own = noGrad(() => this.forward(rows.map((row) => ids[row]!)));
      const values = await own.toHost("float32"), width = own.shape[1]!;
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
   * @throws {RangeError} When a text has none: it has no vector.
   */
  forward(ids: readonly (readonly number[])[]): Tensor {
    requireTokens(ids);
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
    const { pooling, dense, isNormalized } = this.#settings;
    const one = dense.reduce(
      (x, { projection, activation }) => activation(projection.forward(x)),
      pooled(vectors, marks, pooling),
    );
    return isNormalized ? one.div(one.norm(-1, { keepDims: true }).maximum(1e-12)) : one;
  }

  #idsOf(text: string): number[] {
    const { most, given } = this.#settings, ids = this.tokenizer.encode(given(text));
    if (ids.length <= most) return ids;
    // A token that ends every text stays.
    const end = this.tokenizer.encode("").at(-1);
    return end === ids.at(-1) ? [...ids.slice(0, most - 1), end!] : ids.slice(0, most);
  }

  /** Gives the memory of the weights back. */
  dispose(): void {
    this.model.dispose();
    for (const { projection } of this.#settings.dense) projection.dispose();
  }

  /** {@linkcode Embedder.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

function requireTokens(ids: readonly (readonly number[])[]): void {
  const empty = ids.findIndex((row) => row.length === 0);
  if (empty < 0) return;
  throw new RangeError(
    `Cannot embed text ${empty}: it has no tokens, and so no vector; leave it out`,
  );
}
