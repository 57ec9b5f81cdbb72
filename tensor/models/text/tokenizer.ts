/**
 * Text as tokens, and back. This folder (`text/`) has tokenizers and templates of chats: it alone imports
 * packages, two that have no dependencies of their own.
 */
import { Tokenizer as Implementation } from "npm:@huggingface/tokenizers@0.2.0";
import { FileFormatError, shown } from "../../io/core/file_format_error.ts";
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

/** Throws where words have no ids, which would be found with the first text only. */
function requireVocabulary({ model, added_tokens: added }: TokenizerFiles["tokenizer"]): void {
  const { vocab } = (model ?? {}) as { readonly vocab?: unknown };
  // A list of pieces with their scores has the ids by its order.
  const ids = Array.isArray(vocab) ? [] : Object.entries(vocab ?? {});
  const tokens = (Array.isArray(added) ? added : []) as { content?: unknown; id?: unknown }[];
  const all = [...ids, ...tokens.map((token) => [token?.content, token?.id] as const)];
  const odd = all.find(([word, id]) => typeof word !== "string" || !isId(id));
  if (typeof vocab === "object" && vocab && !odd) return;
  throw new FileFormatError(
    odd
      ? `Cannot read the tokenizer: its word ${shown(odd[0])} has the id ${shown(odd[1])}`
      : "Cannot read the tokenizer: it has no vocabulary",
  );
}

/** Runs the package, parts of which meet what is wrong in a file when a text comes to them. */
function asRead<T>(fn: () => T): T {
  try {
    return fn();
  } catch (error) {
    throw new FileFormatError(`Cannot read the tokenizer: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

const isId = (id: unknown): boolean => Number.isSafeInteger(id) && (id as number) >= 0;

/**
 * Cuts text into the tokens of a model.
 */
export class Tokenizer {
  readonly #implementation: Implementation;

  /**
   * Makes a tokenizer of the contents of its files.
   *
   * @throws {FileFormatError} When they are not those of a tokenizer.
   */
  constructor({ tokenizer, config }: TokenizerFiles) {
    requireVocabulary(tokenizer);
    this.#implementation = asRead(() => new Implementation(tokenizer, { ...config }));
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
    const { ids } = asRead(() =>
      this.#implementation.encode(text, { add_special_tokens: special })
    );
    // A letter that no token has, in a vocabulary without one for the unknown, is left out.
    return (ids as readonly (number | undefined)[]).filter((id) => id !== undefined);
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
    const how = { skip_special_tokens: !special, clean_up_tokenization_spaces: false };
    return asRead(() => this.#implementation.decode([...ids], how));
  }

  /** The id of a token, or null. */
  idOf(token: string): number | null {
    return this.#implementation.token_to_id(token) ?? null;
  }
}
