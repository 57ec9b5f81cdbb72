/**
 * Trains the model of train.ts on several processes, each with a device and a part of every batch:
 *
 *     mpirun -n 2 deno run -A examples/distributed.ts
 *
 * mpirun comes with MPI (Debian, Ubuntu: apt install openmpi-bin); on a cluster it starts processes on
 * many machines. Without it this is one process of one, which learns the same.
 */
import {
  DataLoader,
  distributed,
  InterruptedError,
  manager,
  manualSeed,
  type nn,
  noGrad,
  optim,
  saveSafetensors,
  Tensor,
  withDevice,
} from "@netcl/netcl";
import { makeOut, reportUsage } from "./flags.ts";
import { pickDevice } from "./run_example.ts";
import { loadDataset } from "./train/datasets.ts";
import type { Labelled } from "./train/loop.ts";
import { makeModel } from "./train/model.ts";
import { helpText, type Options, parseOptions } from "./train/options.ts";

/** The share of unseen samples that are read right; every rank reads a part of them. */
async function accuracy(
  model: nn.Module,
  dataset: Labelled,
  group: distributed.Group,
): Promise<number> {
  model.eval();
  const counts = Tensor.zeros([2]); // right, and all
  for await (const [x, y] of new DataLoader(dataset, { batchSize: 500, shard: group })) {
    const right = noGrad(() => model.forward(x).argmax(1).eq(y).cast("float32").sum());
    counts.assign(counts.add(Tensor.stack([right, Tensor.full([], y.size)]))).realize();
  }
  await group.allReduce([counts], "sum");
  const [right = 0, all = 1] = await counts.toNumbers();
  model.train();
  return right / all;
}

async function train(options: Options, group: distributed.Group): Promise<void> {
  const { epochs, batchSize, lr, seed, out } = options, isFirst = group.rank === 0;
  const data = await loadDataset(options);
  await makeOut(out);
  manualSeed(seed);
  const model = makeModel(options.model, data.size);
  // Every rank goes on from rank 0's weights, and gets the mean of all ranks' gradients.
  using parallel = new distributed.DataParallel(model, group);
  group.manualSeed(seed); // from here on noise differs from rank to rank
  const optimizer = new optim.Adam(model.parameters(), { lr });
  const ownBatch = Math.max(1, Math.round(batchSize / group.size));
  const loader = new DataLoader(data.train, {
    batchSize: ownBatch,
    shuffle: true,
    seed,
    shard: group,
  });
  const schedule = new optim.CosineAnnealingLR(optimizer, { tMax: epochs * loader.length });
  for (let epoch = 1; epoch <= epochs; epoch++) {
    const losses = Tensor.zeros([]);
    for await (const [images, labels] of loader) {
      using x = images, y = labels;
      using loss = parallel.forward(x).crossEntropy(y);
      optimizer.zeroGrad();
      loss.backward();
      optimizer.step();
      schedule.step();
      losses.assign(losses.add(loss.detach().div(loader.length))).realize();
    }
    await group.allReduce([losses], "mean");
    const read = await accuracy(model, data.test, group);
    if (!isFirst) continue;
    const loss = (await losses.item()).toFixed(4);
    console.log(`epoch ${epoch}/${epochs}  loss ${loss}  accuracy ${read.toFixed(4)}`);
  }
  if (isFirst) {
    await saveSafetensors(`${out}/model.safetensors`, model.stateDict());
    console.log(`model: ${out}/model.safetensors`);
  }
  await group.barrier();
}

async function main(options: Options): Promise<void> {
  using group = distributed.init();
  const handle = pickDevice(options.device);
  console.log(`rank ${group.rank} of ${group.size}: ${manager.describeChoice(handle)}`);
  try {
    await withDevice(handle, () => train(options, group));
  } catch (error) {
    if (!(error instanceof InterruptedError)) throw error;
    console.log(`rank ${group.rank} of ${group.size}: interrupted`);
    Deno.exit(130);
  }
}

await reportUsage(async () => {
  const options = parseOptions(Deno.args);
  if (options === "help") {
    const about = "Trains a digit classifier on several processes: mpirun -n 2 deno run -A ...";
    console.log(helpText("examples/distributed.ts", about));
  } else await main(options);
});
