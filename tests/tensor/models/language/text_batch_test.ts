/** Texts side by side: each is the one that it would be alone, whenever it begins and ends. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { manager, memory, noGrad, Tensor } from "../../../../mod.ts";
import { testOnBackends } from "../../../opencl.ts";
import { withModel } from "../small_models.ts";

const prompts = ["abc", "hello there", "z", "the end of a text", "12-3"];

testOnBackends(
  "TextBatch: each text is what it is alone, also where it joins others",
  () =>
    withModel(async (lm) => {
      const options = (k: number) => ({
        maxTokens: 4 + 3 * k,
        ignoreEnd: true,
        ...k % 2 === 1 && { temperature: 1.5, seed: k, topK: 20 },
      });
      const alone: string[] = [];
      for (const [k, text] of prompts.entries()) {
        alone.push(await lm.generateText(text, options(k)));
      }
      using batch = lm.batch({ texts: 2, positions: 64 });
      // Two at once: the others wait for a row, and take it while another text is under way.
      const texts = prompts.map(async (text, k) =>
        (await Array.fromAsync(batch.generate(text, options(k)))).join("")
      );
      assertEquals(await Promise.all(texts), alone);
      assertEquals(batch.active, 0);
    }),
);

testOnBackends(
  "TextBatch: who leaves, or aborts, gives the row to the next",
  () =>
    withModel(async (lm) => {
      using batch = lm.batch({ texts: 1, positions: 64 });
      const options = { maxTokens: 30, ignoreEnd: true };
      for await (const piece of batch.generate("abc", options)) {
        assert(piece.length > 0);
        break;
      }
      const controller = new AbortController(), { signal } = controller;
      const aborted = async () => {
        for await (const _ of batch.generate("abc", { ...options, signal })) {
          controller.abort(new Error("enough"));
        }
      };
      await assertRejects(aborted, Error, "enough");
      // One that is aborted while it waits never gets a row.
      const running = batch.generate("z", options);
      await running.next();
      await assertRejects(
        () => Array.fromAsync(batch.generate("abc", { ...options, signal })),
        Error,
        "enough",
      );
      await running.return();
      const text = await Array.fromAsync(batch.generate("abc", options));
      assertEquals(text.join(""), await lm.generateText("abc", options));
      assertThrows(() => batch.generate("a".repeat(64), options), RangeError, "64");
    }),
);

testOnBackends(
  "TextBatch: what is under way ends where the batch does",
  () =>
    withModel(async (lm) => {
      const batch = lm.batch({ texts: 1, positions: 64 }),
        options = { maxTokens: 30, ignoreEnd: true };
      const [running, waiting] = ["abc", "z"].map((text) => batch.generate(text, options));
      await running!.next();
      const next = waiting!.next();
      batch[Symbol.dispose]();
      await assertRejects(() => next, TypeError, "disposed");
      await assertRejects(() => Array.fromAsync(running!), TypeError, "disposed");
      assertThrows(() => batch.generate("abc", options), TypeError, "disposed");
    }),
);

testOnBackends(
  "TextBatch: a text that is through leaves no scores to the collector",
  () =>
    withModel(async (lm) => {
      using batch = lm.batch({ texts: 1, positions: 32 });
      const write = () => Array.fromAsync(batch.generate("abc", { maxTokens: 3, ignoreEnd: true }));
      const bytes = () => memory.stats(manager.active).requestedBytes;
      for (let k = 0; k < 2; k++) await write();
      const before = bytes(),
        scores = noGrad(() => lm.forward(Tensor.zeros([1, 1], { dtype: "int32" })));
      const row = scores.shape[2]! * 4;
      for (let k = 0; k < 8; k++) await write();
      const left = bytes() - before;
      assert(left < 2 * row, `${left} bytes are left of 8 texts, a row of scores has ${row}`);
    }),
);
