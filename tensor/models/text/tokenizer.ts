/**
 * Text as tokens, and back. This folder (`text/`) has tokenizers and templates of chats: it alone imports
 * packages, two that have no dependencies of their own.
 */
import { Tokenizer as Implementation } from "npm:@huggingface/tokenizers@0.2.0";
import { checkOptions, requireValue, type Rules, takes } from "../../core/rules/options.ts";

/** Files of a tokenizer: the contents of tokenizer.json, and of tokenizer_config.json. */
export interface TokenizerFiles {
  /** tokenizer.json. */
  readonly tokenizer: Readonly<Record<string, unknown>>;
  /** tokenizer_config.json; may be empty. */
  readonly config: Readonly<Record<string, unknown>>;
}

/** Options for tokens that are no text. */
export interface SpecialTokenOptions {
  /** False to leave them out; default true. */
  special?: boolean;
}

const rules: Rules<SpecialTokenOptions> = { special: takes.bool };

/**
 * Cuts text into the tokens of a model.
 */
export class Tokenizer {
  readonly #implementation: Implementation;

  /** Makes a tokenizer of the contents of its files. */
  constructor({ tokenizer, config }: TokenizerFiles) {
    this.#implementation = new Implementation(tokenizer, { ...config });
  }

  /**
   * The ids of a text.
   *
   * @param text Any text; the names of special tokens in it are those tokens.
   * @param options `special: false` leaves out what the model wants around a text.
   */
  encode(text: string, options: SpecialTokenOptions = {}): number[] {
    requireValue("encode", "text", text, takes.text);
    checkOptions("encode", options, rules);
    const { special = true } = options;
    return [...this.#implementation.encode(text, { add_special_tokens: special }).ids];
  }

  /**
   * The text of ids.
   *
   * @param ids Whole numbers.
   * @param options `special: false` leaves special tokens out.
   */
  decode(ids: readonly number[], options: SpecialTokenOptions = {}): string {
    requireValue("decode", "ids", ids, takes.wholeNumbers);
    checkOptions("decode", options, rules);
    const { special = true } = options;
    if (ids.length === 0) return "";
    return this.#implementation.decode([...ids], {
      skip_special_tokens: !special,
      clean_up_tokenization_spaces: false,
    });
  }

  /** The id of a token, or null. */
  idOf(token: string): number | null {
    return this.#implementation.token_to_id(token) ?? null;
  }
}
