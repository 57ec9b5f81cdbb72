/** Caches of bytes: what models write with them, and the memory that they take. */
import { assert, assertEquals } from "@std/assert";
import { noGrad, Tensor } from "../../../../mod.ts";
import type { Decoder } from "../../../../tensor/models/language/decoder/decoder.ts";
import { testOnBackends, testOnCPU } from "../../../opencl.ts";
import { fixtures, textOf, withModel } from "../small_models.ts";

/** Runs a test with a small model whose cache is of bytes. */
const withBytes = (fn: Parameters<typeof withModel>[0], name = "qwen2"): Promise<void> =>
  withModel(fn, fixtures[name], { cache: "int8" });

for (const name of Object.keys(fixtures)) {
  // PoCL takes a minute to compile a model's kernels: there one does.
  const test = name === "qwen2" ? testOnBackends : testOnCPU;
  test(`DecoderCache of bytes: scores are near those of the whole text: ${name}`, () =>
    withBytes(async (lm) => {
      const decoder = lm.model as Decoder, { vocabulary } = decoder.config;
      const all = textOf(Array.from({ length: 14 }, (_, k) => (7 * k + 3) % vocabulary));
      using cache = decoder.makeCache(1, 16);
      // A prompt, then one position, then several behind what is there.
      const parts = [[0, 6], [6, 7], [7, 11], [11, 14]] as const;
      const found = noGrad(() =>
        parts.map(([from, end]) => {
          const counts = Tensor.fromHost(Int32Array.of(end - from));
          const scores = decoder.logits(
            decoder.hidden(all.slice(null, [from, end]), cache, counts),
          );
          scores.realize();
          cache.advance([end - from]);
          return scores;
        })
      );
      const due = noGrad(() => decoder.forward(all));
      const far = await Tensor.concat(found, 1).sub(due).abs().max().item();
      const most = await due.abs().max().item();
      assert(far < 0.05 * most, `${far} of ${most}`);
      // And it is the cache that was read: bytes are not the numbers.
      assert(far > 0, "bytes give other scores than numbers");
    }, name));
}

testOnBackends(
  "DecoderCache of bytes: a byte a number, a scale a position and head",
  () =>
    withBytes(async (lm) => {
      const decoder = lm.model as Decoder, { layers, keyHeads, headFeatures } = decoder.config;
      using cache = decoder.makeCache(2, 64);
      const bytes = (tensors: Tensor[]) =>
        tensors.reduce((sum, { size, dtype }) => sum + size * (dtype === "uint8" ? 1 : 4), 0);
      const due = 2 * layers.length * 2 * keyHeads * 64 * (headFeatures + 4);
      assertEquals(bytes(cache.tensors.slice(0, -2)), due);
      await Promise.resolve();
    }),
);

testOnBackends(
  "DecoderCache of bytes: cut chats, long texts and batches go on",
  () =>
    withBytes(async (lm) => {
      const options = { maxTokens: 6, ignoreEnd: true };
      using chat = lm.chat();
      await Array.fromAsync(chat.send("abc", options));
      chat.truncate(2);
      const said = (await Array.fromAsync(chat.send("de", options))).join("");
      assert(said.length > 0);
      const alone = await lm.generateText("abc", options);
      using batch = lm.batch({ texts: 2, positions: 32 });
      const texts = await Promise.all(
        ["abc", "q", "abc"].map((text) => Array.fromAsync(batch.generate(text, options))),
      );
      assertEquals(texts.map((pieces) => pieces.join("")).filter((_, k) => k !== 1), [
        alone,
        alone,
      ]);
    }),
);
