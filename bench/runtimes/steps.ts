/**
 * Training steps whose cost is the runtime's: run by `bench/runtimes/run.ts` on Deno, Node and Bun.
 *
 * For each line of stdin, the name of a work and a number of steps, it prints a line: microseconds of processor
 * time, of that of JavaScript's own thread, and of time that a step took.
 */
import { readFileSync } from "node:fs";
import { cpuUsage, stdin, stdout } from "node:process";
import { createInterface } from "node:readline";
import { compile, manualSeed, nn, optim, Tensor } from "@netcl/netcl";
import { Transformer } from "../../examples/transformer/model.ts";

/** A step to be measured; its loss is read now and then, as programs do. */
type Step = () => Tensor;

/** Steps between two losses that are read. */
const READ_EVERY = 16;

const labels = (count: number, classes: number): Tensor =>
  Tensor.fromHost(Int32Array.from({ length: count }, (_, k) => k * 7 % classes));

function training(model: nn.AnyModule, loss: () => Tensor): Step {
  const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
  return () => {
    optimizer.zeroGrad();
    const found = loss();
    found.backward();
    optimizer.step();
    return found;
  };
}

/** 784 numbers to 10 classes, 64 rows. */
function perceptron(): Step {
  const x = Tensor.rand([64, 784]), y = labels(64, 10);
  const model = new nn.Sequential(new nn.Linear(784, 128), new nn.ReLU(), new nn.Linear(128, 10));
  return training(model, () => model.forward(x).crossEntropy(y));
}

/** Two layers of width 64 on 4 rows of 32 tokens. */
function transformer(): Step {
  const size = { tokens: 65, context: 32, width: 64, heads: 4, layers: 2, dropout: 0 };
  const model = new Transformer(size), ids = labels(128, 65).reshape([4, 32]), y = labels(128, 65);
  return training(model, () => model.forward(ids).reshape([128, 65]).crossEntropy(y));
}

const works: Readonly<Record<string, () => Step>> = {
  "mlp": () => compile(perceptron()),
  "gpt": () => compile(transformer()),
  "mlp, not compiled": perceptron,
  "gpt, not compiled": transformer,
};

const made = new Map<string, Step>();

async function run(step: Step, count: number): Promise<void> {
  for (let k = 1; k <= count; k++) {
    const loss = step();
    if (k % READ_EVERY === 0 || k === count) await loss.item();
    else loss.realize();
    loss.dispose();
  }
}

/** Microseconds for which this thread has run: Linux counts them. */
function threadTime(): number {
  return Number(readFileSync("/proc/thread-self/schedstat", "utf8").split(" ")[0]) / 1000;
}

manualSeed(0);
for await (const line of createInterface({ input: stdin })) {
  const [name, count] = JSON.parse(line) as [string, number];
  const step = made.get(name) ?? works[name]!();
  made.set(name, step);
  const start = performance.now(), before = cpuUsage(), own = threadTime();
  await run(step, count);
  const { user, system } = cpuUsage(before);
  const times = [user + system, threadTime() - own, 1000 * (performance.now() - start)];
  stdout.write(`${JSON.stringify(times.map((time) => Math.round(time / count)))}\n`);
}
