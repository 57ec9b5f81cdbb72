/**
 * Random training loops that dispose of nothing: what may be in a step, combined by chance. The loop never
 * awaits but for a loader, and no finalizer ever runs, so that nothing is given back that only the collector
 * finds.
 *
 *     deno run -A tests/tensor/execution/step_programs.ts --device cpu --seed 1 --count 40
 *
 * Prints each loop whose memory grows, with its peaks, and then how many it tried.
 */
import { fileURLToPath } from "node:url";
import type { Tensor } from "../../../mod.ts";

if (import.meta.main) {
  // Whatever V8 collects: nobody is told of it.
  globalThis.FinalizationRegistry = class {
    readonly [Symbol.toStringTag] = "FinalizationRegistry";
    register(): void {}
    unregister(): boolean {
      return false;
    }
  };
}
const {
  amp,
  checkpoint,
  compile,
  DataLoader,
  device,
  manualSeed,
  memory,
  nn,
  noGrad,
  optim,
  Tensor: T,
} = await import("../../../mod.ts");

/** Parts of a step; each loop has one of each row. */
const parts = {
  precision: ["float32", "bfloat16", "float16"],
  layers: ["linear", "attention", "normalized"],
  batches: ["one", "fresh", "of several sizes", "views"],
  hook: ["none", "of parameters", "of an activation", "of the loss"],
  around: ["none", "checkpoint", "keeps the graph", "penalty", "reads first"],
  update: ["SGD", "Adam", "clipped", "by hand", "by hand, realized", "two optimizers"],
  average: ["none", "lerp", "AveragedModel"],
  beside: ["none", "cache", "outputs", "teacher", "metric"],
  accumulated: [1, 2],
  compiled: [false, true],
} as const;

/** One loop. */
export type Loop = { readonly [K in keyof typeof parts]: (typeof parts)[K][number] };

const WIDTH = 64, ROWS = 32;

/** Numbers from 0 to 1, the same for a seed; small ones are spread first, or all would begin with small numbers. */
function numbersFrom(seed: number): () => number {
  let state = Math.imul(seed + 1, 0x9e3779b9) >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

/** A loop by chance; half of what it may have is left at its simplest, so that few things meet. */
function loopFrom(next: () => number): Loop {
  const choose = <V>(of: readonly V[]): V =>
    next() < 0.5 ? of[0]! : of[Math.floor(next() * of.length)]!;
  return Object.fromEntries(
    Object.entries(parts).map(([name, of]) => [name, choose<unknown>(of)]),
  ) as Loop;
}

class Block extends nn.Module {
  readonly attention = new nn.MultiheadAttention(WIDTH, 4, { batchFirst: true });
  override forward(x: Tensor): Tensor {
    const rows = x.reshape([-1, 4, WIDTH]);
    return x.add(this.attention.forward(rows, rows, rows).reshape(x.shape));
  }
}

function modelOf({ layers }: Loop): InstanceType<typeof nn.Sequential> {
  const middle = {
    linear: () => [new nn.GELU()],
    attention: () => [new Block()],
    normalized: () => [new nn.LayerNorm(WIDTH), new nn.Dropout(0.1)],
  }[layers]();
  return new nn.Sequential(new nn.Linear(WIDTH, WIDTH), ...middle, new nn.Linear(WIDTH, WIDTH));
}

/** Gives the batch of each step. */
function batchesOf({ batches }: Loop): (step: number) => Tensor {
  const fixed = T.rand([ROWS, WIDTH]).realize(), all = T.rand([4 * ROWS, WIDTH]).realize();
  const numbers = new Float32Array(ROWS * WIDTH).fill(0.5);
  return (step) => {
    switch (batches) {
      case "one":
        return fixed;
      case "fresh":
        return T.fromHost(numbers, { shape: [ROWS, WIDTH] });
      case "of several sizes":
        return fixed.slice([0, ROWS - 4 * (step % 3)]);
      case "views": {
        const start = (step % 4) * ROWS;
        return all.slice([start, start + ROWS]);
      }
    }
  };
}

/** A loop's step, and what it does with the loss. */
function stepOf(loop: Loop): (x: Tensor) => Tensor {
  const model = modelOf(loop), parameters = model.parameters();
  const half = Math.ceil(parameters.length / 2);
  const groups = loop.update === "two optimizers"
    ? [parameters.slice(0, half), parameters.slice(half)]
    : [parameters];
  const optimizers = groups.map((group) =>
    loop.update === "Adam"
      ? new optim.Adam(group, { lr: 1e-3 })
      : new optim.SGD(group, { lr: 1e-3 })
  );
  const hooked = (g: Tensor): Tensor => g.mul(0.5);
  if (loop.hook === "of parameters") { for (const p of parameters) p.registerHook(hooked); }
  const averages = parameters.map((p) => p.detach().clone().realize());
  const averaged = new optim.AveragedModel(model, { decay: 0.9 });
  const teacher = parameters[0]!.detach();
  const cache = new nn.KeyValueCache({ heads: 1, capacity: 512, features: WIDTH });
  let seen: unknown = null, metric = T.zeros([]);

  const lossOf = (x: Tensor): Tensor => {
    const forward = (x: Tensor): Tensor => model.forward(x) as Tensor;
    const y = loop.around === "checkpoint" ? checkpoint(forward, x) : forward(x);
    if (loop.hook === "of an activation") y.registerHook(hooked);
    if (loop.beside === "outputs") seen = y;
    if (loop.beside === "teacher") return y.sub(x.matmul(teacher)).square().mean();
    return y.square().mean();
  };
  const penaltyOf = (x: Tensor): Tensor => {
    const point = x.detach();
    point.requiresGrad = true;
    (model.forward(point) as Tensor).sum().backward(undefined, { createGraph: true });
    return point.grad!.square().sum();
  };
  const gradients = (x: Tensor): Tensor => {
    const make = (): Tensor => loop.around === "penalty" ? penaltyOf(x) : lossOf(x);
    const loss = amp.autocast(loop.precision, make).div(loop.accumulated);
    if (loop.hook === "of the loss") loss.registerHook(hooked);
    if (loop.around === "reads first" && !loop.compiled) loss.itemSync();
    if (loop.around === "keeps the graph") loss.backward(undefined, { retainGraph: true });
    if (loop.around === "penalty") model.zeroGrad();
    loss.backward();
    return loss;
  };
  const update = (): void => {
    if (loop.update === "clipped") optim.clipGradNorm(parameters, 1);
    if (!loop.update.startsWith("by hand")) return optimizers.forEach((each) => each.step());
    for (const p of parameters) {
      // A penalty has none for the last bias.
      if (p.grad === null) continue;
      p.assign(p.detach().sub(p.grad.mul(1e-3)));
      if (loop.update === "by hand, realized") p.realize();
    }
  };
  const average = (): void => {
    if (loop.average === "AveragedModel") averaged.update();
    if (loop.average !== "lerp") return;
    averages.forEach((e, k) => e.assign(e.lerp(parameters[k]!.detach(), 0.1)));
  };
  const beside = (loss: Tensor): void => {
    if (loop.beside === "metric") metric = metric.mul(0.9).add(loss.detach());
    if (loop.beside !== "cache") return;
    noGrad(() => {
      const [k, v] = [0, 1].map(() => T.rand([1, 1, 1, WIDTH])), kept = cache.append(k!, v!);
      seen = nn.scaledDotProductAttention(k!, kept.keys, kept.values, { mask: kept.mask });
    });
  };
  return (x) => {
    model.zeroGrad();
    let loss = gradients(x);
    for (let k = 1; k < loop.accumulated; k++) loss = gradients(x);
    update();
    average();
    if (!loop.compiled) beside(loss);
    return seen !== null && loop.beside === "outputs" ? loss.detach() : loss;
  };
}

/** Its peaks over the first steps and over those behind, in bytes. */
export function peaksOf(loop: Loop, steps: number, early: number): [early: number, late: number] {
  manualSeed(1);
  const batch = batchesOf(loop),
    plain = stepOf(loop),
    step = loop.compiled ? compile(plain) : plain;
  const peak = (from: number, to: number): number => {
    memory.resetPeakStats();
    for (let k = from; k < to; k++) step(batch(k)).realize();
    return memory.stats().peakRequestedBytes;
  };
  const before = memory.stats().requestedBytes;
  return [peak(0, early) - before, peak(early, steps) - before];
}

/** The same with batches of a loader whose workers read them: it awaits these, and nothing else. */
export async function loaderPeaks(steps: number, early: number): Promise<[number, number]> {
  manualSeed(1);
  const module = new URL("./step_samples.ts", import.meta.url);
  const { default: samples } = await import(module.href);
  const loader = new DataLoader(samples, { batchSize: ROWS, workers: { module, count: 2 } });
  const simplest = Object.fromEntries(
    Object.entries(parts).map(([name, [first]]) => [name, first]),
  );
  const step = stepOf(simplest as Loop), peaks: [number, number] = [0, 0];
  for (let k = 0; k < steps;) {
    for await (const [x] of loader) {
      if (k === early) memory.resetPeakStats();
      step(x!).realize();
      peaks[k < early ? 0 : 1] = memory.stats().peakRequestedBytes;
      if (++k === steps) break;
    }
  }
  return peaks;
}

/** Memory may grow by so much before idle values are looked for: crumbs gather for that long. */
const SLACK = 1 + 1 / 16, SLACK_BYTES = 1 << 16;

/** The loops of a seed that grow, in words. */
export function growing(seed: number, count: number, steps = 200, early = 60): string[] {
  const next = numbersFrom(seed);
  return Array.from({ length: count }, () => loopFrom(next)).flatMap((loop) => {
    const [first, last] = peaksOf(loop, steps, early);
    if (last <= first * SLACK + SLACK_BYTES) return [];
    return [`${JSON.stringify(loop)}: ${first} bytes at most, then ${last}`];
  });
}

async function main(): Promise<void> {
  const of = (name: string, otherwise: string): string => {
    const at = Deno.args.indexOf(`--${name}`);
    return at < 0 ? otherwise : Deno.args[at + 1]!;
  };
  using _device = device(of("device", "cpu"));
  const count = Number(of("count", "20")), seed = Number(of("seed", "1"));
  // What a loop leaves goes while the next one runs: alone, a loop's peak is that of its third step.
  const found = growing(seed, count, 200, count === 1 ? 3 : 60);
  if (Deno.args.includes("--loader")) {
    const [first, last] = await loaderPeaks(200, 60);
    if (last > first * SLACK + SLACK_BYTES) found.push(`a loader: ${first} bytes, then ${last}`);
  }
  for (const line of found) console.log(line);
  console.log(`${count} loops tried, ${found.length} grow`);
  Deno.exit(found.length === 0 ? 0 : 1);
}

/** This file, for who runs it. */
export const program: string = fileURLToPath(import.meta.url);

if (import.meta.main) await main();
