/**
 * Trains a digit classifier on the best device of this machine, and says how well it reads digits
 * that it has not seen.
 *
 *     deno run -A examples/train.ts --help
 */
import { InterruptedError, type nn, saveFileSync, saveSafetensors } from "@netcl/netcl";
import { makeOut } from "./flags.ts";
import { runExample, sayInterrupted } from "./run_example.ts";
import { screen } from "./terminal/live_screen.ts";
import { shown } from "./terminal/progress.ts";
import { drawConfusion } from "./train/confusion.ts";
import { classNames, type Data, datasetPaths, loadDataset } from "./train/datasets.ts";
import { evaluate, type Evaluation, train } from "./train/loop.ts";
import { drawLossCurve } from "./train/loss_curve.ts";
import { makeModel } from "./train/model.ts";
import { about, flags, type Options, optionsOf } from "./train/options.ts";

/** The course of training. */
interface History {
  /** The loss of every step that was made. */
  readonly losses: number[];
  /** Scores for unseen samples after each epoch. */
  readonly unseen: Evaluation[];
}

/** Trains until the end or Ctrl+C, and shows how it goes. */
async function shownTraining(model: nn.Module, data: Data, options: Options): Promise<History> {
  const stepsPerRound = Math.ceil(data.train.length / options.batchSize);
  const plan = { steps: options.epochs * stepsPerRound, stepsPerRound, unit: "samples" };
  const losses: number[] = [], scores: Evaluation[] = [];
  try {
    for await (
      const { loss, unseen } of shown(train(model, data.train, data.test, options), plan)
    ) {
      losses.push(loss);
      if (unseen) scores.push(unseen);
    }
  } catch (error) {
    if (!(error instanceof InterruptedError)) throw error;
    sayInterrupted(` in epoch ${Math.floor(losses.length / stepsPerRound) + 1}: saving`);
  }
  return { losses, unseen: scores };
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
  await makeOut(options.out);
  const { train: { length: seen }, test: { length: unseen } } = data;
  screen.print(
    `data:   ${options.dataset}, ${seen.toLocaleString("en")} samples to train on, ` +
      `${unseen.toLocaleString("en")} to test with`,
  );
  const model = makeModel(options.model, data.size);
  const history = await shownTraining(model, data, options);
  const read = await evaluate(model, data.test);
  await save(model, history, read, data, options);
  screen.print(`accuracy:   ${read.accuracy.toFixed(4)} on unseen samples`);
});
