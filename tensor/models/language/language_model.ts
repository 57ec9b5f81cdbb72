/**
 * Language models as a whole. This folder (`language/`) has how they write: alone, in chats, side by side. It
 * imports decoders of `decoder/`, `weights/` and `text/`.
 */
import { type DeviceHandle, manager } from "../../../backend/internal.ts";
import {
  checkOptions,
  deviceChoice,
  requireValue,
  type Rules,
  takes,
} from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import type { AnyModule } from "../../nn/module/module.ts";
import { Group } from "../../distributed/group.ts";
import { splitOver, undivided } from "../../distributed/tensor_parallel/split_work.ts";
import {
  type ChatTemplate,
  type Message,
  messageList,
  type TemplateVariables,
} from "../text/chat_template.ts";
import { piecesOf, type TextStream } from "../text/text_pieces.ts";
import { Tokenizer } from "../text/tokenizer.ts";
import { architectureOf } from "./decoder/architectures/table.ts";
import { completeConfig, decoderConfig } from "./decoder/architectures/decoder_config.ts";
import { type Batch, type BatchModel, ModelBatch } from "./batch.ts";
import { buildDecoder } from "./decoder/build_decoder.ts";
import { CachedChat, type Chat, type ChatModel } from "./chat.ts";
import type { Decoder } from "./decoder/decoder.ts";
import { Generator } from "./generation.ts";
import { endsOf, openModel } from "./model_files.ts";
import { type Sampling, samplingRules } from "./sampling.ts";
import { TextBatch } from "./text_batch.ts";

/** Processes that share the work on a model: what `distributed.init()` returns. */
export interface ProcessGroup {
  /** This process's number, from 0. */
  readonly rank: number;
  /** Number of processes. */
  readonly size: number;
}

/** Options for loading a model. */
export interface LoadModelOptions {
  /**
   * The type that weights are held in, or "packed" for all as the file has it. By default blocks of GGUF files
   * stay as they are, and numbers, too; on processors these become float32, while that fits in 2 GiB.
   */
  dtype?: string;
  /** Its device; default the active device. */
  device?: string | DeviceHandle;
  /**
   * Ranks that hold the model together, for one that does not fit a device: each reads and keeps its part of
   * the heads, inner features and tokens. All ranks make the same calls, in the same order; what is
   * written is the same on all of them.
   */
  parallel?: ProcessGroup;
  /**
   * The type of what chats and texts have read: "int8" keeps a byte a number and a scale for each position of a
   * head, so that a long text takes 3.7 times less memory than in float32, of which each token reads all; answers
   * may differ in a word. By default numbers as the model computes with.
   */
  cache?: "int8";
}

/** Options of {@linkcode LanguageModel.batch}. */
export interface BatchOptions {
  /** The number of texts at once; others wait. Default 8. */
  texts?: number;
  /** Room for the tokens of a text, its prompt included; default 2048, or the model's context. */
  positions?: number;
}

const batchRules: Rules<BatchOptions> = { texts: takes.count, positions: takes.count };

const loadRules: Rules<LoadModelOptions> = {
  dtype: takes.oneOf("packed", "float32", "float16", "bfloat16"),
  device: deviceChoice,
  parallel: {
    takes: "a group, such as distributed.init() returns",
    accepts: (value: unknown) => value instanceof Group,
  },
  cache: takes.oneOf("int8"),
};

/**
 * A language model with its tokenizer: it writes text, answers in chats, and can be fine-tuned.
 *
 * @example A chat, and what it costs to go on
 * ```ts ignore
 * import { LanguageModel } from "@netcl/netcl/models";
 *
 * using lm = await LanguageModel.load("SmolLM2-135M-Instruct.Q4_1.gguf");
 * const question = [{ role: "user", content: "What is a tensor?" }];
 * for await (const piece of lm.generate(question, { maxTokens: 100 })) console.log(piece);
 * ```
 */
export class LanguageModel implements Disposable {
  /** The weights: frozen, until `requireGrad()` or `lora` is called. */
  readonly model: AnyModule;
  /** Text to ids, and back. */
  readonly tokenizer: Tokenizer;
  /** Number of positions the model was made for. */
  readonly contextLength: number;
  /** Options that its makers advise: those of generation_config.json, or of a GGUF file's header. */
  readonly advised: Readonly<Sampling>;
  readonly #decoder: Decoder;
  readonly #template: ChatTemplate | null;
  readonly #generator: Generator;

  private constructor(
    decoder: Decoder,
    tokenizer: Tokenizer,
    template: ChatTemplate | null,
    ends: ReadonlySet<number>,
    advised: Readonly<Sampling>,
  ) {
    this.advised = advised;
    this.model = this.#decoder = decoder;
    this.tokenizer = tokenizer;
    this.contextLength = decoder.config.contextLength;
    this.#template = template;
    this.#generator = new Generator(decoder, ends);
  }

  /**
   * Loads a model: a GGUF file, or a folder with config.json, safetensors and tokenizer.json, of one of some
   * 40 architectures: llama, mistral, mixtral, qwen, gemma, phi, granite, olmo, glm, cohere, falcon, gpt and their kin.
   * An error names all of them.
   *
   * @param path The file or folder.
   * @param options The type of the weights, the device, the ranks that share it.
   * @throws {RangeError} When the heads cannot be divided over so many ranks.
   * @throws {FileFormatError} When a file is damaged, or its tensors are not those of the model.
   * @throws {TypeError} When the architecture, or the kind of tokenizer, is not known.
   */
  static async load(path: string, options: LoadModelOptions = {}): Promise<LanguageModel> {
    requireValue("load a model", "path", path, takes.path);
    checkOptions("load a model", options, loadRules);
    using files = await openModel(path);
    const { isGguf } = files, row = architectureOf(files.config.model_type);
    // The header of a GGUF file leaves nothing out.
    const raw = isGguf ? files.config : completeConfig(row, files.config);
    const device = manager.resolve(options.device ?? manager.active);
    const reader = files.weights(device, options.dtype);
    const isTied = raw.tie_word_embeddings === true;
    const config = decoderConfig(row, raw);
    if (config.looksAhead) {
      throw new TypeError(
        `Cannot load the model in "${path}": it looks ahead, and so makes vectors, no text: ` +
          "Embedder.load reads it",
      );
    }
    const work = options.parallel ? splitOver(options.parallel as Group) : undivided;
    try {
      const decoder = await buildDecoder(row, config, reader, { device, isGguf, isTied, work });
      decoder.hasByteCache = options.cache === "int8";
      decoder.eval();
      const tokenizer = new Tokenizer(files.tokenizer);
      const { template, advised } = files;
      return new LanguageModel(decoder, tokenizer, template, endsOf(raw), advised);
    } catch (error) {
      work[Symbol.dispose]();
      throw error;
    }
  }

  /**
   * Logits of each token to come next.
   *
   * @param ids (N, L), whole numbers.
   * @returns (N, L, vocabulary).
   */
  forward(ids: Tensor): Tensor {
    return this.#decoder.forward(ids);
  }

  /**
   * The text of a chat as the model was taught to read it, up to where it answers.
   *
   * @param messages The turns so far.
   * @param variables What else the template reads, such as `tools`; see {@linkcode Sampling}.
   * @throws {TypeError} When the model has no template.
   */
  applyTemplate(messages: readonly Message[], variables: TemplateVariables = {}): string {
    requireValue("apply the template", "messages", messages, messageList);
    requireValue("apply the template", "variables", variables, takes.object("variables by name"));
    if (this.#template) return this.#template.render(messages, variables);
    throw new TypeError("Cannot apply the template: the model has none; pass text");
  }

  /**
   * The ids of a text, or of a chat by the model's template.
   *
   * @param prompt A text, or the messages of a chat.
   * @param variables What else the template reads.
   */
  encode(prompt: string | readonly Message[], variables: TemplateVariables = {}): number[] {
    if (typeof prompt === "string") return this.tokenizer.encode(prompt);
    return this.tokenizer.encode(this.applyTemplate(prompt, variables), { special: false });
  }

  /**
   * Writes on, piece by piece.
   *
   * @param prompt A text, or the messages of a chat.
   * @param options How tokens are chosen, and when it stops.
   * @returns Pieces; when they end, why, and the number of tokens.
   * @throws {RangeError} When the prompt fills the model's context.
   */
  generate(
    prompt: string | readonly Message[],
    options: Sampling = {},
  ): TextStream {
    checkOptions("generate", options, samplingRules);
    const read = this.encode(prompt, options.template), ids = this.generateIds(read, options);
    const room = this.#generator.roomFor(read.length, options);
    return piecesOf(this.tokenizer, ids, {
      stops: options.stop,
      promptTokens: read.length,
      room,
    });
  }

  /** The whole of what `generate` writes. */
  async generateText(prompt: string | readonly Message[], options: Sampling = {}): Promise<string> {
    return (await Array.fromAsync(this.generate(prompt, options))).join("");
  }

  /**
   * Writes on, token by token.
   *
   * @param prompt The ids to write behind, one at least.
   * @param options How tokens are chosen, and when it stops.
   */
  generateIds(
    prompt: readonly number[],
    options: Sampling = {},
  ): AsyncGenerator<number, void, undefined> {
    checkOptions("generate", options, samplingRules);
    this.#requireIds(prompt);
    return this.#write(prompt, this.#generator.roomFor(prompt.length, options), options);
  }

  async *#write(
    prompt: readonly number[],
    turns: number,
    options: Sampling,
  ): AsyncGenerator<number, void, undefined> {
    using session = this.#generator.session(prompt.length, turns);
    yield* this.#generator.writeOne(session, prompt, prompt, options);
  }

  /**
   * Writes behind several prompts side by side, which may differ in length. Where a model rotates the positions
   * of long texts in another way (Phi-3's "longrope"), all do so as soon as the longest does.
   *
   * @param prompts The ids of each, one at least.
   * @param options How tokens are chosen, and when it stops.
   * @returns The new ids of each.
   */
  async generateBatch(
    prompts: readonly (readonly number[])[],
    options: Sampling = {},
  ): Promise<number[][]> {
    checkOptions("generate", options, samplingRules);
    requireValue("generate", "prompts", prompts, takes.list);
    for (const ids of prompts) this.#requireIds(ids);
    if (prompts.length === 0) return [];
    const length = Math.max(...prompts.map((ids) => ids.length));
    const turns = this.#generator.roomFor(length, options);
    using session = this.#generator.session(length, turns, prompts.length);
    const out = prompts.map((): number[] => []), isDone = prompts.map(() => false);
    for await (const ids of this.#generator.write(session, prompts, prompts, options)) {
      for (const [k, id] of ids.entries()) {
        isDone[k] ||= !options.ignoreEnd && this.#generator.isEnd(id);
        if (!isDone[k]) out[k]!.push(id);
      }
      if (isDone.every(Boolean)) break;
    }
    return out;
  }

  /**
   * Begins a chat: what was said stays read, so that a turn costs what is new.
   *
   * @param messages What was said before, such as a system's message.
   */
  chat(messages: readonly Message[] = []): Chat {
    requireValue("begin a chat", "messages", messages, messageList);
    const encode: ChatModel["encode"] = (all, variables) => this.encode(all, variables);
    return new CachedChat(
      { encode, generator: this.#generator, tokenizer: this.tokenizer },
      messages,
    );
  }

  /**
   * Texts that are written side by side, each begun and ended by itself, as a server's are: a step reads the
   * weights once for all of them, and who comes while others are under way joins them.
   *
   * @param options The number of texts at once, and their room.
   * @throws {TypeError} For a model that several ranks hold: they could not agree on who comes when.
   * @example Two texts at once
   * ```ts ignore
   * using batch = lm.batch({ texts: 4 });
   * const options = { maxTokens: 50 };
   * const all = ["Once", "Twice"].map((text) => Array.fromAsync(batch.generate(text, options)));
   * for (const pieces of await Promise.all(all)) console.log(pieces.join(""));
   * ```
   */
  batch(options: BatchOptions = {}): Batch {
    checkOptions("write side by side", options, batchRules);
    if (this.#decoder.work.size > 1) {
      throw new TypeError(
        "Cannot write side by side with a model that several ranks hold: use generateBatch(), which all " +
          "ranks begin together",
      );
    }
    const { texts = 8, positions = Math.min(2048, this.contextLength) } = options;
    const rows = new TextBatch(this.#decoder, this.#generator.ends, texts, positions);
    const encode: BatchModel["encode"] = (prompt, variables) => {
      const ids = this.encode(prompt, variables);
      this.#requireIds(ids);
      return ids;
    };
    return new ModelBatch({ encode, rows, tokenizer: this.tokenizer });
  }

  #requireIds(ids: readonly number[]): void {
    requireValue("generate", "prompt", ids, takes.wholeNumbers);
    if (ids.length === 0) {
      throw new RangeError(
        "Cannot write behind no ids: pass one at least, such as that of a begin",
      );
    }
    const odd = ids.find((id) => id >= this.#decoder.config.vocabulary);
    if (odd === undefined) return;
    throw new RangeError(
      `Cannot write behind the id ${odd}: the model knows ${this.#decoder.config.vocabulary} tokens`,
    );
  }

  /** Gives the memory of the weights back. */
  dispose(): void {
    this.#generator[Symbol.dispose]();
    this.#decoder.dispose();
  }

  /** {@linkcode LanguageModel.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}
