/** The programs about models, with a small one that is made here. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { type Fixture, fixtures, writeModel } from "../../tensor/models/small_models.ts";
import { withDevice } from "../../../mod.ts";
import "../../opencl.ts";
import { inFolder } from "../../temporary_folder.ts";
import { modelFlag } from "../../../examples/models/model_path.ts";
import { type Run, runExample } from "../run_example.ts";
import encoders from "../../tensor/models/embedding/encoders.json" with { type: "json" };

/** Runs a program with a model, on the built-in backend. */
function run(
  program: string,
  folder: string,
  args: readonly string[],
  watch?: Parameters<typeof runExample>[2],
): Promise<Run> {
  return runExample(`models/${program}`, ["--device", "cpu", "--model", folder, ...args], watch);
}

const withLanguageModel = (fn: (folder: string) => Promise<void>) =>
  inFolder(async (folder) => {
    await withDevice("cpu", () => writeModel(folder, fixtures.llama!));
    await fn(folder);
  });

Deno.test("chat.ts answers, says how fast, and the same seed gives the same answer", () =>
  withLanguageModel(async (folder) => {
    const args = ["--prompt", "hello", "--length", "12", "--seed", "3"];
    const [first, second] = [
      await run("chat.ts", folder, args),
      await run("chat.ts", folder, args),
    ];
    assertEquals([first.code, second.code], [0, 0], first.err + second.err);
    assertMatch(first.out, /loaded in [\d.]+ s\n/);
    const answerOf = ({ out }: Run) => /loaded in .* s\n(.*)\n/.exec(out)?.[1];
    assert(answerOf(first)!.length > 0, first.out);
    assertEquals(answerOf(first), answerOf(second));
  }));

Deno.test("chat.ts with --temperature 0 takes the likeliest, whatever the seed", () =>
  withLanguageModel(async (folder) => {
    const args = ["--prompt", "hello", "--length", "12", "--temperature", "0", "--seed"];
    const [first, second] = [
      await run("chat.ts", folder, [...args, "3"]),
      await run("chat.ts", folder, [...args, "4"]),
    ];
    assertEquals([first.code, second.code], [0, 0], first.err + second.err);
    const answerOf = ({ out }: Run) => /loaded in .* s\n(.*)\n/.exec(out)?.[1];
    assert(answerOf(first)!.length > 0, first.out);
    assertEquals(answerOf(first), answerOf(second));
  }));

Deno.test("modelFlag lists models of its use only", () => {
  assertEquals(modelFlag("language").help.includes("smollm2-135m, which"), true);
  for (const odd of ["mtcnn", "photos", "all-minilm-l6-v2"]) {
    assertEquals(modelFlag("language").help.includes(odd), false, odd);
  }
  assertEquals(modelFlag("embedding").default, "all-minilm-l6-v2");
});

Deno.test("finetune.ts lets the loss fall, and saves adapters", () =>
  withLanguageModel(async (folder) => {
    const text = `${folder}/lesson.txt`;
    await Deno.writeTextFile(text, "abc abc abc abc\n\nabc abc abc\n");
    const args = ["--text", text, "--steps", "30", "--lr", "0.02", "--length", "5"];
    const { code, out, err } = await run("finetune.ts", folder, [...args, "--out", folder]);
    assertEquals(code, 0, err);
    assertMatch(out, /2 texts, \d+ numbers that learn/);
    assertMatch(out, /^before: /m);
    assertMatch(out, /^after: /m);
    const [, first, last] = /^loss: ([\d.]+) to ([\d.]+)$/m.exec(out)!;
    assert(Number(last) < 0.8 * Number(first), `${first} to ${last}`);
    const names = [...Deno.readDirSync(`${folder}/adapter`)].map(({ name }) => name).sort();
    assertEquals(names, ["adapter_config.json", "adapter_model.safetensors"]);
  }));

Deno.test("embed.ts shows the paragraphs that are nearest", () =>
  inFolder(async (folder) => {
    await withDevice("cpu", () => writeModel(folder, encoders.bert as unknown as Fixture));
    const texts = `${folder}/texts`;
    await Deno.mkdir(texts);
    const long = (word: string) => `${word} `.repeat(8).slice(0, 50);
    await Deno.writeTextFile(`${texts}/a.txt`, `${long("abcab")}\n\n${long("xyzzy")}\n`);
    const args = ["--folder", texts, "--query", long("abcab")];
    const { code, out, err } = await run("embed.ts", folder, args);
    assertEquals(code, 0, err);
    assertMatch(out, /2 paragraphs in [\d.]+ s/);
    assert(out.includes("a.txt"), out);
  }));

/** The texts of the events of an answer, as they come. */
async function* eventsOf(response: Response): AsyncGenerator<string> {
  let rest = "";
  for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
    const events = (rest + text).split("\n\n");
    rest = events.pop()!;
    for (const event of events) yield event.replace(/^data: /, "");
  }
}

/** Asks a server; `stream` as OpenAI's clients do. */
function ask(address: string, content: string, options: object, signal?: AbortSignal) {
  return fetch(`${address}/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ messages: [{ role: "user", content }], ...options }),
    ...signal && { signal },
  });
}

const options = { max_tokens: 20, temperature: 0 };

/** The text of an answer that is not streamed. */
const whole = async (address: string, content: string): Promise<string> =>
  (await (await ask(address, content, options)).json()).choices[0].message.content;

const contentOf = (event: string): string => JSON.parse(event).choices[0].delta.content ?? "";

/** The end of answers, whole and streamed: why, and the number of tokens. */
async function ends(address: string): Promise<void> {
  const asked = { max_tokens: 3, temperature: 0 };
  const { choices, usage } = await (await ask(address, "abc", asked)).json();
  assertEquals([choices[0].finish_reason, usage.completion_tokens], ["length", 3]);
  assert(usage.prompt_tokens > 3, "the template's tokens count");
  assertEquals(usage.total_tokens, usage.prompt_tokens + 3);
  const stopped = await (await ask(address, "abc", {
    ...asked,
    stop: [choices[0].message.content.slice(0, 1)],
  })).json();
  assertEquals(stopped.choices[0].finish_reason, "stop");
  const stream = { ...asked, stream: true, stream_options: { include_usage: true } };
  const events = await Array.fromAsync(eventsOf(await ask(address, "abc", stream)));
  const [end, last] = events.slice(-3, -1).map((event) => JSON.parse(event));
  assertEquals([end.choices[0].finish_reason, end.usage], ["length", null]);
  assertEquals([last.choices, last.usage], [[], usage]);
}

/**
 * Clients that ask again as long as they are answered, so that Ctrl+C meets answers under way and in the line:
 * those are told. Who asks just then finds no server.
 */
async function interrupted(address: string, child: Deno.ChildProcess): Promise<void> {
  const told = { streamed: 0, whole: 0 };
  const asked = async (stream: boolean): Promise<void> => {
    for (;;) {
      const response = await ask(address, "abc", { temperature: 0, stream }).catch(() => null);
      if (response === null) return;
      const last = stream
        ? (await Array.fromAsync(eventsOf(response))).at(-1)!
        : await response.text();
      const { error } = last === "[DONE]" ? {} : JSON.parse(last);
      if (error === undefined) continue;
      assertEquals(error.type, "server_error");
      told[stream ? "streamed" : "whole"]++;
      return;
    }
  };
  const clients = Array.from({ length: 20 }, (_, k) => asked(k % 2 === 0));
  await whole(address, "abc");
  child.kill("SIGINT");
  await Promise.all(clients);
  assert(told.streamed > 0 && told.whole > 0, JSON.stringify(told));
}

/** Two streams at once, one that its client leaves, and answers that are refused. */
async function talks(address: string): Promise<void> {
  const models = await (await fetch(`${address}/models`)).json();
  assertEquals(models.object, "list");
  const stream = true;
  const due = [await whole(address, "abc"), await whole(address, "hello")];
  const streams = await Promise.all(
    ["abc", "hello"].map((content) => ask(address, content, { ...options, stream })),
  );
  const found = await Promise.all(streams.map(async (response) => {
    assertEquals(response.headers.get("content-type"), "text/event-stream");
    const events = await Array.fromAsync(eventsOf(response));
    assertEquals(events.at(-1), "[DONE]");
    return events.slice(0, -1).map(contentOf).join("");
  }));
  assertEquals(found, due);
  const left = new AbortController();
  const leaving = eventsOf(await ask(address, "abc", { ...options, stream }, left.signal));
  await leaving.next();
  left.abort();
  await leaving.next().catch(() => {});
  assertEquals(await whole(address, "abc"), due[0], "who leaves gives the row back");
  const odd = await ask(address, "abc", { max_tokens: -1 });
  assertEquals(odd.status, 400);
  assertMatch((await odd.json()).error.message, /maxTokens/);
  const elsewhere = await fetch(`${address}/elsewhere`);
  assertEquals([elsewhere.status, (await elsewhere.json()).error.type], [
    404,
    "invalid_request_error",
  ]);
}

Deno.test("chat_server.ts streams to several at once, ends who leaves, and Ctrl+C ends it", () =>
  withLanguageModel(async (folder) => {
    let used: Promise<void> | null = null;
    const args = ["--port", "0", "--texts", "2"];
    const { code, out, err } = await run("chat_server.ts", folder, args, (out, child) => {
      const [address] = /http:\S+/.exec(out) ?? [];
      if (address === undefined) return;
      used ??= talks(address).then(() => ends(address)).then(() => interrupted(address, child))
        .catch((error) => {
          try {
            child.kill("SIGINT");
          } catch (gone) {
            // It has ended: what went wrong before is what counts.
            assert(gone instanceof TypeError, String(gone));
          }
          throw error;
        });
      used.catch(() => {}); // it is waited for when the server has ended
    });
    assert(used !== null, out + err);
    await used;
    assertEquals([code, err], [0, ""], out);
  }));
