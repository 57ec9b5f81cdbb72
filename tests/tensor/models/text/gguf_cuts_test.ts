import { assert, assertEquals, assertThrows } from "@std/assert";
import { textCuts } from "../../../../tensor/models/text/gguf_cuts.ts";
import { ggufTokenizer } from "../../../../tensor/models/text/gguf_vocabulary.ts";
import { Tokenizer } from "../../../../tensor/models/mod.ts";

/** Written by fixtures/make_cuts.py. */
const { texts, tokens, merges, ids } = JSON.parse(
  Deno.readTextFileSync(new URL("fixtures/cuts.json", import.meta.url)),
) as { texts: string[]; tokens: string[]; merges: string[]; ids: Record<string, number[][]> };

const header = (pre: string) => ({
  "tokenizer.ggml.model": "gpt2",
  "tokenizer.ggml.pre": pre,
  "tokenizer.ggml.tokens": tokens,
  "tokenizer.ggml.token_type": tokens.map((_, k) => k < 2 ? 3 : 1),
  "tokenizer.ggml.merges": merges,
  "tokenizer.ggml.bos_token_id": 0,
  "tokenizer.ggml.eos_token_id": 1,
});

for (const [name, due] of Object.entries(ids)) {
  Deno.test(`textCutOf cuts as llama.cpp does: ${name}`, () => {
    const tokenizer = new Tokenizer(ggufTokenizer(header(name)));
    texts.forEach((text, k) => {
      assertEquals(tokenizer.encode(text), due[k], text);
      assert(tokenizer.decode(tokenizer.encode(text), { special: false }) === text, text);
    });
  });
}

Deno.test("textCuts have each a test, and other names are refused with theirs", () => {
  for (const { names } of textCuts) assert(names.some((name) => name in ids), names[0]);
  const error = assertThrows(() => ggufTokenizer(header("viking")), TypeError, '"viking"');
  assert(error.message.includes("deepseek-v3"), error.message);
});
