/**
 * Trains a transformer to write like Jane Austen, by words and parts of words that it learns from the
 * first volume of "Pride and Prejudice"; then it writes a page.
 *
 *     deno run -A examples/transformer.ts --help
 */
import { InterruptedError } from "@netcl/netcl";
import { optionsWith } from "./flags.ts";
import { runExample, sayInterrupted } from "./run_example.ts";
import { screen } from "./terminal/live_screen.ts";
import { shown } from "./terminal/progress.ts";
import { Transformer } from "./transformer/model.ts";
import { Corpus } from "./transformer/corpus.ts";
import { ROUND, train, write } from "./transformer/loop.ts";
import { Vocabulary } from "./transformer/vocabulary.ts";

/** Columns of the page that it writes. */
const PAGE = 80;
const flags = optionsWith({
  steps: "1000",
  "batch-size": "16",
  lr: "0.003",
  length: "200",
  temperature: "0.5",
});
const about = "Learns to write like Jane Austen, and then writes.";
await runExample({ about, file: "examples/transformer.ts", flags }, async (values, print) => {
  const source = new URL("data/pride_and_prejudice.txt", import.meta.url);
  const text = await Deno.readTextFile(source), vocabulary = new Vocabulary(text, 2048);
  const corpus = new Corpus(text, vocabulary);
  const model = new Transformer({
    tokens: vocabulary.tokens.length,
    context: 64,
    width: 128,
    heads: 4,
    layers: 2,
    dropout: 0.1,
  });
  const weights = model.parameters().reduce((sum, { size }) => sum + size, 0);
  print(
    `text:   ${text.length} characters: ${corpus.length} tokens of ${vocabulary.tokens.length}`,
  );
  print(`model:  ${weights} parameters`);
  try {
    const steps = Number(values.steps), batchSize = Number(values["batch-size"]);
    const lr = Number(values.lr), stepsPerRound = Math.min(ROUND, steps);
    const plan = { steps, stepsPerRound, round: "round", unit: "tokens", isLogarithmic: false };
    await Array.fromAsync(shown(train(model, corpus, { steps, batchSize, lr }), plan));
  } catch (error) {
    if (!(error instanceof InterruptedError)) throw error;
    sayInterrupted(": it writes what it has learned");
  }
  const [length, temperature] = [Number(values.length), Number(values.temperature)];
  screen.stream("\n");
  let column = 0;
  for await (const token of write(model, vocabulary, "\n", length, temperature)) {
    const isOver = column + token.length > PAGE && token.startsWith(" ");
    screen.stream(isOver ? `\n${token.trimStart()}` : token);
    column = isOver || token === "\n" ? 0 : column + token.length;
  }
  screen.stream("\n");
});
