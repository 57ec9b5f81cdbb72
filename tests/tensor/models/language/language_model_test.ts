import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { manager, memory, profiler, type Tensor, withDevice } from "../../../../mod.ts";
import {
  LanguageModel,
  type Message,
  type Sampling,
  type TextEnd,
  type TextStream,
} from "../../../../tensor/models/mod.ts";
import { FileFormatError } from "../../../../tensor/io/mod.ts";
import type { Decoder } from "../../../../tensor/models/language/decoder/decoder.ts";
import { inFolder } from "../../../temporary_folder.ts";
import { testOnBackends, testOnCPU, testOpenCL } from "../../../opencl.ts";
import { fixtures, textOf, withModel, writeModel } from "../small_models.ts";

const fixture = fixtures.qwen2!;
const prompt = fixture.ids;

const written = (lm: LanguageModel, options: Sampling, ids: readonly number[] = prompt) =>
  Array.fromAsync(lm.generateIds(ids, { ignoreEnd: true, maxTokens: 20, ...options }));

testOpenCL("LanguageModel: a seed gives the same text on every backend", async () => {
  const options = { temperature: 1.5, topK: 20, topP: 0.9, minP: 0.01, repetitionPenalty: 1.1 };
  const found: number[][] = [];
  for (const backend of ["cpu", "cl"]) {
    await withDevice(backend, () =>
      withModel(async (lm) => {
        for (const seed of [1, 2, 1]) found.push(await written(lm, { ...options, seed }));
      }));
  }
  assertEquals(found[0], found[2]);
  assertEquals(found[0], found[3]);
  assertEquals(found[1], found[4]);
  assert(`${found[0]}` !== `${found[1]}`);
});

testOnBackends(
  "LanguageModel draws tokens as often as likely, within limits",
  () =>
    withModel(async (lm) => {
      const scores = await lm.forward(textOf(prompt)).slice(0, -1).div(2).softmax(-1)
        .toArray() as number[];
      const order = [...scores.keys()].sort((a, b) => scores[b]! - scores[a]!);
      const head = (share: number) => {
        let sum = 0;
        return order.filter((id) => (sum += scores[id]!) - scores[id]! < share);
      };
      const cases: [Sampling, number[]][] = [
        [{}, order],
        [{ topK: 5 }, order.slice(0, 5)],
        [{ topP: 0.6 }, head(0.6)],
        [{ topK: 40, topP: 0.6 }, order.slice(0, 40).filter((id) => head(0.6).includes(id))],
        [{ minP: 0.3 }, order.filter((id) => scores[id]! >= 0.3 * scores[order[0]!]!)],
      ];
      const rounds = 400, prompts = Array(rounds).fill(prompt);
      for (const [options, allowed] of cases) {
        const drawn = await lm.generateBatch(prompts, {
          ...options,
          temperature: 2,
          seed: 7,
          maxTokens: 1,
          ignoreEnd: true,
        });
        const counts = new Map<number, number>();
        for (const [id] of drawn) counts.set(id!, (counts.get(id!) ?? 0) + 1);
        const name = JSON.stringify(options);
        assertEquals([...counts.keys()].filter((id) => !allowed.includes(id)), [], name);
        const total = allowed.reduce((sum, id) => sum + scores[id]!, 0);
        for (const id of allowed) {
          const due = rounds * scores[id]! / total, count = counts.get(id) ?? 0;
          assert(
            Math.abs(count - due) < 5 * Math.sqrt(due) + 3,
            `${name}: ${id}: ${count} of ${due}`,
          );
        }
      }
    }),
);

testOnCPU(
  "LanguageModel: a function of scores decides what may be written, and sees the ids so far",
  () =>
    withModel(async (lm) => {
      const seen: number[] = [];
      const logits = (scores: Tensor, [ids]: readonly (readonly number[])[]) => {
        seen.push(ids!.length);
        return scores.maskedFill(scores.indexLike([48]).ne(ids!.length % 3), -Infinity);
      };
      const ids = await written(lm, { logits, maxTokens: 4 });
      assertEquals(seen, [10, 11, 12, 13]);
      assertEquals(ids, [1, 2, 0, 1]);
    }),
);

testOnCPU(
  "LanguageModel: writing stops at texts, at the end, at maxTokens and where it is aborted",
  () =>
    withModel(async (lm) => {
      const ids = await written(lm, {}), all = lm.tokenizer.decode(ids, { special: false });
      const at = all.slice(6, 8);
      const text = await lm.generateText(lm.tokenizer.decode(prompt), {
        maxTokens: 20,
        ignoreEnd: true,
      });
      assertEquals(text, all);
      const cut = await lm.generateText(lm.tokenizer.decode(prompt), {
        maxTokens: 20,
        stop: [at],
        ignoreEnd: true,
      });
      assertEquals(cut, all.slice(0, all.indexOf(at)));
      const controller = new AbortController(), found: number[] = [];
      controller.abort(new Error("enough"));
      const aborted = async () => {
        for await (const id of lm.generateIds(prompt, { signal: controller.signal })) {
          found.push(id);
        }
      };
      await assertRejects(aborted, Error, "enough");
      assertEquals(found, []);
      assertEquals((await written(lm, { maxTokens: 3 })).length, 3);
      assertEquals(
        (await written(lm, { maxTokens: 1000 })).length,
        64 - prompt.length,
        "the context",
      );
      assertThrows(() => lm.generate("a", { stop: [5] as never }), RangeError, "stop [5]");
      const odd = [{ role: "user" }] as never;
      assertThrows(() => lm.generate(odd), TypeError, "messages { role, content }");
      assertThrows(() => lm.chat(odd), TypeError, "messages { role, content }");
      assertThrows(() => lm.generateIds([]), RangeError, "one at least");
      assertThrows(() => lm.generateIds([99]), RangeError, "99");
      assertThrows(() => lm.generateIds(Array(64).fill(3)), RangeError, "64");
    }),
);

testOnBackends(
  "LanguageModel: a chat keeps what was read, answers as if anew",
  () =>
    withModel(async (lm) => {
      using chat = lm.chat();
      const options = { maxTokens: 4, ignoreEnd: true };
      const messages: Message[] = [];
      for (const content of ["a", "cd"]) {
        const before = chat.length;
        messages.push({ role: "user", content });
        const due = await lm.generateText(messages, options);
        const answer = (await Array.fromAsync(chat.send(content, options))).join("");
        assertEquals(answer, due);
        messages.push({ role: "assistant", content: due });
        assert(chat.length > before);
      }
      assertEquals(chat.messages, messages);
      chat.truncate(3);
      assertEquals(chat.length, 3);
      assertThrows(() => chat.truncate(4), RangeError, "3 positions");
    }),
);

testOnCPU(
  "LanguageModel: what writes a text returns why it ended, and counts tokens",
  () =>
    withModel(async (lm) => {
      using chat = lm.chat(), batch = lm.batch({ texts: 1 });
      const question: Message = { role: "user", content: "abc" };
      const promptTokens = lm.encode([question]).length;
      const ways: ((options: Sampling) => TextStream)[] = [
        (options) => lm.generate([question], options),
        (options) => batch.generate([question], options),
        (options) => chat.send("abc", options),
      ];
      for (const write of ways) {
        const pieces = write({ maxTokens: 3, ignoreEnd: true });
        let next = await pieces.next();
        while (!next.done) next = await pieces.next();
        assertEquals(next.value, { reason: "length", promptTokens, newTokens: 3 });
      }
      const all = await lm.generateText([question], { maxTokens: 8, ignoreEnd: true });
      const pieces = lm.generate([question], { maxTokens: 8, ignoreEnd: true, stop: [all[0]!] });
      const { done, value } = await pieces.next();
      assertEquals([done, (value as TextEnd).reason], [true, "stop"]);
    }),
);

testOnCPU(
  "LanguageModel: a chat goes on behind a question that is refused, and takes one at a time",
  () =>
    withModel(async (lm) => {
      using chat = lm.chat();
      const options = { maxTokens: 4, ignoreEnd: true };
      const say = async (text: string, more: Sampling = {}) =>
        (await Array.fromAsync(chat.send(text, { ...options, ...more }))).join("");
      await say("a");
      const before = chat.messages.slice();
      await assertRejects(() => say("b".repeat(99)), RangeError, "context has 64");
      await assertRejects(
        () => say("b", { signal: AbortSignal.abort(new Error("no")) }),
        Error,
        "no",
      );
      assertEquals(chat.messages, before);
      const answer = chat.send("b", options);
      await answer.next();
      await assertRejects(() => say("c"), TypeError, "answers");
      await answer.return();
      const due = await lm.generateText(
        [...chat.messages, { role: "user", content: "d" }],
        options,
      );
      assertEquals(await say("d"), due);
    }),
);

testOnBackends(
  "LanguageModel: after the first tokens nothing is allocated",
  () =>
    withModel(async (lm) => {
      await written(lm, { maxTokens: 4 });
      const held: number[] = [];
      let turn = 0;
      for await (const _ of lm.generateIds(prompt, { ignoreEnd: true, maxTokens: 40 })) {
        if (++turn > 3) held.push(memory.stats(manager.active).reservedBytes);
      }
      assertEquals(new Set(held).size, 1);
    }),
);

testOnBackends(
  "LanguageModel: from the third token on, steps are replayed",
  () =>
    withModel(async (lm) => {
      const decoder = lm.model as Decoder, { hidden } = decoder;
      let passes = 0;
      decoder.hidden = (...args) => {
        passes++;
        return hidden.apply(decoder, args);
      };
      const ids = lm.generateIds(prompt, { ignoreEnd: true, maxTokens: 40 });
      for (let turn = 1; turn <= 3; turn++) await ids.next();
      const before = passes, kernels = new Set<number>();
      for (let turn = 0; turn < 10; turn++) {
        profiler.reset();
        await ids.next();
        const { kernels: own, programsBuilt, cacheHits, nativeAllocs } = profiler.counters();
        kernels.add(own);
        assertEquals([programsBuilt, cacheHits, nativeAllocs], [0, 0, 0]);
      }
      assertEquals([passes, kernels.size], [before, 1]);
      await ids.return();
    }),
);

testOnBackends("LanguageModel: dispose gives all its memory back at once", () => {
  return inFolder(async (folder) => {
    await writeModel(folder, fixture);
    const bytes = () => memory.stats(manager.active).requestedBytes, before = bytes();
    const options = { maxTokens: 4, ignoreEnd: true };
    {
      using lm = await LanguageModel.load(folder);
      await lm.generateText("abc", options);
      await lm.generateBatch([[3, 4], [5]], options);
      using chat = lm.chat();
      for (const text of ["ab", "cd"]) await Array.fromAsync(chat.send(text, options));
      using batch = lm.batch({ texts: 2, positions: 64 });
      await Array.fromAsync(batch.generate("abc", options));
      assert(bytes() - before > 10_000, `${bytes() - before} bytes`);
    }
    const left = bytes() - before;
    assert(left < 1024, `${left} bytes are left`);
  });
});

/** The end of a text. */
async function ended(stream: TextStream): Promise<TextEnd> {
  for (;;) {
    const { done, value } = await stream.next();
    if (done) return value;
  }
}

testOnCPU(
  "LanguageModel: templates see tools and other variables, and fields of messages",
  () =>
    withModel(async (lm) => {
      const messages = [{ role: "user", name: "ann", content: "hi" }], tools = [{ name: "f" }];
      const text = lm.applyTemplate(messages, { tools });
      assertEquals(text, '[{"name": "f"}]userann: hi.assistant: ');
      const options = { maxTokens: 4, template: { tools } };
      const { promptTokens } = await ended(lm.generate(messages, options));
      assertEquals(promptTokens, lm.encode(messages, { tools }).length);
      assert(promptTokens > lm.encode(messages).length);
      using chat = lm.chat();
      const inChat = (await ended(chat.send("hi", options))).promptTokens;
      assertEquals(inChat, lm.encode([{ role: "user", content: "hi" }], { tools }).length);
      const odd = { template: "tools" as unknown as Record<string, unknown> };
      assertThrows(() => lm.generate("a", odd), TypeError, "template");
    }),
);

testOnCPU("LanguageModel: what its makers advise is given on, and nothing that is wrong", () => {
  return inFolder(async (folder) => {
    await writeModel(folder, fixture);
    const write = (value: unknown) =>
      Deno.writeTextFile(`${folder}/generation_config.json`, JSON.stringify(value));
    await write({ do_sample: true, temperature: 0.6, top_k: 20, top_p: 0.95, min_p: -1 });
    {
      using lm = await LanguageModel.load(folder);
      assertEquals(lm.advised, { temperature: 0.6, topK: 20, topP: 0.95 });
      await Array.fromAsync(lm.generate("ab", { ...lm.advised, maxTokens: 2 }));
    }
    await write({ do_sample: false, temperature: 0.6 });
    using plain = await LanguageModel.load(folder);
    assertEquals(plain.advised, {});
  });
});

testOnCPU("LanguageModel.load says how files of other forms become those that are read", () => {
  return inFolder(async (folder) => {
    await writeModel(folder, fixture);
    await Deno.rename(`${folder}/model.safetensors`, `${folder}/pytorch_model.bin`);
    await assertRejects(() => LanguageModel.load(folder), FileFormatError, "AutoModel");
    await Deno.rename(`${folder}/tokenizer.json`, `${folder}/tokenizer.model`);
    await assertRejects(() => LanguageModel.load(folder), FileFormatError, "AutoTokenizer");
  });
});
