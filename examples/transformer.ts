/**
 * Trains a transformer to write like Shakespeare, character by character, on 35 of his sonnets; then
 * it writes a few lines.
 *
 *     deno run -A examples/transformer.ts --help
 */
import { compile, InterruptedError, noGrad, optim, Tensor } from "@netcl/netcl";
import { count, positive } from "./flags.ts";
import { runExample } from "./run_example.ts";
import { Transformer } from "./transformer/model.ts";
import { Corpus } from "./transformer/corpus.ts";

const flags = {
  steps: { ...count, default: "1000", help: "how often the model is corrected" },
  "batch-size": { ...count, default: "16", help: "passages a step" },
  lr: { ...positive, default: "0.003", help: "the learning rate that AdamW comes down from" },
  length: { ...count, default: "400", help: "how many characters are written in the end" },
  temperature: { ...positive, default: "0.7", help: "how bold the writing is" },
};

interface Schedule {
  readonly steps: number;
  readonly batchSize: number;
  readonly lr: number;
}

/** Teaches the model to say at every position what comes next. */
async function train(model: Transformer, text: Corpus, { steps, batchSize, lr }: Schedule) {
  const { context, characters } = model.size;
  const optimizer = new optim.AdamW(model.parameters(), { lr, weightDecay: 0.1 });
  const schedule = new optim.CosineAnnealingLR(optimizer, { tMax: steps });
  // One graph for the whole step, passages drawn on the device: recorded once, then replayed.
  const correct = compile((): Tensor => {
    const passages = text.draw(batchSize, context + 1);
    const logits = model.forward(passages.slice(null, [0, context]));
    const next = passages.slice(null, [1, context + 1]).flatten();
    const loss = logits.reshape([-1, characters]).crossEntropy(next);
    optimizer.zeroGrad();
    loss.backward();
    optim.clipGradNorm(model.parameters(), 1);
    optimizer.step();
    return loss;
  });
  let losses: number[] = [];
  for (let step = 1; step <= steps; step++) {
    using loss = correct();
    schedule.step();
    losses.push(await loss.item()); // this wait lets Ctrl+C in
    if (step > 1 && step < steps && step % 50 !== 0) continue;
    const mean = losses.reduce((sum, each) => sum + each) / losses.length;
    console.log(`step ${step}/${steps}  loss ${mean.toFixed(4)}`);
    losses = [];
  }
}

/** Writes on from a beginning, character by character. */
async function write(
  model: Transformer,
  text: Corpus,
  beginning: string,
  length: number,
  temperature: number,
): Promise<string> {
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
    written += text.characters[Number(await id.item())]!;
  }
  return written;
}

const about = "Learns to write like Shakespeare, character by character, and then writes.";
await runExample({ about, file: "examples/transformer.ts", flags }, async (values) => {
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
  console.log(`text:   ${text.length} characters, ${text.characters.length} different ones`);
  console.log(`model:  ${weights} parameters`);
  try {
    await train(model, text, {
      steps: Number(values.steps),
      batchSize: Number(values["batch-size"]),
      lr: Number(values.lr),
    });
  } catch (error) {
    if (!(error instanceof InterruptedError)) throw error;
    console.log("interrupted: it writes what it has learned");
    Deno.exitCode = 130;
  }
  const { length, temperature } = values;
  console.log(`\n${await write(model, text, "\n", Number(length), Number(temperature))}`);
});
