/**
 * netcl itself, asked as its peers are: `deno run -A bench/peers/netcl.ts [DEVICE]`. With three arguments more,
 * `first KIND SIZE`, it prints the seconds of a model's first training step, and ends; with
 * `peak KIND SIZE STEPS [compiled]`, the bytes that tensors and pools held at most in so many steps.
 */
import {
  type BlockFormatName,
  Buffer,
  compile,
  device,
  getPinnedPool,
  grad,
  manager,
  memory,
  nn,
  noGrad,
  optim,
  profiler,
  realizeAll,
  setDeterministic,
  Tensor,
} from "@netcl/netcl";
import { packedBytes } from "../works.ts";
import { graphWorks } from "./netcl_graphs.ts";
import { numberWorks } from "./netcl_numbers.ts";
import { modelStep } from "./netcl_steps.ts";
import { wildWorks } from "./netcl_wild.ts";
import { GPT, type Precision, ResNet, uniform } from "./models.ts";
import { type Countable, type Maker, type Runnable, serve } from "./serve.ts";

const selector = Deno.args[0] ?? "cl";
const handle = manager.default(selector);
const batches = 16;

function sync(): void {
  handle.queue?.finishSync();
}

function random(...shape: number[]): Tensor {
  return noGrad(() => Tensor.rand(shape).sub(0.5).realize());
}

/** A function of random tensors, computed anew with every call. */
function expression(
  shapes: number[][],
  fn: (...inputs: Tensor[]) => Tensor,
  variant?: string,
): Runnable {
  const inputs = shapes.map((shape) => random(...shape));
  const call = variant === "compiled" ? compile(fn) : fn;
  const run = () => noGrad(() => call(...inputs).realize().dispose());
  return { run, sync, close: () => inputs.forEach((input) => input.dispose()) };
}

function convolutionBackward(batch: number): Runnable {
  const x = random(batch, 16, 28, 28), w = random(32, 16, 3, 3);
  x.requiresGrad = w.requiresGrad = true;
  const gradients = [Tensor.ones([batch, 32, 28, 28]).realize()];
  const y = x.conv2d(w, { padding: 1 }).realize();
  const run = () => {
    const found = grad([y], [x, w], { gradients, retainGraph: true });
    realizeAll(found);
    for (const tensor of found) tensor.dispose();
  };
  return { run, sync, close: () => [x, w, y, ...gradients].forEach((tensor) => tensor.dispose()) };
}

function mlp(): nn.Module {
  return new nn.Sequential(
    new nn.Linear(784, 256),
    new nn.ReLU(),
    new nn.Linear(256, 128),
    new nn.ReLU(),
    new nn.Linear(128, 10),
  );
}

function cnn(): nn.Module {
  return new nn.Sequential(
    new nn.Conv2d(1, 16, 3, { padding: 1 }),
    new nn.ReLU(),
    new nn.Conv2d(16, 32, 3, { padding: 1 }),
    new nn.ReLU(),
    new nn.MaxPool2d(2),
    new nn.Flatten(),
    new nn.Linear(32 * 14 * 14, 10),
  );
}

/** A training step with Adam; every call takes the next of a few batches. */
function training(model: nn.Module, shape: number[], variant: string | undefined): Runnable {
  const optimizer = new optim.Adam(model.parameters(), { lr: 1e-3 });
  const step = (x: Tensor, y: Tensor): Tensor => {
    const loss = model.forward(x).crossEntropy(y);
    optimizer.zeroGrad();
    loss.backward();
    optimizer.step();
    return loss;
  };
  const inputs = Array.from({ length: batches }, () => random(...shape));
  const labels = inputs.map((_, batch) =>
    Tensor.fromHost(Uint8Array.from({ length: shape[0]! }, (_, i) => (7 * i + 3 * batch) % 10))
  );
  const call = variant === "compiled" ? compile(step) : step;
  let made = 0;
  const run = () => {
    const batch = made++ % batches;
    call(inputs[batch]!, labels[batch]!).realize().dispose();
  };
  return { run, sync, close: () => [...inputs, ...labels].forEach((tensor) => tensor.dispose()) };
}

/** A counter over one step, after enough of them for everything to be made. */
function counted(counter: "kernels" | "nativeAllocs"): Maker {
  return (size, variant): Countable => {
    const { run, close } = training(mlp(), [size, 784], variant);
    for (let step = 0; step < 20; step++) run();
    const count = () => {
      profiler.reset();
      run();
      sync();
      return profiler.counters()[counter];
    };
    return { count, close: close! };
  };
}

function adds(times: number): Runnable {
  const y = random(64);
  const run = () =>
    noGrad(() => {
      let x = y.add(y).realize();
      for (let i = 1; i < times; i++) {
        const next = x.add(y).realize();
        x.dispose();
        x = next;
      }
      x.dispose();
    });
  return { run, sync };
}

/** From pinned memory that holds the bytes already. */
function upload(mebibytes: number): Runnable {
  const { queue } = handle;
  if (queue === null) throw new Error("not offered");
  const source = getPinnedPool(queue).allocate(mebibytes * 2 ** 20);
  const target = new Buffer(queue.context, source.nbytes);
  const run = () => queue.write(target, source.view, { blocking: true }).release();
  return { run, close: () => [source, target].forEach((owner) => owner[Symbol.dispose]()) };
}

/** Models as people train them: the large ones on a GPU, the small ones on a processor. */
const isGPU = handle.deviceType === "gpu";

function gpt(precision: Precision): Maker {
  return (batch, variant) => {
    const sizes = isGPU
      ? { vocabulary: 65, context: 256, width: 384, heads: 6, layers: 6 }
      : { vocabulary: 65, context: 64, width: 128, heads: 4, layers: 4 };
    const model = new GPT(sizes), optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
    const ids = () => Tensor.randint(0, 65, [batch, sizes.context]).realize();
    return modelStep({ model, optimizer, x: ids(), y: ids(), precision, variant, sync });
  };
}

function resnet(precision: Precision): Maker {
  return (batch, variant) => {
    const model = isGPU ? new ResNet([64, 128, 256, 512], 2) : new ResNet([16, 32, 64], 3);
    const optimizer = new optim.SGD(model.parameters(), { lr: 1e-2, momentum: 0.9 });
    const y = Tensor.randint(0, 10, [batch]).realize();
    const x = random(batch, 3, 32, 32);
    return modelStep({ model, optimizer, x, y, precision, variant, sync });
  };
}

function embedding(count: number, variant: string | undefined): Runnable {
  const rows = isGPU ? 200_000 : 20_000;
  const table = new nn.Embedding(rows, 128);
  const optimizer = new optim.SGD(table.parameters(), { lr: 0.1 });
  const ids = Tensor.randint(0, rows, [count]).realize();
  const step = (ids: Tensor): Tensor => {
    const sum = table.forward(ids).sum();
    optimizer.zeroGrad();
    sum.backward();
    optimizer.step();
    return sum;
  };
  const call = variant === "compiled" ? compile(step) : step;
  return { run: () => call(ids).realize().dispose(), sync };
}

/** A training step of a recurrent layer over 32 steps: of 512 on a GPU, of 128 on a processor. */
function lstm(batch: number, variant: string | undefined): Runnable {
  const width = isGPU ? 512 : 128;
  const layer = new nn.LSTM(width, width), x = random(32, batch, width);
  const optimizer = new optim.SGD(layer.parameters(), { lr: 0.01 });
  const step = (x: Tensor): Tensor => {
    const sum = layer.forward(x).output.sum();
    optimizer.zeroGrad();
    sum.backward();
    optimizer.step();
    return sum;
  };
  const call = variant === "compiled" ? compile(step) : step;
  return { run: () => call(x).realize().dispose(), sync };
}

/** An image of 224x224 through a ResNet-18. */
function resnet18(batch: number, variant: string | undefined): Runnable {
  const model = new ResNet([64, 128, 256, 512], 2, { classes: 1000, large: true }).eval();
  const x = random(batch, 3, 224, 224);
  const infer = (x: Tensor): Tensor => noGrad(() => model.forward(x));
  const call = variant === "compiled" ? compile(infer) : infer;
  return { run: () => call(x).realize().dispose(), sync };
}

/** A model's first step in a process of its own, which finds no kernels on disk. */
function firstStep(kind: string): Maker {
  return (size): Countable => ({
    count: async () => {
      const caches = await Deno.makeTempDir();
      try {
        const env = {
          NETCL_CACHE_DIR: `${caches}/netcl`,
          POCL_CACHE_DIR: caches,
          CUDA_CACHE_PATH: caches,
          NO_COLOR: "1",
        };
        const args = ["run", "-A", import.meta.url, selector, "first", kind, String(size)];
        const { stdout, stderr } = await new Deno.Command(Deno.execPath(), { args, env }).output();
        const seconds = Number(new TextDecoder().decode(stdout) || NaN);
        if (!Number.isFinite(seconds)) throw new Error(new TextDecoder().decode(stderr));
        return seconds;
      } finally {
        await Deno.remove(caches, { recursive: true });
      }
    },
  });
}

/** Numbers that are added to a thousand others. */
/** Both results are given back with the call, as a peer's are. */
function sort(count: number): Runnable {
  const x = random(count);
  const run = () =>
    noGrad(() => {
      const { values, indices } = x.sort(0);
      values.realize().dispose();
      indices.dispose();
    });
  return { run, sync };
}

function scatterAdd(count: number): Runnable {
  const [base, source] = [random(1000), random(count)];
  const indices = Tensor.randint(0, 1000, [count]).realize();
  return { run: () => noGrad(() => base.scatterAdd(0, indices, source).realize().dispose()), sync };
}

function attention(dtype: Precision): Maker {
  return (length, variant) => {
    const shape = isGPU ? [8, 12, length, 64] : [2, 4, length, 32];
    const inputs = Array.from({ length: 3 }, () => uniform(shape, dtype));
    for (const input of inputs) input.requiresGrad = true;
    const [q, k, v] = inputs as [Tensor, Tensor, Tensor];
    const gradients = [noGrad(() => Tensor.ones(shape, { dtype }).realize())];
    const step = () => grad([nn.scaledDotProductAttention(q, k, v)], inputs, { gradients });
    const call = variant === "compiled" ? compile(step) : step;
    const run = () => {
      const found = call();
      realizeAll(found);
      for (const tensor of found) tensor.dispose();
    };
    return { run, sync };
  };
}

function halfMatmul(n: number): Runnable {
  const [a, b] = [uniform([n, n], "float16"), uniform([n, n], "float16")];
  return { run: () => noGrad(() => a.matmul(b).realize().dispose()), sync };
}

/** A row times a matrix of blocks; of its bytes only scales matter, which are small numbers. */
function packedProduct(n: number, format: string | undefined): Runnable {
  const name = format as BlockFormatName, bytes = new Uint8Array(n * n * packedBytes[name]!);
  for (let k = 0; k < bytes.length; k++) bytes[k] = Math.imul(k, 2654435761) >>> 24 & 0x3b;
  const blocks = Tensor.fromBlocks(bytes, name), x = uniform([1, n], "float32");
  const multiply = compile((x: Tensor) => x.matmul(blocks.decodeBlocks(name, [n, n]).transpose()));
  return { run: () => noGrad(() => multiply(x).realize().dispose()), sync };
}

const models: Record<string, Maker> = {
  gpt: gpt("float32"),
  "gpt-bfloat16": gpt("bfloat16"),
  resnet: resnet("float32"),
  "resnet-float16": resnet("float16"),
  embedding,
  lstm,
  "resnet18-inference": resnet18,
  ...graphWorks(sync),
  ...numberWorks(sync),
  ...wildWorks(sync, isGPU),
  "scatter-add": scatterAdd,
  attention: attention("float32"),
  "attention-float16": attention("float16"),
  "matmul-float16": halfMatmul,
  "packed-product": packedProduct,
};

using _active = device(handle);
// What is timed are a device's own kernels, but where it is the first step of a program.
setDeterministic(Deno.args[1] !== "first");
const [, mode, kind, size, steps, variant] = Deno.args;
if (mode === "first") {
  const start = performance.now();
  const { run } = await models[kind!]!(Number(size), undefined) as Runnable;
  run();
  sync();
  console.log((performance.now() - start) / 1e3);
  Deno.exit(0);
}
if (mode === "peak") {
  const { run } = await models[kind!]!(Number(size), variant) as Runnable;
  for (let step = 0; step < 20; step++) run();
  sync();
  memory.resetPeakStats();
  for (let step = 0; step < Number(steps); step++) run();
  sync();
  const { peakAllocated, peakReservedBytes } = memory.stats();
  console.log(JSON.stringify([peakAllocated, peakReservedBytes]));
  Deno.exit(0);
}
await serve(`netcl on ${handle.deviceName}`, {
  matmul: (n) => expression([[n, n], [n, n]], (a, b) => a!.matmul(b!)),
  chain: (n) =>
    expression(
      Array(5).fill([n]),
      (a, b, c, d, e) => a!.mul(b!).add(c!).relu().mul(d!).sub(e!),
    ),
  gelu: (n, variant) => expression([[n]], (x) => x!.gelu(), variant),
  sort,
  sum: (n) => expression([[n]], (x) => x!.sum()),
  softmax: (n, variant) => expression([[n, n]], (x) => x!.softmax(1), variant),
  layernorm: (n, variant) => {
    const layer = new nn.LayerNorm(n);
    return expression([[n, n]], (x) => layer.forward(x!), variant);
  },
  conv2d: (batch) =>
    expression(
      [[batch, 16, 28, 28], [32, 16, 3, 3]],
      (x, w) => x!.conv2d(w!, { padding: 1 }),
    ),
  "conv2d-backward": convolutionBackward,
  mlp: (batch, variant) => training(mlp(), [batch, 784], variant),
  cnn: (batch, variant) => training(cnn(), [batch, 1, 28, 28], variant),
  "mlp-kernels": counted("kernels"),
  "mlp-allocations": counted("nativeAllocs"),
  ...models,
  ...Object.fromEntries(
    Object.keys(models).map((kind) => [`first-${kind}`, firstStep(kind)]),
  ),
  adds,
  upload,
});
