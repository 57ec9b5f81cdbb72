/** The memory of a compiled function: no more than the call as it is written takes, and never a neighbour's. */
import { assert, assertEquals } from "@std/assert";
import {
  compile,
  manager,
  manualSeed,
  memory,
  nn,
  optim,
  rawKernel,
  Tensor,
} from "../../../mod.ts";
import { isEager } from "../../../backend/internal.ts";
import { testOnBackends } from "../../opencl.ts";
import { leaf } from "../numbers.ts";
import { learn } from "../training.ts";

const ROWS = 3000;

/** Layers that grow and shrink, as those of a network on images do: results of many sizes. */
const widths = [8, 24, 40, 72, 120, 56, 32, 16, 8];

testOnBackends("a compiled step holds little more than the step as it is written", (backend) => {
  if (isEager()) return;
  manualSeed(4);
  const device = manager.default(backend);
  const weights = widths.slice(1).map((width, k) =>
    leaf(Tensor.randn([widths[k]!, width]).mul(0.1).realize())
  );
  const x = Tensor.randn([ROWS, widths[0]!]).realize();
  const gradients = (x: Tensor): Tensor => {
    let y = x;
    for (const w of weights) y = y.matmul(w).tanh();
    const loss = y.square().mean();
    for (const w of weights) w.grad = null;
    loss.backward();
    return loss;
  };
  const peakOf = (step: (x: Tensor) => Tensor): number => {
    const run = (): void => {
      for (let k = 0; k < 3; k++) step(x).realize().dispose();
    };
    const before = memory.stats(device).requestedBytes;
    run();
    memory.resetPeakStats(device);
    run();
    for (const w of weights) w.grad = null;
    return memory.stats(device).peakRequestedBytes - before;
  };
  const plain = peakOf(gradients), compiled = peakOf(compile(gradients));
  // Buffers of libraries come on top, as they are written when less is held.
  assert(compiled <= 1.2 * plain, `${compiled} bytes compiled, ${plain} as it is written`);
});

const ramp = rawKernel("ramp", {
  source: `kernel void ramp(global const float* x, global float* y) {
    const size_t i = get_global_id(0);
    y[i] = x[i] + i;
  }`,
  output: (x) => ({ shape: x.shape, dtype: x.dtype }),
  cpu: ([x], [y]) => {
    for (let i = 0; i < y!.length; i++) y![i] = Number(x![i]) + i;
  },
});

testOnBackends("a user's kernel takes and gives results on the way of a compiled function", () => {
  const f = compile((x: Tensor) => {
    const before = x.mul(2).reshape([4, 25]).matmul(Tensor.eye(25)).reshape([100]);
    const first = ramp(before), second = ramp(first.add(before));
    return second.reshape([25, 4]).sum(1).add(first.sum());
  });
  const x = Tensor.arange(100, { dtype: "float32" }).realize();
  const all = (y: Tensor): number[] => [...y.toHostSync("float32")];
  // 3 i from the first one, 6 i from the second; their sum is 3 * 99 * 100 / 2.
  const wanted = Array.from({ length: 25 }, (_, k) => 6 * (16 * k + 6) + 14_850);
  for (let k = 0; k < 4; k++) assertEquals(all(f(x)), wanted, `call ${k}`);
});

testOnBackends("two compiled functions do not write into each other's memory", () => {
  const make = (n: number) =>
    compile((x: Tensor) => {
      const y = x.reshape([n, 1]).matmul(x.reshape([1, n])).softmax(1);
      return y.matmul(y).sum(0).add(y.sum(1));
    });
  const ramp = (n: number): Tensor => Tensor.arange(n, { dtype: "float32" }).div(n).realize();
  const f = make(33), g = make(57), x = ramp(33), z = ramp(57);
  const first = [f(x).toHostSync(), g(z).toHostSync()];
  for (let k = 0; k < 3; k++) assertEquals([f(x).toHostSync(), g(z).toHostSync()], first);
});

/** Batches as loops make them, whose tensors nobody has but the call. */
const batches: Record<string, (k: number) => Tensor> = {
  "a view": (k) => samples().slice([8 * (k % 4), 8 * (k % 4) + 8]),
  "random numbers": () => Tensor.rand([8, 20]),
  "a computed value": () => Tensor.randn([8, 20]).mul(0.1).add(1),
  "few numbers of the host": (k) => Tensor.fromHost(Array(160).fill(k), { shape: [8, 20] }),
};

let kept: Tensor | null = null;
function samples(): Tensor {
  return kept ??= Tensor.rand([32, 20]).realize();
}

for (const [name, batchOf] of Object.entries(batches)) {
  testOnBackends(`compile keeps nothing of ${name} that it was given`, (backend) => {
    if (isEager()) return;
    kept = null;
    const device = manager.default(backend);
    const step = compile((x: Tensor) => x.square().sum());
    const held = Array.from({ length: 12 }, (_, k) => {
      step(batchOf(k)).dispose();
      return memory.stats(device).requestedBytes;
    });
    assertEquals(held.slice(4), Array(8).fill(held[4]), `${held}`);
  });
}

testOnBackends("compile keeps a value that it is given again, and gives others as they are", () => {
  const x = Tensor.rand([4]), twice = x.mul(2);
  const f = compile((a: Tensor, b: Tensor) => [a.add(b), a] as const);
  const first = x.toHostSync("float32").slice();
  for (let k = 0; k < 5; k++) {
    const [sum, same] = f(x, twice);
    assertEquals(same, x);
    assertEquals([...sum.toHostSync("float32")], [...first].map((n) => Math.fround(n + 2 * n)));
  }
  assert(twice.isRealized);
});

testOnBackends("a compiled step whose schedule comes to rest is recorded once", (backend) => {
  if (isEager()) return;
  const w = nn.parameter(Tensor.ones([64])), optimizer = new optim.Adam([w], { lr: 0.1 });
  const warmUp = new optim.LambdaLR(optimizer, (k) => Math.min(1, (k + 1) / 6));
  const step = compile((x: Tensor) => {
    const loss = learn(optimizer, w.mul(x).square().mean());
    warmUp.step();
    return loss;
  });
  const x = Tensor.ones([64]).realize();
  const held = Array.from({ length: 12 }, () => {
    step(x).dispose();
    return memory.stats(manager.default(backend)).requestedBytes;
  });
  assertEquals(held.slice(3), Array(9).fill(held[3]), `${held}`);
  assertEquals(optimizer.lr, 0.1);
});
