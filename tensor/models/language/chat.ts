import { checkOptions, requireValue, takes } from "../../core/rules/options.ts";
import type { Message, TemplateVariables } from "../text/chat_template.ts";
import { piecesOf, type TextStream } from "../text/text_pieces.ts";
import type { Tokenizer } from "../text/tokenizer.ts";
import type { Generator, Session } from "./generation.ts";
import { type Sampling, samplingRules } from "./sampling.ts";

/**
 * A chat with a model: what both have read stays in the cache, and a turn reads what is new.
 *
 * @example
 * ```ts ignore
 * import { LanguageModel } from "@netcl/netcl/models";
 *
 * using lm = await LanguageModel.load("model.gguf");
 * using chat = lm.chat([{ role: "system", content: "You answer in one sentence." }]);
 * for await (const piece of chat.send("What is a tensor?")) console.log(piece);
 * for await (const piece of chat.send("And a matrix?")) console.log(piece);
 * ```
 */
export interface Chat extends Disposable {
  /** Messages so far. */
  readonly messages: readonly Message[];
  /** Number of positions that have been read and are kept. */
  readonly length: number;
  /**
   * Says something; gives the answer piece by piece. An answer that is aborted stays as far as it came; a
   * question that is refused, since the context has no room for it, is as if it had not been asked.
   *
   * @param content What the user says.
   * @param options How tokens are chosen, and when it stops.
   * @returns Pieces; when they end, why, and the number of tokens.
   */
  send(content: string, options?: Sampling): TextStream;
  /**
   * Forgets positions from `length` on: the next turn reads them again.
   *
   * @throws {RangeError} When not as many are kept.
   */
  truncate(length: number): void;
}

/** A chat's needs of a model. */
export interface ChatModel {
  readonly encode: (
    messages: readonly Message[],
    variables: TemplateVariables | undefined,
  ) => number[];
  readonly generator: Generator;
  readonly tokenizer: Tokenizer;
}

/** Gives pieces on, and notes each. */
async function* noted(
  pieces: TextStream,
  note: (piece: string) => void,
): TextStream {
  try {
    for (;;) {
      const { done, value } = await pieces.next();
      if (done) return value;
      note(value);
      yield value;
    }
  } finally {
    // Who stops reading ends the writing.
    await pieces.return();
  }
}

/** A chat whose positions stay in a cache. */
export class CachedChat implements Chat {
  readonly #model: ChatModel;
  readonly #messages: Message[];
  #session: Session | null = null;
  #isAnswering = false;

  constructor(model: ChatModel, messages: readonly Message[]) {
    this.#model = model;
    this.#messages = messages.map((message) => ({ ...message }));
  }

  get messages(): readonly Message[] {
    return this.#messages;
  }

  get length(): number {
    return this.#session?.ids.length ?? 0;
  }

  send(content: string, options: Sampling = {}): TextStream {
    checkOptions("chat", options, samplingRules);
    requireValue("chat", "content", content, takes.text);
    return this.#answer(content, options);
  }

  async *#answer(content: string, options: Sampling): TextStream {
    if (this.#isAnswering) {
      throw new TypeError("Cannot send to a chat that answers: read the answer to its end first");
    }
    const question = { role: "user", content };
    const all = this.#model.encode([...this.#messages, question], options.template);
    // A question that is refused is none of the chat's.
    const room = this.#model.generator.roomFor(all.length, options);
    options.signal?.throwIfAborted();
    this.#messages.push(question);
    this.#isAnswering = true;
    const session = this.#session ??= this.#model.generator.session(all.length, 0);
    // What was read and is the same stays; the last position is read again, for what follows it.
    let same = 0;
    while (same < all.length - 1 && session.ids[same] === all[same]) same++;
    session.cache.truncate(same);
    session.ids = [...all];
    let answer = "";
    try {
      const ids = this.#noted(session, all.slice(same), all, options);
      const writing = { stops: options.stop, promptTokens: all.length, room };
      const pieces = piecesOf(this.#model.tokenizer, ids, writing);
      return yield* noted(pieces, (piece) => answer += piece);
    } finally {
      this.#messages.push({ role: "assistant", content: answer });
      // The last token, and one that was computed ahead, may or may not have been read.
      const { cache } = session, known = Math.min(cache.length, session.ids.length);
      cache.truncate(known);
      session.ids = session.ids.slice(0, known);
      this.#isAnswering = false;
    }
  }

  /** Notes what is written, for the next turn. */
  async *#noted(
    session: Session,
    fresh: readonly number[],
    all: readonly number[],
    options: Sampling,
  ): AsyncGenerator<number> {
    for await (const id of this.#model.generator.writeOne(session, fresh, all, options)) {
      session.ids.push(id);
      yield id;
    }
  }

  truncate(length: number): void {
    if (!Number.isInteger(length) || length < 0 || length > this.length) {
      throw new RangeError(`Cannot truncate a chat of ${this.length} positions to ${length}`);
    }
    if (!this.#session) return;
    this.#session.cache.truncate(length);
    this.#session.ids = this.#session.ids.slice(0, length);
  }

  /** Gives the memory back. */
  [Symbol.dispose](): void {
    this.#session?.[Symbol.dispose]();
    this.#session = null;
  }
}
