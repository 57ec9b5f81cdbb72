/** Training on several ranks, held against training on one; run by data_parallel_test.ts. */
import { assert, assertEquals } from "@std/assert";
import {
  amp,
  compile,
  DataLoader,
  device,
  distributed,
  manualSeed,
  memory,
  nn,
  optim,
  profiler,
  Tensor,
  TensorDataset,
} from "../../mod.ts";
import { assertSameEverywhere, valuesOf } from "./ways/everywhere.ts";
import { wayOf } from "./ways/way.ts";
import { learn } from "../tensor/training.ts";

const { way, args } = wayOf(import.meta.url);
using _dev = device(args[0]!);
using group = distributed.init();
const reduceOn = args[1] as "host" | "device";
const { rank, size } = group, ranks = Array.from({ length: size }, (_, r) => r);
/** Learns from everything, and compares: where all ranks have the same bits, one is enough. */
const isJudge = rank === 0;

function makeModel(seed: number): nn.Sequential {
  manualSeed(seed);
  return new nn.Sequential(new nn.Linear(6, 16), new nn.Tanh(), new nn.Linear(16, 3));
}

/** Samples of all ranks, the same everywhere. */
function samples(count: number): [x: Tensor, y: Tensor] {
  const x = Float32Array.from({ length: count * 6 }, (_, k) => Math.sin(k * 1.3));
  const y = Int32Array.from({ length: count }, (_, k) => k % 3);
  return [Tensor.fromHost(x, { shape: [count, 6] }), Tensor.fromHost(y)];
}

function assertNear(actual: readonly number[], expected: readonly number[], what: string): void {
  assertEquals(actual.length, expected.length, what);
  const worst = Math.max(...actual.map((x, k) => Math.abs(x - expected[k]!)));
  assert(worst < 1e-4, `${what}: off by ${worst}`);
}

type Step = (model: nn.Sequential, x: Tensor, y: Tensor) => Tensor;
type Way = (optimizer: optim.Optimizer, model: nn.Sequential, loss: () => Tensor) => void;

/**
 * Far above rounding: Adam divides a gradient by its own size, and makes steps of what rounding leaves
 * of those that should be 0. Devices round sums of parts of a batch in other ways than those of all.
 */
const eps = 1e-3;

/** Three steps on all samples, or on this rank's. */
function train(model: nn.Sequential, forward: Step, x: Tensor, y: Tensor, way: Way): void {
  const optimizer = new optim.Adam(model.parameters(), { lr: 0.05, eps });
  for (let step = 0; step < 3; step++) way(optimizer, model, () => forward(model, x, y));
}
const plain: Way = (optimizer, _model, loss) => {
  learn(optimizer, loss());
};
const [allX, allY] = samples(8 * size);
const own = [8 * rank, 8 * (rank + 1)] as const;
const [x, y] = [allX.slice(own), allY.slice(own)];
const alone: Step = (model, x, y) => model.forward(x).crossEntropy(y);

/** Asserts that ranks learn together what one learns from everything. */
async function check(
  what: string,
  way: Way,
  aloneWay: Way = way,
  bucketBytes = 200,
): Promise<void> {
  const model = makeModel(rank);
  using parallel = new distributed.DataParallel(model, group, { bucketBytes, reduceOn });
  train(model, (_, x, y) => parallel.forward(x).crossEntropy(y), x, y, way);
  const weights = await valuesOf(model);
  await assertSameEverywhere(group, weights, what);
  if (!isJudge) return;
  const expected = makeModel(0);
  train(expected, alone, allX, allY, aloneWay);
  assertNear(weights, await valuesOf(expected), what);
}

await check("several buckets", plain);
await check("one bucket", plain, plain, 2 ** 20);
await check("the loss is read before the step", (optimizer, _model, loss) => {
  optimizer.zeroGrad();
  const value = loss();
  value.itemSync();
  value.backward();
  value.itemSync();
  optimizer.step();
});
await check("clipped gradients", (optimizer, model, loss) => {
  optimizer.zeroGrad();
  loss().backward();
  optim.clipGradNorm(model.parameters(), 0.05);
  optimizer.step();
});
const scaler = new amp.GradScaler({ initScale: 256 });
await check("GradScaler", (optimizer, _model, loss) => {
  optimizer.zeroGrad();
  scaler.scale(loss()).backward();
  scaler.step(optimizer);
  scaler.update();
});
await check("gradients that are added up", (optimizer, _model, loss) => {
  optimizer.zeroGrad();
  loss().backward();
  loss().backward();
  optimizer.step();
});

{
  // An infinite loss on one rank: all skip the step.
  const model = makeModel(0), before = await valuesOf(model);
  using parallel = new distributed.DataParallel(model, group, { reduceOn });
  const optimizer = new optim.SGD(model.parameters(), { lr: 1 });
  scaler.scale(parallel.forward(rank === 1 ? x.mul(Infinity) : x).sum()).backward();
  scaler.step(optimizer);
  scaler.update();
  assertEquals(await valuesOf(model), before);
  await assertSameEverywhere(group, [await scaler.currentScale()], "the scale");
}
{
  // noSync: nothing is reduced inside; what was added up there is, at the next backward.
  const model = makeModel(0), expected = makeModel(0);
  using parallel = new distributed.DataParallel(model, group, { reduceOn });
  const halves = [[0, 4], [4, 8]] as const;
  parallel.noSync(() => {
    parallel.forward(x.slice(halves[0])).crossEntropy(y.slice(halves[0])).mul(0.5).backward();
  });
  const mine = await model.parameters()[0]!.grad!.sum().item();
  const all = await (await group.allGather(Tensor.fromHost([mine]))).toNumbers();
  assert(new Set(all).size > 1, "ranks have gradients of their own within noSync");
  await parallel.noSync(async () => await Promise.resolve());
  parallel.forward(x.slice(halves[1])).crossEntropy(y.slice(halves[1])).mul(0.5).backward();
  if (isJudge) alone(expected, allX, allY).backward();
  for (const [k, p] of model.parameters().entries()) {
    const gradient = await p.grad!.toNumbers();
    await assertSameEverywhere(group, gradient, "noSync");
    if (isJudge) assertNear(gradient, await expected.parameters()[k]!.grad!.toNumbers(), "noSync");
  }
}
{
  // Compiled gradients, reduced behind it.
  const model = makeModel(rank);
  using parallel = new distributed.DataParallel(model, group, { reduceOn });
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  const gradients = compile((x: Tensor, y: Tensor) => {
    optimizer.zeroGrad();
    const loss = model.forward(x).crossEntropy(y);
    loss.backward();
    return loss;
  });
  const whole = compile((x: Tensor, y: Tensor) => {
    return learn(optimizer, parallel.forward(x).crossEntropy(y));
  });
  for (let k = 0; k < 4; k++) {
    parallel.noSync(() => gradients(x, y));
    parallel.reduceGradients();
    optimizer.step();
  }
  for (let k = 0; k < 3; k++) whole(x, y);
  const weights = await valuesOf(model);
  await assertSameEverywhere(group, weights, "compile");
  if (isJudge) {
    const expected = makeModel(0), other = new optim.SGD(expected.parameters(), { lr: 0.1 });
    for (let k = 0; k < 7; k++) plain(other, expected, () => alone(expected, allX, allY));
    assertNear(weights, await valuesOf(expected), "compile");
  }
}
{
  // Parameters that some ranks, or none, use; of half precision, too.
  const used = new nn.Linear(2, 2), some = new nn.Linear(2, 2), none = new nn.Linear(2, 2);
  some.cast("float16");
  class Model extends nn.Module {
    parts = [used, some, none];
    override forward(x: Tensor): Tensor {
      const y = used.forward(x).sum();
      return rank === 0 ? y.add(some.forward(x.cast("float16")).sum().cast("float32")) : y;
    }
  }
  using parallel = new distributed.DataParallel(new Model(), group, { reduceOn });
  parallel.forward(Tensor.ones([4, 2])).backward();
  assertEquals(await used.weight.grad!.toArray(), [[4, 4], [4, 4]]);
  const mean = new Float16Array([4 / size])[0]!;
  assertEquals(await some.bias!.grad!.toArray(), [mean, mean]);
  assertEquals([some.bias!.grad!.dtype, none.weight.grad], ["float16", null]);
}
{
  // Batches of different sizes: the mean of ranks.
  const model = new nn.Linear(1, 1, { bias: false });
  using parallel = new distributed.DataParallel(model, group, { reduceOn });
  parallel.forward(Tensor.full([rank + 1, 1], rank)).sum().backward();
  const total = ranks.reduce((sum, r) => sum + r * (r + 1), 0);
  assertNear(await model.weight.grad!.toNumbers(), [total / size], "unequal batches");
}
{
  // Running statistics are rank 0's, and the same everywhere; what stateDict gave before stays.
  const norm = new nn.BatchNorm1d(6), model = new nn.Sequential(norm, new nn.Linear(6, 1));
  using parallel = new distributed.DataParallel(model, group, { reduceOn });
  const before = model.stateDict()["0.running_mean"]!;
  parallel.forward(x).sum().backward();
  const mean = await norm.runningMean!.toNumbers();
  const first = await allX.slice([0, 8]).mean(0).mul(0.1).toNumbers();
  assertNear(mean, first, "running mean of rank 0");
  assertEquals(await norm.numBatchesTracked!.item(), 1);
  assertEquals(await before.toNumbers(), Array(6).fill(0));
}
{
  // SyncBatchNorm on parts, of different sizes, is BatchNorm on everything: forward and backward.
  const norm = new distributed.SyncBatchNorm(6, group), whole = new nn.BatchNorm1d(6);
  const parts = [...ranks.map((r) => 8 * r + (r > 0 ? 3 : 0)), 8 * size];
  const part = [parts[rank]!, parts[rank + 1]!] as const;
  const leaf = allX.slice(part).detach().realize(), all = allX.detach().realize();
  leaf.requiresGrad = all.requiresGrad = true;
  const weigh = (y: Tensor, k: Tensor) => y.mul(k.add(1).sin()).square().sum();
  weigh(norm.forward(leaf), allX.slice(part)).backward();
  weigh(whole.forward(all), allX).backward();
  const expected = all.grad!.slice(part);
  assertNear(await leaf.grad!.toNumbers(), await expected.toNumbers(), "SyncBatchNorm");
  for (const name of ["runningMean", "runningVar"] as const) {
    assertNear(await norm[name]!.toNumbers(), await whole[name]!.toNumbers(), name);
  }
  await norm.weight!.grad!.toNumbers();
}
{
  // The order of chance is one for all ranks, noise is not.
  manualSeed(rank);
  const data = new TensorDataset({
    data: Float32Array.from({ length: 24 }, (_, k) => k),
    shape: [24],
  });
  const seen: number[] = [];
  for await (const [batch] of new DataLoader(data, { batchSize: 3, shuffle: true, shard: group })) {
    seen.push(...await (await group.allGather(batch!)).toNumbers());
  }
  assertEquals(seen.toSorted((a, b) => a - b), Array.from({ length: 24 }, (_, k) => k));
  group.manualSeed(7);
  const noise = await (await group.allGather(Tensor.rand([1]))).toNumbers();
  assertEquals(new Set(noise).size, size);
}
{
  // Memory stays where it is, step after step.
  const model = makeModel(0), optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  using parallel = new distributed.DataParallel(model, group, { bucketBytes: 300, reduceOn });
  const step = () => {
    using loss = parallel.forward(x).crossEntropy(y);
    plain(optimizer, model, () => loss);
  };
  for (let k = 0; k < 5; k++) step();
  const live = memory.stats().currentAllocated;
  profiler.reset();
  for (let k = 0; k < 20; k++) step();
  assertEquals(memory.stats().currentAllocated, live);
  assertEquals(profiler.counters().nativeAllocs, 0);
}
{
  // Adam's moments in shards learn the same, and take an n-th of the memory.
  const wide = () => {
    manualSeed(5);
    const layers = Array.from({ length: 2 * size }, () => new nn.Linear(64, 64));
    return new nn.Sequential(new nn.Linear(6, 64), ...layers, new nn.Linear(64, 3));
  };
  const model = wide(), expected = wide();
  using parallel = new distributed.DataParallel(model, group, { reduceOn });
  const added = <T>(make: () => T): [T, number] => {
    const before = memory.stats().currentAllocated;
    return [make(), memory.stats().currentAllocated - before];
  };
  const adam = (own: Tensor[]) => new optim.Adam(own, { lr: 0.01 });
  const [optimizer, bytes] = added(() =>
    new distributed.ShardedOptimizer(model.parameters(), group, adam)
  );
  const [other, allBytes] = added(() => adam(expected.parameters()));
  // Values of the programs above may move to the host meanwhile.
  assert(bytes < 1.5 * allBytes / size, `${bytes} of ${allBytes} bytes`);
  for (let k = 0; k < 3; k++) {
    learn(optimizer, parallel.forward(x).crossEntropy(y));
    plain(other, expected, () => alone(expected, allX, allY));
  }
  const weights = await valuesOf(model);
  await assertSameEverywhere(group, weights, "ZeRO");
  assertNear(weights, await valuesOf(expected), "ZeRO");
  const state = optimizer.stateDict(), whole = other.stateDict();
  assertEquals(Object.keys(state).sort(), Object.keys(whole).sort());
  for (const [name, tensor] of Object.entries(whole)) {
    assertNear(await state[name]!.flatten().toNumbers(), await tensor.flatten().toNumbers(), name);
  }
  optimizer.loadStateDict(whole);
  optimizer.lr = 0.5;
  assertEquals(optimizer.lr, 0.5);
  optimizer.dispose();
}
{
  let message = "";
  try {
    new distributed.DataParallel(new nn.Linear(rank === 0 ? 3 : 4, 1), group);
  } catch (error) {
    message = (error as TypeError).message;
  }
  assert(message.includes(rank === 0 ? `rank ${size - 1} has other` : "[1, 4]"), message);
}
console.log(`rank ${rank} of ${size}, ${way}: good`);
