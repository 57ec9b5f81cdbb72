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
  manager,
  manualSeed,
  type nn,
  noGrad,
  optim,
  saveFileSync,
  saveSafetensors,
  withDevice,
} from "@netcl/netcl";
import { reportUsage } from "./flags.ts";
import { pickDevice } from "./run_example.ts";
import { drawConfusion } from "./train/confusion.ts";
import { classNames, type Data, datasetPaths, loadDataset } from "./train/datasets.ts";
import { drawLossCurve } from "./train/loss_curve.ts";
import { makeModel } from "./train/model.ts";
import { helpText, type Options, parseOptions } from "./train/options.ts";
import { askFor } from "./train/permissions.ts";
import { Progress } from "./train/progress.ts";

/** How training went. */
interface History {
  /** The loss of every step that was made. */
  readonly losses: number[];
  /** The share of unseen samples that were read right after each epoch. */
  readonly accuracies: number[];
}

/** Trains until the end or Ctrl+C. */
async function train(model: nn.Module, data: Data, options: Options): Promise<History> {
  const { epochs, batchSize, lr, seed } = options;
  const optimizer = new optim.Adam(model.parameters(), { lr });
  const loader = new DataLoader(data.train, { batchSize, shuffle: true, seed });
  // Large steps first; the small last ones settle what those have found.
  const schedule = new optim.CosineAnnealingLR(optimizer, { tMax: epochs * loader.length });
  const progress = new Progress(epochs, loader.length);
  const losses: number[] = [], accuracies: number[] = [];
  try {
    for (let epoch = 1; epoch <= epochs; epoch++) {
      progress.begin(epoch);
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
      accuracies.push(share(await confusion(model, data.test)));
      progress.end(accuracies.at(-1)!);
    }
  } catch (error) {
    if (!(error instanceof InterruptedError)) throw error;
    progress.interrupted();
    Deno.exitCode = 130;
  }
  return { losses, accuracies };
}

/** How often each class (a row) is read as each class (a column). */
async function confusion(model: nn.Module, dataset: Dataset): Promise<number[][]> {
  model.eval();
  const counts = Array.from({ length: 10 }, () => Array<number>(10).fill(0));
  for await (const [images, labels] of new DataLoader(dataset, { batchSize: 1000 })) {
    using x = images!, y = labels!;
    using read = noGrad(() => model.forward(x).argmax(1));
    const [is, readAs] = [await y.toNumbers(), await read.toNumbers()];
    is.forEach((label, k) => counts[label]![readAs[k]!]!++);
  }
  return counts;
}

/** The share of what is read right. */
function share(counts: readonly (readonly number[])[]): number {
  const right = counts.reduce((sum, row, k) => sum + row[k]!, 0);
  return right / counts.flat().reduce((sum, count) => sum + count, 0);
}

async function save(
  model: nn.Module,
  { losses, accuracies }: History,
  read: number[][],
  data: Data,
  options: Options,
) {
  const { out, dataset, model: kind, seed, batchSize } = options;
  await Deno.mkdir(out, { recursive: true });
  await saveSafetensors(`${out}/model.safetensors`, model.stateDict(), {
    metadata: { dataset, model: kind, seed: `${seed}` },
  });
  const stepsPerEpoch = Math.ceil(data.train.length / batchSize);
  const title = `${dataset}, ${kind}, seed ${seed}`;
  const curve = drawLossCurve(losses, stepsPerEpoch, title, accuracies);
  saveFileSync(`${out}/loss.svg`, curve);
  saveFileSync(`${out}/loss.json`, JSON.stringify(losses));
  saveFileSync(
    `${out}/confusion.svg`,
    drawConfusion(read, classNames(dataset), `Unseen: ${title}`),
  );
  console.log(`model:       ${out}/model.safetensors`);
  console.log(`loss curve:  ${out}/loss.svg (its numbers: ${out}/loss.json)`);
  console.log(`confusion:   ${out}/confusion.svg`);
}

async function main(options: Options): Promise<void> {
  await askFor(
    ...[...datasetPaths(options), options.out].map((path) => ({ name: "read", path } as const)),
    { name: "write", path: options.out },
  );
  const handle = pickDevice(options.device);
  console.log(`device:      ${manager.describeChoice(handle)}`);
  const data = await loadDataset(options);
  console.log(
    `data:        ${options.dataset}, ${data.train.length} samples to train on, ` +
      `${data.test.length} to test with`,
  );
  await withDevice(handle, async () => {
    manualSeed(options.seed);
    const model = makeModel(options.model, data.size);
    const history = await train(model, data, options);
    const read = await confusion(model, data.test);
    await save(model, history, read, data, options);
    console.log(`accuracy:    ${share(read).toFixed(4)} on unseen samples`);
  });
}

await reportUsage(async () => {
  const options = parseOptions(Deno.args);
  if (options === "help") console.log(helpText());
  else await main(options);
});
