/**
 * `deno task test:models`: real models from the package registry, against what others compute of them. Not
 * among the suite's tests: they take a minute and 180 MB. Where a model cannot be had its tests are left out,
 * and it is said; with CI=true as well, since a registry may be out of reach.
 */
import { assert, assertEquals } from "@std/assert";
import { withDevice } from "@netcl/netcl";
import { Embedder, LanguageModel } from "@netcl/netcl/models";
import { hasOpenCL } from "../opencl.ts";
import { pathOf } from "./path_of.ts";

function fixture<T>(name: string): T {
  return JSON.parse(Deno.readTextFileSync(new URL(`fixtures/${name}`, import.meta.url)));
}

const language = await pathOf("smollm2-135m"), embedding = await pathOf("all-minilm-l6-v2");
const backend = hasOpenCL ? "cl" : "cpu";

interface Written {
  readonly text: string;
  readonly ids: number[];
  readonly greedy: number[];
  /** By how much the likeliest token is ahead at least. */
  readonly margin: number;
}

for (const dtype of ["float32", "packed"]) {
  Deno.test(`SmolLM2 writes the tokens of transformers with the decoded weights (${dtype})`, {
    ignore: language === null,
  }, () =>
    withDevice(backend, async () => {
      using lm = await LanguageModel.load(language!, { dtype });
      const prompts = fixture<Written[]>("smollm2.json");
      for (const { text, ids, greedy } of dtype === "packed" ? prompts.slice(0, 1) : prompts) {
        assertEquals(lm.tokenizer.encode(text), ids, "the tokens are those of llama.cpp");
        assertEquals(lm.tokenizer.decode(ids), text);
        const maxTokens = dtype === "packed" ? 20 : greedy.length;
        const found = await Array.fromAsync(lm.generateIds(ids, { maxTokens, ignoreEnd: true }));
        assertEquals(found, greedy.slice(0, maxTokens));
      }
    }));
}

Deno.test({
  // Packed weights come back from the host, where they go when memory grows by the caches of texts.
  name: "SmolLM2 writes texts side by side as each alone",
  ignore: language === null,
  fn: () =>
    withDevice("cpu", async () => {
      using lm = await LanguageModel.load(language!), batch = lm.batch({ texts: 4 });
      const options = { maxTokens: 8, temperature: 0 };
      const chats = ["Say hello.", "Count to ten.", "Say hello."].map((content) => [
        { role: "user", content },
      ]);
      const found = await Promise.all(
        chats.map(async (chat) => (await Array.fromAsync(batch.generate(chat, options))).join("")),
      );
      for (const [k, chat] of chats.entries()) {
        assertEquals(found[k], await lm.generateText(chat, options));
      }
    }),
});

Deno.test(
  "MiniLM's vectors are those of transformers",
  { ignore: embedding === null },
  () =>
    withDevice(backend, async () => {
      using embedder = await Embedder.load(embedding!);
      const texts = fixture<{ text: string; ids: number[]; vector: number[] }[]>("minilm.json");
      for (const { text, ids } of texts) assertEquals(embedder.tokenizer.encode(text), ids);
      using vectors = await embedder.embed(texts.map(({ text }) => text));
      const found = await vectors.toArray() as number[][];
      texts.forEach(({ vector }, row) =>
        vector.forEach((x, k) => assert(Math.abs(found[row]![k]! - x) < 1e-4, `${row}, ${k}`))
      );
    }),
);
