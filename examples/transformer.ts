/**
 * Trains a transformer to write like Shakespeare, character by character, on 35 of his sonnets; then
 * it writes a few lines.
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

const flags = optionsWith({
  steps: "1000",
  "batch-size": "16",
  lr: "0.003",
  length: "400",
  temperature: "0.7",
});
const about = "Learns to write like Shakespeare, character by character, and then writes.";
await runExample({ about, file: "examples/transformer.ts", flags }, async (values, print) => {
  const source = new URL("data/sonnets.txt", import.meta.url);
  const text = new Corpus(await Deno.readTextFile(source));
  const model = new Transformer({
    characters: text.characters.length,
    context: 64,
    width: 64,
    heads: 4,
    layers: 2,
    dropout: 0.1,
  });
  const weights = model.parameters().reduce((sum, { size }) => sum + size, 0);
  print(`text:   ${text.length} characters, ${text.characters.length} different ones`);
  print(`model:  ${weights} parameters`);
  try {
    const steps = Number(values.steps), batchSize = Number(values["batch-size"]);
    const lr = Number(values.lr), stepsPerRound = Math.min(ROUND, steps);
    const plan = { steps, stepsPerRound, round: "round", unit: "characters", isLogarithmic: false };
    await Array.fromAsync(shown(train(model, text, { steps, batchSize, lr }), plan));
  } catch (error) {
    if (!(error instanceof InterruptedError)) throw error;
    sayInterrupted(": it writes what it has learned");
  }
  const [length, temperature] = [Number(values.length), Number(values.temperature)];
  screen.stream("\n");
  for await (const character of write(model, text, "\n", length, temperature)) {
    screen.stream(character);
  }
  screen.stream("\n");
});
