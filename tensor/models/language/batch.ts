import { checkOptions } from "../../core/rules/options.ts";
import type { Message, TemplateVariables } from "../text/chat_template.ts";
import { piecesOf, type TextStream } from "../text/text_pieces.ts";
import type { Tokenizer } from "../text/tokenizer.ts";
import { type Sampling, samplingRules } from "./sampling.ts";
import type { TextBatch } from "./text_batch.ts";

/** Texts that are written side by side. */
export interface Batch extends Disposable {
  /** The number of texts under way. */
  readonly active: number;
  /**
   * Writes on, piece by piece, beside the other texts; see {@linkcode LanguageModel.generate}.
   *
   * @param prompt A text, or the messages of a chat.
   * @param options The choice of tokens, and when it stops.
   * @returns Pieces; when they end, why, and the number of tokens.
   * @throws {RangeError} When the prompt fills the room of a text.
   */
  generate(
    prompt: string | readonly Message[],
    options?: Sampling,
  ): TextStream;
}

/** A batch's needs of a model. */
export interface BatchModel {
  readonly encode: (
    prompt: string | readonly Message[],
    variables: TemplateVariables | undefined,
  ) => number[];
  readonly rows: TextBatch;
  readonly tokenizer: Tokenizer;
}

/** Texts of one model. */
export class ModelBatch implements Batch {
  readonly #model: BatchModel;

  constructor(model: BatchModel) {
    this.#model = model;
  }

  get active(): number {
    return this.#model.rows.active;
  }

  generate(
    prompt: string | readonly Message[],
    options: Sampling = {},
  ): TextStream {
    checkOptions("generate", options, samplingRules);
    const { encode, rows, tokenizer } = this.#model;
    const ids = encode(prompt, options.template), room = rows.roomFor(ids.length, options);
    const writing = { stops: options.stop, promptTokens: ids.length, room };
    return piecesOf(tokenizer, rows.write(ids, options), writing);
  }

  /** Ends all texts, and gives the memory back. */
  [Symbol.dispose](): void {
    this.#model.rows[Symbol.dispose]();
  }
}
