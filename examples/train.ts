/**
 * Trains a digit classifier on the best device of this machine, and says how well it reads digits
 * that it has not seen.
 *
 *     deno run -A examples/train.ts --help
 */
import {
  DataLoader,
  type Dataset,
  InterruptedError,
  type nn,
  noGrad,
  optim,
  saveFileSync,
  saveSafetensors,
} from "@netcl/netcl";
import { runExample, sayInterrupted } from "./run_example.ts";
import { screen } from "./terminal/live_screen.ts";
import { Progress } from "./terminal/progress.ts";
import { drawConfusion } from "./train/confusion.ts";
import { classNames, type Data, datasetPaths, loadDataset } from "./train/datasets.ts";
import { drawLossCurve } from "./train/loss_curve.ts";
import { makeModel } from "./train/model.ts";
import { about, flags, type Options, optionsOf } from "./train/options.ts";

/** How training went. */
interface History {
  /** The loss of every step that was made. */
  readonly losses: number[];
  /** What the model did with unseen samples right after each epoch. */
  readonly unseen: Evaluation[];
}

/** How a model does with samples that it does not learn from. */
interface Evaluation {
  /** How often each class (a row) is read as each class (a column). */
  readonly counts: number[][];
  /** The share that is read right. */
  readonly accuracy: number;
  /** The mean cross-entropy. */
  readonly loss: number;
}

/** Trains until the end or Ctrl+C. */
async function train(model: nn.Module, data: Data, options: Options): Promise<History> {
  const { epochs, batchSize, lr, seed } = options;
  const optimizer = new optim.Adam(model.parameters(), { lr });
  const loader = new DataLoader(data.train, { batchSize, shuffle: true, seed });
  const steps = epochs * loader.length;
  // Large steps first; the small last ones settle what those have found.
  const schedule = new optim.CosineAnnealingLR(optimizer, { tMax: steps });
  const progress = new Progress({ steps, stepsPerRound: loader.length, unit: "samples" });
  const losses: number[] = [], unseen: Evaluation[] = [];
  try {
    for (let epoch = 1; epoch <= epochs; epoch++) {
      model.train();
      for await (const [images, labels] of loader) {
        using x = images!, y = labels!;
        using loss = model.forward(x).crossEntropy(y);
        optimizer.zeroGrad();
        loss.backward();
        optimizer.step();
        schedule.step();
        losses.push(await loss.item());
        progress.step(losses.at(-1)!, y.size);
      }
      unseen.push(await evaluate(model, data.test));
      progress.endRound(unseen.at(-1));
    }
    progress.end();
  } catch (error) {
    if (!(error instanceof InterruptedError)) throw error;
    sayInterrupted(` in epoch ${progress.round}: saving`);
  }
  return { losses, unseen };
}

async function evaluate(model: nn.Module, dataset: Dataset): Promise<Evaluation> {
  model.eval();
  const counts = Array.from({ length: 10 }, () => Array<number>(10).fill(0));
  let loss = 0, right = 0;
  for await (const [images, labels] of new DataLoader(dataset, { batchSize: 1000 })) {
    using x = images!, y = labels!;
    using logits = noGrad(() => model.forward(x));
    const [is, readAs] = [await y.toNumbers(), await logits.argmax(1).toNumbers()];
    loss += await logits.crossEntropy(y, { reduction: "sum" }).item();
    is.forEach((label, k) => {
      counts[label]![readAs[k]!]!++;
      if (label === readAs[k]) right++;
    });
  }
  return { counts, accuracy: right / dataset.length, loss: loss / dataset.length };
}

async function save(
  model: nn.Module,
  { losses, unseen }: History,
  read: Evaluation,
  data: Data,
  options: Options,
) {
  const { out, dataset, model: kind, seed, batchSize } = options;
  await saveSafetensors(`${out}/model.safetensors`, model.stateDict(), {
    metadata: { dataset, model: kind, seed: `${seed}` },
  });
  const stepsPerEpoch = Math.ceil(data.train.length / batchSize);
  const title = `${dataset}, ${kind}, seed ${seed}`;
  saveFileSync(`${out}/loss.svg`, drawLossCurve(losses, stepsPerEpoch, title, unseen));
  saveFileSync(`${out}/loss.json`, JSON.stringify(losses));
  saveFileSync(
    `${out}/confusion.svg`,
    drawConfusion(read.counts, classNames(dataset), `Unseen: ${title}`),
  );
  screen.print(`model:      ${out}/model.safetensors`);
  screen.print(`loss curve: ${out}/loss.svg (its numbers: ${out}/loss.json)`);
  screen.print(`confusion:  ${out}/confusion.svg`);
}

const file = "examples/train.ts";
const needs = (values: Parameters<typeof optionsOf>[0]): Deno.PermissionDescriptor[] => {
  const paths = [...datasetPaths(optionsOf(values)), values.out];
  return [...paths.map((path) => ({ name: "read", path } as const)), {
    name: "write",
    path: values.out,
  }];
};
await runExample({ about, file, flags, needs }, async (values) => {
  const options = optionsOf(values), data = await loadDataset(options);
  await Deno.mkdir(options.out, { recursive: true }); // a folder that cannot be is said now
  const [seen, unseen] = [data.train.length, data.test.length].map((n) => n.toLocaleString("en"));
  screen.print(`data:   ${options.dataset}, ${seen} samples to train on, ${unseen} to test with`);
  const model = makeModel(options.model, data.size);
  const history = await train(model, data, options);
  const read = await evaluate(model, data.test);
  await save(model, history, read, data, options);
  screen.print(`accuracy:   ${read.accuracy.toFixed(4)} on unseen samples`);
});
