import type { Tokenizer } from "./tokenizer.ts";

/** Replacement of bytes that are no letter, or not yet. */
const INCOMPLETE = "\ufffd";

/**
 * The text of tokens as they come: a letter of several tokens comes whole, and text that may be the
 * beginning of a stop is held back.
 */
export class TextPieces {
  readonly #tokenizer: Tokenizer;
  readonly #stops: readonly string[];
  /** Tokens from the last place where a letter ended, and one piece before it. */
  #ids: number[] = [];
  /** Number of these that have been told, and their text. */
  #told = 0;
  /** Text that waits for a stop to be complete, or to be none. */
  #held = "";
  #isStopped = false;

  constructor(tokenizer: Tokenizer, stops: readonly string[] = []) {
    this.#tokenizer = tokenizer;
    this.#stops = stops.filter((stop) => stop !== "");
  }

  /** True once a stop was there. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Takes the next token; gives back the text that is sure, maybe none. */
  add(id: number): string {
    this.#ids.push(id);
    const before = this.#text(this.#told), all = this.#text();
    if (all.endsWith(INCOMPLETE)) return "";
    // Spaces may depend on the token before: one piece of context stays.
    this.#ids = this.#ids.slice(this.#told);
    this.#told = this.#ids.length;
    return this.#released(all.slice(before.length), false);
  }

  /** Rest of the text when no token follows. */
  end(): string {
    const rest = this.#text().slice(this.#text(this.#told).length);
    this.#ids = [];
    this.#told = 0;
    return this.#released(rest, true);
  }

  #text(count?: number): string {
    return this.#tokenizer.decode(this.#ids.slice(0, count), { special: false });
  }

  #released(text: string, isLast: boolean): string {
    if (this.#isStopped) return "";
    const all = this.#held + text;
    const places = this.#stops.map((stop) => all.indexOf(stop)).filter((at) => at >= 0);
    if (places.length > 0) {
      this.#isStopped = true;
      return all.slice(0, Math.min(...places));
    }
    const keep = isLast ? 0 : Math.max(0, ...this.#stops.map((stop) => overlap(all, stop)));
    this.#held = all.slice(all.length - keep);
    return all.slice(0, all.length - keep);
  }
}

/** Length of a text's end that may be the beginning of a stop. */
function overlap(text: string, stop: string): number {
  for (let n = Math.min(stop.length - 1, text.length); n > 0; n--) {
    if (text.endsWith(stop.slice(0, n))) return n;
  }
  return 0;
}

/** The end of a text that a model wrote: what its iterator returns. */
export interface TextEnd {
  /** "length" where there was no room for another token, else "stop". */
  readonly reason: "stop" | "length";
  /** The number of tokens that were read. */
  readonly promptTokens: number;
  /** The number of tokens that were written, without the one that ends a text. */
  readonly newTokens: number;
}

/** The pieces of a text as a model writes them; who reads to the end gets why it ended. */
export interface TextStream extends AsyncGenerator<string, TextEnd, undefined> {
  /** Ends the writing. */
  return(end?: TextEnd | PromiseLike<TextEnd>): Promise<IteratorResult<string, TextEnd>>;
}

/** Facts about the writing of a text. */
interface Writing {
  readonly stops?: readonly string[] | undefined;
  readonly promptTokens: number;
  /** The number of tokens that may be written. */
  readonly room: number;
}

/** The text of ids as they come, up to a stop; see {@linkcode TextPieces}. */
export async function* piecesOf(
  tokenizer: Tokenizer,
  ids: AsyncIterable<number>,
  { stops, promptTokens, room }: Writing,
): TextStream {
  const pieces = new TextPieces(tokenizer, stops);
  let newTokens = 0;
  for await (const id of ids) {
    newTokens++;
    const text = pieces.add(id);
    if (text !== "") yield text;
    if (pieces.isStopped) return { reason: "stop", promptTokens, newTokens };
  }
  const rest = pieces.end();
  if (rest !== "") yield rest;
  const isFull = newTokens === room && !pieces.isStopped;
  return { reason: isFull ? "length" : "stop", promptTokens, newTokens };
}
