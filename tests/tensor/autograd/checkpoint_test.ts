/** Checkpoints give the same gradients and hold less memory on the way to them. */
import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import {
  amp,
  AnomalyError,
  type BackendName,
  checkpoint,
  compile,
  detectAnomaly,
  grad,
  manager,
  manualSeed,
  memory,
  nn,
  noGrad,
  optim,
  Tensor,
} from "../../../mod.ts";
import { isEager } from "../../../backend/internal.ts";
import { testOnBackends } from "../../opencl.ts";
import { assertNumbers, leaf, numbersOf } from "../numbers.ts";
import { stateOf } from "../../../tensor/core/internals.ts";

/** The way in which a block is run: checkpointed, or as it is. */
type Run = <R>(fn: (x: Tensor) => R, x: Tensor) => R;

const plainly: Run = (fn, x) => fn(x);

/** `fn` with the same random numbers each time. */
function seeded<T>(fn: () => T): T {
  manualSeed(7);
  return fn();
}

/** Fails unless a program gives the same with checkpoints and without. */
function assertSame(
  program: (run: Run) => number[],
  tolerance = 1e-5,
  run: Run = checkpoint,
): void {
  assertNumbers(program(run), program(plainly), tolerance);
}

/** The gradients of a model's parameters and of its input, and its buffers after. */
function outcome(model: nn.Module, forward: (x: Tensor) => Tensor): number[] {
  const x = leaf(Tensor.randn([6, 8]).realize()), loss = forward(x).square().mean();
  loss.backward();
  const gradients = model.parameters().map((p) => p.grad!);
  return numbersOf(loss, x.grad!, ...gradients, ...model.namedBuffers().map(([, b]) => b));
}

function makeBlock(): nn.Sequential {
  const [wide, norm] = [new nn.Linear(8, 16), new nn.BatchNorm1d(16)];
  return new nn.Sequential(wide, norm, new nn.GELU(), new nn.Dropout(0.5), new nn.Linear(16, 8));
}

function runBlocks(run: Run): number[] {
  return seeded(() => {
    const model = new nn.Sequential(...[1, 2, 3].map(makeBlock));
    const blocks = model.children().map(([, block]) => block as nn.Module);
    return outcome(model, (x) => blocks.reduce((y, block) => run((z) => block.forward(z), y), x));
  });
}

testOnBackends("checkpoint keeps gradients, dropped elements, running statistics", () => {
  assertSame(runBlocks);
});

testOnBackends("checkpoint: checkpoints nest", () => {
  const nested: Run = (fn, x) => checkpoint((y: Tensor) => checkpoint(fn, y.mul(1)), x);
  assertSame(runBlocks, 1e-5, nested);
});

testOnBackends("checkpoint: residual connections go around and through", () => {
  assertSame((run) =>
    seeded(() => {
      const layer = new nn.Linear(8, 8);
      return outcome(layer, (x) => {
        let y = x;
        for (let k = 0; k < 3; k++) y = y.add(run((z) => layer.forward(z).tanh().add(z), y));
        return y.mul(x);
      });
    })
  );
});

testOnBackends("checkpoint: several results meet before the second run", () => {
  let calls = 0;
  const several = (run: Run): number[] =>
    seeded(() => {
      const layer = new nn.Linear(8, 8);
      return outcome(layer, (x) => {
        const { a, rest: [b] } = run((z) => {
          calls++;
          const h = layer.forward(z);
          return { a: h.tanh(), rest: [h.sigmoid(), h.exp(), h.argmax(1)], name: "several" };
        }, x);
        return a.mul(b!).add(a);
      });
    });
  const expected = several(plainly);
  calls = 0;
  assertNumbers(several(checkpoint), expected, 1e-5);
  assertEquals(calls, 2);
});

testOnBackends("checkpoint: tensors in the function's closure get gradients", async () => {
  const x = Tensor.fromHost([1, 2], { requiresGrad: true });
  const w = Tensor.fromHost([3, 4], { requiresGrad: true });
  const scaled = w.mul(2);
  const y = checkpoint((z: Tensor) => z.mul(scaled).exp().log(), x);
  const [gw, gx, gs] = grad([y.sum()], [w, x, scaled]);
  assertEquals(await gw!.toArray(), [2, 4]);
  assertEquals(await gx!.toArray(), [6, 8]);
  assertEquals(await gs!.toArray(), [1, 2]);
  assertEquals([x.grad, w.grad], [null, null]);
});

testOnBackends("checkpoint: second derivatives are those of the function", async () => {
  const second = (run: Run): Promise<unknown> => {
    const x = Tensor.fromHost([0.5, -1, 2], { requiresGrad: true });
    const y = run((z) => z.pow(3).mul(z.sin()), x.mul(2)).sum();
    const [first] = grad([y], [x], { createGraph: true });
    const [twice] = grad([first!.square().sum()], [x]);
    return twice!.toArray();
  };
  assertEquals(await second(checkpoint), await second(plainly));
});

testOnBackends("checkpoint: a kept graph is gone through again", async () => {
  const x = Tensor.fromHost([1, 2], { requiresGrad: true });
  const loss = checkpoint((z: Tensor) => z.square().exp().log(), x).sum();
  loss.backward(undefined, { retainGraph: true });
  loss.backward();
  (await x.grad!.toHost()).forEach((g, k) => assertAlmostEquals(Number(g), [4, 8][k]!, 1e-4));
  assertThrows(() => loss.backward(), Error, "a second time");
});

/** The most memory that a step of a deep model holds, in activations. */
function peakOf(backend: BackendName, run: Run): number {
  return seeded(() => {
    // On a GPU some kernels wait for others that are like them, within 8 MiB: two activations of these.
    const [rows, width] = [manager.default(backend).deviceType === "gpu" ? 16_384 : 512, 64];
    const draw = () => leaf(Tensor.randn([width, width]).mul(0.1).realize());
    const weights = Array.from({ length: 32 }, draw);
    const x = Tensor.randn([rows, width]).realize();
    const device = manager.default(backend);
    const before = memory.stats(device).requestedBytes;
    memory.resetPeakStats(device);
    let y = x;
    for (let k = 0; k < 32; k += 4) {
      const part = weights.slice(k, k + 4);
      y = run((z) => part.reduce((h, w) => h.matmul(w).tanh(), z), y);
    }
    const optimizer = new optim.SGD(weights, { lr: 0.1 });
    using loss = y.square().mean();
    loss.backward();
    optimizer.step();
    loss.itemSync();
    return (memory.stats(device).peakRequestedBytes - before) / (rows * width * 4);
  });
}

testOnBackends("checkpoint: a deep model holds inputs of its blocks, and one block", (backend) => {
  // Eagerly every value is in memory until it is collected.
  if (isEager()) return;
  const plain = peakOf(backend, plainly), less = peakOf(backend, checkpoint);
  assert(plain > 32, `${plain} activations without checkpoints`);
  // 8 inputs of blocks, 4 of one block, gradients on the way, the new weights, and what waits on a GPU.
  assert(less < 21, `${less} activations with checkpoints, ${plain} without`);
});

testOnBackends("checkpoint: a compiled step draws alike in both runs, anew each step", () => {
  const x = Tensor.ones([400], { requiresGrad: true }), drop = new nn.Dropout(0.5);
  const step = compile((scale: Tensor) => {
    x.grad = null;
    const y = checkpoint((z: Tensor) => drop.forward(z.mul(scale)), x);
    y.sum().backward();
    return { y, gradient: x.grad! as Tensor };
  });
  const scale = Tensor.ones([1]).realize();
  manualSeed(7);
  const draws = Array.from({ length: 5 }, () => {
    const { y, gradient } = step(scale), values = numbersOf(y);
    assertEquals(values, numbersOf(gradient));
    return `${values}`;
  });
  assertEquals(new Set(draws).size, 5);
});

testOnBackends("checkpoint: autocast holds in the second run as in the first", () => {
  // What is fused is not rounded to bfloat16 on the way.
  assertSame((run) =>
    seeded(() => {
      const layer = new nn.Linear(8, 8);
      return outcome(layer, (x) => {
        const y = amp.autocast("bfloat16", () => run((z) => layer.forward(z).tanh(), x));
        assertEquals(y.dtype, "bfloat16");
        return y;
      });
    }), 2e-3);
});

testOnBackends("checkpoint: an anomaly inside names the operation inside", () => {
  const x = Tensor.fromHost([0], { requiresGrad: true });
  const run = () => checkpoint((z: Tensor) => z.sqrt().mul(0), x).sum().backward();
  assertEquals(assertThrows(() => detectAnomaly(run), AnomalyError).operation, "sqrt");
});

testOnBackends("checkpoint: what the second run cannot repeat is an error", () => {
  const x = Tensor.ones([3], { requiresGrad: true });
  let calls = 0;
  const changing = (z: Tensor): Tensor => calls++ === 0 ? z.exp() : z.exp().sum();
  const y = checkpoint(changing, x);
  assertThrows(() => y.sum().backward(), Error, "must do the same again");
  calls = 0;
  const drawing = (z: Tensor): Tensor => calls++ === 0 ? z.exp() : z.exp().mul(z.randLike());
  const drawn = checkpoint(drawing, x);
  assertThrows(() => drawn.sum().backward(), Error, "0 random tensors the first time");
  const making = (z: Tensor): Tensor => z.mul(Tensor.ones([3], { requiresGrad: true }));
  assertThrows(() => checkpoint(making, x), Error, "make it outside");
  assertThrows(() => checkpoint(() => Promise.resolve(x)), TypeError, "asynchronous");
  const w = Tensor.ones([3], { requiresGrad: true });
  const loss = checkpoint((z: Tensor) => z.mul(w), x).sum();
  w.assign(w.mul(2).detach());
  assertThrows(() => loss.backward(), Error, "Cannot go backward through checkpoint");
  assertEquals([x.grad, w.grad], [null, null]);
});

testOnBackends("checkpoint: random numbers outside go on as without a second run", () => {
  const draw = (run: Run): number[] =>
    seeded(() => {
      const x = Tensor.ones([4], { requiresGrad: true });
      run((z) => z.mul(z.randLike()), x).sum().backward();
      return numbersOf(Tensor.rand([4]));
    });
  assertEquals(draw(checkpoint), draw(plainly));
});

testOnBackends("checkpoint: without gradients the function is just called", () => {
  const x = Tensor.ones([3], { requiresGrad: true });
  assertEquals(stateOf(noGrad(() => checkpoint((z: Tensor) => z.mul(2), x))).gradFn, null);
  assertEquals(checkpoint((z: Tensor) => z, x), x);
  assertEquals(stateOf(checkpoint((z: Tensor) => z.mul(2), x.detach())).gradFn, null);
  assertEquals(checkpoint(() => 5), 5);
});
