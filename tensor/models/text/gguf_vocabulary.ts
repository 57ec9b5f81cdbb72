/** Vocabularies of GGUF files as the contents of tokenizer.json. */
import type { GgufValue } from "../../io/gguf/gguf_format.ts";
import { type TextCut, textCutOf, textCuts } from "./gguf_cuts.ts";
import type { TokenizerFiles } from "./tokenizer.ts";

type Json = Readonly<Record<string, unknown>>;
type Metadata = Readonly<Record<string, GgufValue>>;

/** The types of tokens. */
const UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4;

/** Bytes as letters, behind cuts. */
const byteLevel: Json = {
  type: "ByteLevel",
  add_prefix_space: false,
  trim_offsets: true,
  use_regex: false,
};

/** Data read of a header. */
interface Vocabulary {
  readonly tokens: readonly string[];
  readonly types: readonly number[];
  readonly metadata: Metadata;
}

/** The cut that a header names. */
function cutOf(metadata: Metadata): TextCut {
  const pre = String(metadata["tokenizer.ggml.pre"] ?? "default"), found = textCutOf(pre);
  if (found) return found;
  throw new TypeError(
    `Cannot make a tokenizer of the kind "${pre}": netcl knows ${
      textCuts.flatMap(({ names }) => names).join(", ")
    }; load the model from a folder with its tokenizer.json`,
  );
}

function byteLevelFiles({ tokens, metadata }: Vocabulary): Json {
  const { names, expressions, hasWholeWords = false } = cutOf(metadata);
  const splits = expressions.map((Regex) => ({
    type: "Split",
    pattern: { Regex },
    behavior: "Isolated",
    invert: false,
  }));
  return {
    normalizer: names.includes("qwen2") ? { type: "NFC" } : null,
    pre_tokenizer: { type: "Sequence", pretokenizers: [...splits, byteLevel] },
    decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: "BPE",
      vocab: vocabularyOf(tokens),
      merges: metadata["tokenizer.ggml.merges"],
      ignore_merges: hasWholeWords,
    },
  };
}

/** SentencePiece's BPE: pairs merge into the piece with the highest score. */
function piecesFiles({ tokens, types, metadata }: Vocabulary): Json {
  const hasPrefix = metadata["tokenizer.ggml.add_space_prefix"] !== false;
  const scores = metadata["tokenizer.ggml.scores"] as readonly number[];
  const replace = (from: string, to: string): Json => ({
    type: "Replace",
    pattern: { String: from },
    content: to,
  });
  const spaces = replace(" ", "▁");
  const decoders = [replace("▁", " "), { type: "ByteFallback" }, { type: "Fuse" }];
  const strip = { type: "Strip", content: " ", start: 1, stop: 0 };
  return {
    normalizer: hasPrefix
      ? { type: "Sequence", normalizers: [{ type: "Prepend", prepend: "▁" }, spaces] }
      : spaces,
    pre_tokenizer: null,
    decoder: { type: "Sequence", decoders: hasPrefix ? [...decoders, strip] : decoders },
    model: {
      type: "BPE",
      unk_token: tokens[types.indexOf(UNKNOWN)] ?? null,
      fuse_unk: true,
      byte_fallback: true,
      vocab: vocabularyOf(tokens),
      merges: mergesOf(tokens, scores),
    },
  };
}

const SPACE = "▁";

/** BERT's WordPiece. Files mark the beginning of a word, tokenizer.json what goes on with it. */
function wordPieceFiles({ tokens, metadata }: Vocabulary): Json {
  const isLower = metadata["tokenizer.ggml.normalizer.lowercase"] !== false;
  const marked = (token: string): string => {
    if (token.startsWith(SPACE)) return token.slice(1);
    return token.startsWith("[") && token.endsWith("]") ? token : `##${token}`;
  };
  return {
    normalizer: {
      type: "BertNormalizer",
      clean_text: true,
      handle_chinese_chars: true,
      strip_accents: metadata["tokenizer.ggml.normalizer.strip_accents"] ?? isLower,
      lowercase: isLower,
    },
    pre_tokenizer: { type: "BertPreTokenizer" },
    decoder: { type: "WordPiece", prefix: "##", cleanup: true },
    model: {
      type: "WordPiece",
      unk_token: tokens[metadata["tokenizer.ggml.unknown_token_id"] as number ?? 100],
      continuing_subword_prefix: "##",
      max_input_chars_per_word: 100,
      vocab: vocabularyOf(tokens.map(marked)),
    },
  };
}

/** SentencePiece's unigrams: the pieces of a text whose scores have the largest sum. */
function unigramFiles({ tokens, metadata }: Vocabulary): Json {
  const scores = metadata["tokenizer.ggml.scores"] as readonly number[];
  const map = metadata["tokenizer.ggml.precompiled_charsmap"] as readonly number[] | undefined;
  const single = { type: "Replace", pattern: { Regex: " {2,}" }, content: " " };
  const isSingle = metadata["tokenizer.ggml.remove_extra_whitespaces"] === true;
  const strip = { type: "Strip", strip_left: true, strip_right: true };
  const hasPrefix = metadata["tokenizer.ggml.add_space_prefix"] !== false;
  const spaces = {
    type: "Metaspace",
    replacement: SPACE,
    prepend_scheme: hasPrefix ? "always" : "never",
    split: true,
  };
  const charmap = map && { type: "Precompiled", precompiled_charsmap: base64Of(map) };
  const normalizers = [...charmap ? [charmap] : [], ...isSingle ? [single, strip] : []];
  return {
    normalizer: { type: "Sequence", normalizers },
    pre_tokenizer: spaces,
    decoder: spaces,
    model: {
      type: "Unigram",
      unk_id: metadata["tokenizer.ggml.unknown_token_id"] ?? null,
      vocab: tokens.map((token, id) => [token, scores[id]]),
    },
  };
}

function base64Of(bytes: readonly number[]): string {
  return Uint8Array.from(bytes).toBase64();
}

const kinds: Readonly<Record<string, (vocabulary: Vocabulary) => Json>> = {
  gpt2: byteLevelFiles,
  llama: piecesFiles,
  bert: wordPieceFiles,
  t5: unigramFiles,
};

/** The ids by token. */
function vocabularyOf(tokens: readonly string[]): Record<string, number> {
  return Object.fromEntries(tokens.map((token, id) => [token, id]));
}

/** All ways to make a piece of two others, the best pieces first. */
function mergesOf(tokens: readonly string[], scores: readonly number[]): [string, string][] {
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const order = [...tokens.keys()].sort((a, b) => scores[b]! - scores[a]! || a - b);
  return order.flatMap((id) => {
    const letters = [...tokens[id]!], found: [string, string][] = [];
    for (let k = 1; k < letters.length; k++) {
      const pair = [letters.slice(0, k).join(""), letters.slice(k).join("")] as [string, string];
      if (ids.has(pair[0]) && ids.has(pair[1])) found.push(pair);
    }
    return found.sort(([a, b], [c, d]) => ids.get(a)! - ids.get(c)! || ids.get(b)! - ids.get(d)!);
  });
}

/** Tokens in front of a text and behind it. */
function around({ tokens, metadata }: Vocabulary, kind: string): Json | null {
  const id = (name: string) => metadata[`tokenizer.ggml.${name}_token_id`] as number | undefined;
  const flag = (name: string) => metadata[`tokenizer.ggml.add_${name}_token`];
  const isBert = kind === "bert";
  const isBegun = kind === "gpt2" ? cutOf(metadata).hasBegin === true : kind !== "t5";
  const first = (flag("bos") ?? isBegun) ? isBert ? id("cls") ?? id("bos") : id("bos") : undefined;
  const isEnded = flag("eos") ?? kind === "t5";
  // llama.cpp's own spelling.
  const last = isEnded ? id("eos") : flag("sep") ?? isBert ? id("seperator") : undefined;
  const special = [first, last].filter((k) => k !== undefined).map((k) => tokens[k]!);
  if (special.length === 0) return null;
  const token = (k: number | undefined) =>
    k === undefined ? [] : [{ SpecialToken: { id: tokens[k], type_id: 0 } }];
  return {
    type: "TemplateProcessing",
    single: [...token(first), { Sequence: { id: "A", type_id: 0 } }, ...token(last)],
    pair: [],
    special_tokens: Object.fromEntries(
      special.map((text) => [text, { id: text, ids: [tokens.indexOf(text)], tokens: [text] }]),
    ),
  };
}

/**
 * The tokenizer of a GGUF file.
 *
 * @param metadata The file's header.
 * @throws {TypeError} When it is of a kind that netcl does not know.
 */
export function ggufTokenizer(metadata: Metadata): TokenizerFiles {
  const kind = String(metadata["tokenizer.ggml.model"]);
  const tokens = metadata["tokenizer.ggml.tokens"] as readonly string[] | undefined;
  if (!Object.hasOwn(kinds, kind) || !Array.isArray(tokens)) {
    throw new TypeError(
      `Cannot make a tokenizer of the model "${kind}": netcl reads ${
        Object.keys(kinds).join(", ")
      }`,
    );
  }
  const types = (metadata["tokenizer.ggml.token_type"] ?? []) as readonly number[];
  const vocabulary = { tokens, types, metadata };
  const added = [...tokens.entries()]
    .filter(([id]) => types[id] === CONTROL || types[id] === USER_DEFINED)
    .map(([id, content]) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: types[id] === CONTROL,
    }));
  return {
    tokenizer: {
      version: "1.0",
      added_tokens: added,
      post_processor: around(vocabulary, kind),
      ...kinds[kind]!(vocabulary),
    },
    config: {},
  };
}
