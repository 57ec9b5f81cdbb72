/** Texts side by side, of which each begins and ends when it likes: a step reads the weights once for all. */
import { compileRepeatable, type Repeatable } from "../../compile/compile.ts";
import { noGrad } from "../../core/modes/grad_mode.ts";
import { calledByUser, tidily } from "../../core/modes/temporaries.ts";
import { act } from "../../core/operations.ts";
import { exposed } from "../../core/internals.ts";
import { Tensor } from "../../class/tensor.ts";
import { writeRows } from "../../execution/assignment.ts";
import type { Decoder } from "./decoder/decoder.ts";
import type { DecoderCache } from "./decoder/decoder_cache.ts";
import { chooseNext, SamplerState, type Sampling } from "./sampling.ts";

/** A text under way: what was chosen and not fetched yet, and how to choose. */
class Text implements Disposable {
  readonly ids: number[];
  readonly options: Sampling;
  readonly sampler: SamplerState;
  /** The number of tokens that may still be chosen. */
  left: number;
  /** Nobody wants more of it. */
  isOver = false;
  /** Its choice from the scores of all rows, which goes to its row of the ids; null before it has a row. */
  choose: Repeatable<[scores: Tensor, ids: Tensor, held: readonly Tensor[]], void> | null = null;
  /** The place of its row in the ids, int32 of (1, 1). */
  at: Tensor | null = null;
  readonly #chosen: number[] = [];
  #error: { readonly reason: unknown } | null = null;
  #wake: () => void = () => {};

  constructor(prompt: readonly number[], options: Sampling, turns: number, decoder: Decoder) {
    this.ids = [...prompt];
    this.options = options;
    this.left = turns;
    const { config, device } = decoder;
    this.sampler = new SamplerState([prompt], turns, config.vocabulary, options, device);
  }

  /** Notes the next token; the last one ends the text. */
  give(id: number, isEnd: boolean): void {
    this.ids.push(id);
    if (!isEnd) this.#chosen.push(id);
    if (isEnd || --this.left === 0) this.isOver = true;
    this.#wake();
  }

  fail(reason: unknown): void {
    this.#error ??= { reason };
    this.isOver = true;
    this.#wake();
  }

  /** The tokens as they come. */
  async *tokens(): AsyncGenerator<number, void, undefined> {
    for (;;) {
      while (this.#chosen.length > 0) {
        this.options.signal?.throwIfAborted();
        yield this.#chosen.shift()!;
      }
      if (this.#error) throw this.#error.reason;
      this.options.signal?.throwIfAborted();
      if (this.isOver) return;
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }

  [Symbol.dispose](): void {
    this.sampler[Symbol.dispose]();
    this.choose?.[Symbol.dispose]();
    this.at?.dispose();
  }
}

/** Writes several texts at once: who comes takes a free row, and waits where there is none. */
export class TextBatch implements Disposable {
  readonly #decoder: Decoder;
  readonly #ends: ReadonlySet<number>;
  readonly #cache: DecoderCache;
  /** The last token of each row, int32 of (N, 1). */
  readonly #ids: Tensor;
  readonly #rows: (Text | null)[];
  readonly #waiting: Text[] = [];
  readonly #step: Repeatable<[ids: Tensor, held: readonly Tensor[]], Tensor>;
  /** True where the rows have changed since the last step: it asks the model. */
  #isNew = true;
  #isRunning = false;
  #isDisposed = false;

  /**
   * @param decoder The model.
   * @param ends The tokens that end a text.
   * @param rows The number of texts at once.
   * @param positions Room for so many tokens of each, its prompt included.
   */
  constructor(decoder: Decoder, ends: ReadonlySet<number>, rows: number, positions: number) {
    this.#decoder = decoder;
    this.#ends = ends;
    this.#cache = decoder.makeCache(rows, Math.min(positions, decoder.config.contextLength));
    this.#ids = Tensor.zeros([rows, 1], { dtype: "int32", device: decoder.device }).realize();
    this.#rows = Array(rows).fill(null);
    for (let row = 0; row < rows; row++) this.#cache.rest(row);
    this.#step = compileRepeatable((ids: Tensor, _held: readonly Tensor[]) =>
      tidily(() =>
        exposed(decoder.logits(decoder.hidden(ids, this.#cache).slice(null, -1)).cast("float32"))
      )
    );
  }

  /** The number of texts under way. */
  get active(): number {
    return this.#rows.filter((text) => text !== null).length;
  }

  /**
   * Number of tokens that may follow so many, at most.
   *
   * @throws {RangeError} When there is no room behind them.
   */
  roomFor(length: number, { maxTokens = Infinity }: Sampling): number {
    const room = this.#cache.capacity - length;
    if (room > 0) return Math.min(maxTokens, room);
    throw new RangeError(
      `Cannot write behind ${length} tokens: a text of this batch has room for ` +
        `${this.#cache.capacity}`,
    );
  }

  /**
   * Writes behind a prompt, beside the other texts.
   *
   * @throws {RangeError} When there is no room behind the prompt.
   */
  write(
    prompt: readonly number[],
    options: Sampling,
  ): AsyncGenerator<number, void, undefined> {
    const room = this.roomFor(prompt.length, options);
    if (this.#isDisposed) throw new TypeError("Cannot write with a batch that was disposed of");
    return this.#write(prompt, options, room);
  }

  async *#write(
    prompt: readonly number[],
    options: Sampling,
    turns: number,
  ): AsyncGenerator<number, void, undefined> {
    options.signal?.throwIfAborted();
    const text = new Text(prompt, options, turns, this.#decoder);
    this.#waiting.push(text);
    this.#begin();
    try {
      yield* text.tokens();
    } finally {
      text.isOver = true;
    }
  }

  #begin(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    // Errors go to who reads the texts.
    void this.#run();
  }

  async #run(): Promise<void> {
    try {
      while (await this.#admit()) await this.#turn();
    } catch (error) {
      for (const text of [...this.#rows, ...this.#waiting.splice(0)]) text?.fail(error);
      this.#rows.forEach((_, row) => this.#free(row));
    } finally {
      this.#isRunning = false;
    }
  }

  /** Gives rows to those who wait; false where there is nothing to do. */
  async #admit(): Promise<boolean> {
    this.#rows.forEach((text, row) => text?.options.signal?.aborted && this.#free(row));
    for (let row = 0; row < this.#rows.length && this.#waiting.length > 0; row++) {
      if (this.#rows[row] !== null) continue;
      const text = this.#waiting.shift()!;
      if (text.isOver || text.options.signal?.aborted) {
        text.fail(text.options.signal?.reason);
        text[Symbol.dispose]();
        row--;
      } else await this.#read(text, row);
    }
    return !this.#isDisposed && this.active + this.#waiting.length > 0;
  }

  /** Reads a prompt by itself, and puts it in a row. */
  async #read(text: Text, row: number): Promise<void> {
    this.#rows[row] = text;
    this.#isNew = true;
    const { ids } = text, decoder = this.#decoder, { device } = decoder;
    const at = text.at = Tensor.fromHost(Int32Array.of(row), { shape: [1, 1], device });
    using alone = decoder.makeCache(1, this.#cache.capacity);
    tidily(() => {
      using given = Tensor.fromHost(Int32Array.from(ids), { shape: [1, ids.length], device });
      using counts = Tensor.full([1], ids.length, { dtype: "int32", device });
      using scores = decoder.logits(decoder.hidden(given, alone, counts).slice(null, -1));
      this.#choose(text, at, scores);
      this.#ids.realize();
    });
    alone.advance([ids.length]);
    this.#cache.place(row, alone);
    text.choose = compileRepeatable((scores: Tensor) =>
      tidily(() => this.#choose(text, at, scores.slice([row, row + 1])))
    );
    this.#give(await this.#ids.toHost("int32"), [row]);
  }

  /** Chooses a text's next token, and puts it where the next step reads it. */
  #choose({ options, sampler, ids }: Text, at: Tensor, scores: Tensor): void {
    const changed = calledByUser(() => options.logits?.(exposed(scores), [ids])) ?? scores;
    using next = chooseNext(changed, sampler, options);
    act("assign", writeRows, this.#ids, 0, at, next);
  }

  /** One token for each text. */
  async #turn(): Promise<void> {
    const rows = this.#rows.flatMap((text, row) => text ? [row] : []);
    if (rows.length === 0) return;
    const step = this.#isNew ? this.#step.call : this.#step.again;
    this.#isNew = false;
    noGrad(() => {
      using scores = step(this.#ids, this.#cache.tensors);
      for (const row of rows) {
        const { choose, sampler, options } = this.#rows[row]!;
        const next = options.logits ? choose!.call : choose!.again;
        next(scores, this.#ids, sampler.tensors);
      }
      this.#ids.realize();
    });
    this.#cache.advance();
    this.#give(await this.#ids.toHost("int32"), rows);
  }

  /** Hands tokens out; a text that is through gives its row back. */
  #give(ids: Int32Array, rows: readonly number[]): void {
    for (const row of rows) {
      const text = this.#rows[row], id = ids[row]!;
      // The batch may have been disposed of meanwhile.
      if (!text) continue;
      if (!text.isOver) text.give(id, !text.options.ignoreEnd && this.#ends.has(id));
      if (text.isOver) this.#free(row);
    }
  }

  #free(row: number): void {
    const text = this.#rows[row];
    if (!text) return;
    if (!text.isOver) text.fail(text.options.signal?.reason);
    this.#rows[row] = null;
    text[Symbol.dispose]();
    if (!this.#isDisposed) this.#cache.rest(row);
  }

  /** Ends all texts, and gives the memory back. */
  [Symbol.dispose](): void {
    const reason = new TypeError("Cannot write on: the batch was disposed of");
    this.#isDisposed = true;
    for (const text of [...this.#rows, ...this.#waiting.splice(0)]) text?.fail(reason);
    this.#rows.forEach((_, row) => this.#free(row));
    this.#step[Symbol.dispose]();
    this.#cache[Symbol.dispose]();
    this.#ids.dispose();
  }
}
