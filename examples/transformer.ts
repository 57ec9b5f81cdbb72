/**
 * Trains a transformer to write like Shakespeare, character by character, on 35 of his sonnets; then
 * it writes a few lines.
 *
 *     deno run -A examples/transformer.ts --help
 */
import { compile, InterruptedError, noGrad, optim, Tensor } from "@netcl/netcl";
import { optionsWith } from "./flags.ts";
import { runExample, sayInterrupted } from "./run_example.ts";
import { screen } from "./terminal/live_screen.ts";
import { Progress } from "./terminal/progress.ts";
import { Transformer } from "./transformer/model.ts";
import { Corpus } from "./transformer/corpus.ts";

const flags = optionsWith({
  steps: "1000",
  "batch-size": "16",
  lr: "0.003",
  length: "400",
  temperature: "0.7",
});
/** After so many steps it is tried on what it does not learn from. */
const ROUND = 50;
/** Passages that it is tried with. */
const TRIAL = 32;

interface Schedule {
  readonly steps: number;
  readonly batchSize: number;
  readonly lr: number;
}

/** The mean loss of saying at every position of passages what comes next. */
function lossOn(model: Transformer, passages: Tensor): Tensor {
  const { context, characters } = model.size;
  const logits = model.forward(passages.slice(null, [0, context]));
  const next = passages.slice(null, [1, context + 1]).flatten();
  return logits.reshape([-1, characters]).crossEntropy(next);
}

/** Teaches the model, and says how it does with the part of the text that it does not see. */
async function train(model: Transformer, text: Corpus, { steps, batchSize, lr }: Schedule) {
  const { context } = model.size, [seen, unseen] = text.split(0.9);
  const optimizer = new optim.AdamW(model.parameters(), { lr, weightDecay: 0.1 });
  const schedule = new optim.CosineAnnealingLR(optimizer, { tMax: steps });
  // One graph for the whole step, passages drawn on the device: recorded once, then replayed.
  const correct = compile((): Tensor => {
    const loss = lossOn(model, seen.draw(batchSize, context + 1));
    optimizer.zeroGrad();
    loss.backward();
    optim.clipGradNorm(model.parameters(), 1);
    optimizer.step();
    return loss;
  });
  const trial = unseen.draw(TRIAL, context + 1).realize(); // the same passages each time
  const progress = new Progress({
    steps,
    stepsPerRound: Math.min(ROUND, steps),
    round: "round",
    unit: "characters",
    isLogarithmic: false,
  });
  for (let step = 1; step <= steps; step++) {
    using loss = correct();
    schedule.step();
    progress.step(await loss.item(), batchSize * context); // this wait lets Ctrl+C in
    if (step % ROUND !== 0 && step !== steps) continue;
    model.eval();
    progress.endRound({ loss: await noGrad(() => lossOn(model, trial)).item() });
    model.train();
  }
  progress.end();
}

/** Writes on from a beginning, character by character, and gives each as soon as it is there. */
async function* write(
  model: Transformer,
  text: Corpus,
  beginning: string,
  length: number,
  temperature: number,
): AsyncGenerator<string> {
  model.eval();
  const { context } = model.size;
  // Adding Gumbel noise before argmax draws from the softmax of the logits.
  const pick = compile((ids: Tensor, last: Tensor): Tensor => {
    const logits = model.forward(ids).indexSelect(1, last).flatten();
    const noise = Tensor.rand([logits.size]).log().neg().log().neg();
    return logits.div(temperature).add(noise).argmax(0);
  });
  const window = new Int32Array(context); // what comes after the last character is not looked at
  let written = beginning;
  for (let k = 0; k < length; k++) {
    const seen = text.encode(written.slice(-context));
    window.set(seen);
    using ids = Tensor.fromHost(window, { shape: [1, context] });
    using last = Tensor.fromHost(Int32Array.of(seen.length - 1));
    using id = noGrad(() => pick(ids, last));
    const character = text.characters[Number(await id.item())]!;
    written += character;
    yield character;
  }
}

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
    await train(model, text, {
      steps: Number(values.steps),
      batchSize: Number(values["batch-size"]),
      lr: Number(values.lr),
    });
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
