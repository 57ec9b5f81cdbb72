/** Cuts of text before pairs of bytes are merged, by the names in `tokenizer.ggml.pre` of GGUF files. */

/** A way to cut: expressions one after the other, each of which sets what it finds apart. */
export interface TextCut {
  readonly names: readonly string[];
  readonly expressions: readonly string[];
  /** True where a word that is a token is taken as it is. */
  readonly hasWholeWords?: boolean;
  /** True where a text begins with its token unless the file says otherwise. */
  readonly hasBegin?: boolean;
}

const short = "'s|'t|'re|'ve|'m|'ll|'d", contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const blanks = "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
/** GPT-2's: words with the blank before them, numbers, signs. */
const gpt = `${short}| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+`;
const word = "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+", signs = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*";
/** Llama 3's and its successors', which differ in how many digits stay together. */
const modern = (digits: string): string => `${contractions}|${word}|${digits}|${signs}|${blanks}`;
const upper = "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}", lower = "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}";
/** Words by their capitals, each with what may stand behind it. */
const capitals = (behind: string, digits: string): string =>
  `[^\\r\\n\\p{L}\\p{N}]?[${upper}]*[${lower}]+${behind}|` +
  `[^\\r\\n\\p{L}\\p{N}]?[${upper}]+[${lower}]*${behind}|` +
  `${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${blanks}`;

const chinese = "[一-龥\u3040-ゟ゠-ヿ]+";
/** Signs in front of Latin letters, words with their marks, other signs. */
const marked = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|" +
  "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" + blanks;

/** The table. Source: the tokenizer.json of the models that the names stand for. */
export const textCuts: readonly TextCut[] = [
  {
    names: [
      ..."gpt-2 phi-2 mpt olmo jais trillion exaone4 modern-bert mellum gigachat".split(" "),
      ..."granite-docling jina-es jina-de jina-v2-es jina-v2-de a.x-4.0".split(" "),
    ],
    expressions: [gpt],
  },
  // Llama.cpp's own, for files that name none.
  {
    names: ["default"],
    expressions: ["[\\p{P}$+<=>^~|]+", gpt, "\\p{N}+", "[0-9][0-9][0-9]"],
  },
  {
    names: "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2".split(" "),
    expressions: ["\\p{N}", gpt],
  },
  {
    names: "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2".split(" "),
    expressions: [modern("\\p{N}{1,3}")],
    hasWholeWords: true,
    hasBegin: true,
  },
  { names: ["dbrx", "smaug-bpe", "chatglm-bpe"], expressions: [modern("\\p{N}{1,3}")] },
  { names: ["glm4"], expressions: [modern("\\p{N}{1,3}")], hasWholeWords: true },
  {
    names: "qwen2 deepseek-r1-qwen kormo megrez stablelm2 hunyuan solar-open grok-2".split(" "),
    expressions: [modern("\\p{N}")],
  },
  {
    names: ["qwen35"],
    expressions: [
      `${contractions}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|${blanks}`,
    ],
  },
  {
    names: ["seed-coder"],
    expressions: [`${contractions}|${word}|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|${blanks}`],
  },
  {
    names: ["bailingmoe", "bailingmoe2", "llada-moe"],
    expressions: [
      `'(?i:[sdmt]|ll|ve|re)|${word}|\\p{N}|${signs}|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+`,
    ],
  },
  {
    names: ["minicpm5"],
    expressions: ["\\p{N}{1,3}", modern("\\p{N}+")],
    hasWholeWords: true,
  },
  {
    names: ["tekken"],
    expressions: [capitals("", "\\p{N}")],
    hasWholeWords: true,
    hasBegin: true,
  },
  {
    names: ["gpt-4o", "llama4", "kanana2"],
    expressions: [capitals(`${contractions}?`, "\\p{N}{1,3}")],
  },
  {
    names: ["deepseek-v3", "hunyuan-dense", "joyai-llm"],
    expressions: ["\\p{N}{1,3}", chinese, marked],
  },
  {
    names: ["deepseek-coder"],
    expressions: ["[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", "\\p{N}"],
  },
  {
    names: ["falcon"],
    expressions: ["[\\p{P}$+<=>^~|`]+", gpt, "[0-9][0-9][0-9]"],
  },
];

/** The cut of a name; null where it is not known. */
export function textCutOf(name: string): TextCut | null {
  return textCuts.find(({ names }) => names.includes(name)) ?? null;
}
