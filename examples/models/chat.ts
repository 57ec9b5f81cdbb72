/**
 * A chat with a language model in the terminal. It streams, says how fast it writes, and keeps what was read
 * between turns; Ctrl+C ends it.
 *
 *     deno run -A examples/models/chat.ts --help
 */
import { interruptSignal } from "@netcl/netcl";
import { LanguageModel, type Sampling } from "@netcl/netcl/models";
import { optionsWith } from "../flags.ts";
import { modelFlag, modelPath } from "./model_path.ts";
import { runExample } from "../run_example.ts";
import { screen } from "../terminal/live_screen.ts";

/** The lines that somebody types, or that come by a pipe. */
async function* typed(): AsyncGenerator<string> {
  const isTerminal = Deno.stdin.isTerminal();
  let rest = "";
  if (isTerminal) screen.stream("> ");
  for await (const text of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop()!;
    for (const line of lines) {
      if (line.trim() !== "") yield line.trim();
      if (isTerminal) screen.stream("> ");
    }
  }
  if (rest.trim() !== "") yield rest.trim();
}

/** Shows an answer while it is written, and how fast that went. */
async function show(pieces: AsyncIterable<string>, countOf: () => number): Promise<void> {
  const start = performance.now();
  let first = 0;
  for await (const piece of pieces) {
    first ||= performance.now();
    screen.stream(piece);
  }
  const seconds = (performance.now() - first) / 1000, tokens = countOf() - 1;
  if (first === 0 || tokens < 1) return;
  screen.print(
    `${(tokens / seconds).toFixed(1)} tokens/s; the first after ${
      ((first - start) / 1000).toFixed(2)
    } s`,
  );
}

await runExample({
  about: "Chats with a language model.",
  file: "examples/models/chat.ts",
  flags: {
    model: modelFlag("language"),
    prompt: {
      value: "TEXT",
      default: "",
      takes: "a text",
      accepts: (text) => text !== "",
      help: "asks this one question, and ends",
    },
    ...optionsWith({ length: "256", temperature: "0.7" }),
  },
}, async ({ model, prompt, length, temperature, seed }, print) => {
  const path = await modelPath(model, "language"), before = performance.now();
  using lm = await LanguageModel.load(path);
  print(`${model}: loaded in ${((performance.now() - before) / 1000).toFixed(1)} s`);
  let chat = lm.chat();
  using _last = { [Symbol.dispose]: () => chat[Symbol.dispose]() };
  const options: Sampling = {
    maxTokens: Number(length),
    temperature: Number(temperature),
    topK: 40,
    topP: 0.95,
    repetitionPenalty: 1.1,
    seed: Number(seed),
    signal: interruptSignal,
  };
  const answer = async (question: string) => {
    const asked = { role: "user", content: question };
    if (chat.length > 0 && lm.encode([...chat.messages, asked]).length >= lm.contextLength) {
      print("the chat fills the model's context: it begins anew");
      chat[Symbol.dispose]();
      chat = lm.chat();
    }
    const read = lm.encode([...chat.messages, asked]).length;
    await show(chat.send(question, options), () => chat.length - read);
  };
  if (prompt !== "") return await answer(prompt);
  for await (const question of typed()) await answer(question);
});
