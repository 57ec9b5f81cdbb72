/** Tokenizers of GGUF files by words and by unigrams; those by pairs are held in `gguf_cuts_test.ts`. */
import { assertEquals } from "@std/assert";
import { ggufTokenizer } from "../../../../tensor/models/text/gguf_vocabulary.ts";
import { Tokenizer } from "../../../../tensor/models/text/tokenizer.ts";

const ggml = (values: Readonly<Record<string, unknown>>) =>
  new Tokenizer(ggufTokenizer(
    Object.fromEntries(
      Object.entries(values).map(([name, value]) => [`tokenizer.ggml.${name}`, value]),
    ) as Parameters<typeof ggufTokenizer>[0],
  ));

Deno.test("ggufTokenizer cuts words as BERT does: begun with the class, ended, lowered, without accents", () => {
  const tokens = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "▁un",
    "affo",
    "rd",
    "▁,",
    "▁apfel",
    "▁[",
    "▁北",
  ];
  const header = {
    model: "bert",
    tokens,
    token_type: tokens.map((_, id) => id < 4 ? 3 : 1),
    unknown_token_id: 1,
    cls_token_id: 2,
    seperator_token_id: 3,
  };
  const tokenizer = ggml(header);
  assertEquals(tokenizer.encode("Unafford, Äpfel [北x"), [2, 4, 5, 6, 7, 8, 9, 10, 1, 3]);
  assertEquals(tokenizer.encode("affo", { special: false }), [1]);
  assertEquals(tokenizer.decode([2, 4, 5, 6, 7, 8, 3], { special: false }), "unafford, apfel");
  const cased = ggml({ ...header, "normalizer.lowercase": false });
  assertEquals(cased.encode("un Un", { special: false }), [4, 1]);
  const kept = ggml({ ...header, "normalizer.strip_accents": false });
  assertEquals(kept.encode("Äpfel", { special: false }), [1]);
});

Deno.test("ggufTokenizer finds the unigrams with the largest sum of scores", () => {
  const tokens = ["<s>", "<pad>", "</s>", "<unk>", "▁", "a", "b", "ab", "▁a", "▁ab", "c"];
  const scores = [0, 0, 0, 0, -2, -3, -3, -4, -2.5, -9, -3];
  const header = {
    model: "t5",
    tokens,
    scores,
    token_type: [3, 3, 3, 2, ...tokens.slice(4).map(() => 1)],
    unknown_token_id: 3,
    bos_token_id: 0,
    eos_token_id: 2,
    add_bos_token: true,
    remove_extra_whitespaces: true,
  };
  // "▁a" and "b" together score -5.5, "▁" and "ab" -6, "▁ab" -9.
  assertEquals(ggml(header).encode("  ab   c "), [0, 8, 6, 4, 10, 2]);
  assertEquals(ggml(header).encode("xa"), [0, 4, 3, 5, 2]);
  assertEquals(ggml({ ...header, add_bos_token: false }).encode("ab"), [8, 6, 2]);
  assertEquals(ggml({ ...header, add_space_prefix: false }).encode("ab"), [0, 7, 2]);
  assertEquals(ggml(header).decode([0, 8, 6, 4, 10, 2], { special: false }), "ab c");
});
