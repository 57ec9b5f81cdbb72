// Suite: alone; asks what all blocks of the process come to.
/** Memory of a step of a deep model at a time. */
import { assert, assertEquals } from "@std/assert";
import { manager, manualSeed, memory, optim, Tensor } from "../../../mod.ts";
import { isEager } from "../../../backend/internal.ts";
import { testOnBackends } from "../../opencl.ts";
import { leaf } from "../numbers.ts";

const LAYERS = 16, ROWS = 1024, WIDTH = 64;

testOnBackends("a step holds each activation once, and gradients on the way briefly", (backend) => {
  if (isEager()) return;
  manualSeed(1);
  const draw = () => leaf(Tensor.randn([WIDTH, WIDTH]).mul(0.1).realize());
  const weights = Array.from({ length: LAYERS }, draw);
  const x = Tensor.randn([ROWS, WIDTH]).realize();
  const optimizer = new optim.SGD(weights, { lr: 0.01 });
  const device = manager.default(backend);
  const before = memory.stats(device).requestedBytes;
  memory.resetPeakStats(device);
  let y = x;
  for (const w of weights) y = y.matmul(w).tanh();
  using loss = y.square().mean();
  loss.backward();
  optimizer.step();
  loss.itemSync();
  const activations = (memory.stats(device).peakRequestedBytes - before) / (ROWS * WIDTH * 4);
  // 16 layers, two gradients on the way, the new weights.
  assert(activations < LAYERS + 4, `${activations} activations`);
});

testOnBackends("a view can be read when it alone holds the value that it is of", async () => {
  const x = Tensor.arange(2000, { dtype: "float32" }).realize();
  const view = x.reshape([40, 50]);
  x.dispose();
  assertEquals((await view.toHost())[1999], 1999);
  assertEquals(view.toHostSync()[7], 7);
});

const changes: Record<string, (learned: readonly Tensor[]) => void> = {
  "clipped by their norm": (learned) => optim.clipGradNorm(learned, 0.1).dispose(),
  "clipped one by one": (learned) => optim.clipGradValue(learned, 0.1),
  "divided by hand": ([w]) => {
    const former = w!.grad!;
    w!.grad = former.div(2);
    former.dispose();
  },
};

for (const [what, change] of Object.entries(changes)) {
  testOnBackends(`steps with gradients that are ${what} hold no former parameters`, () => {
    if (isEager()) return;
    const w = leaf(Tensor.rand([100, 100]).realize()), x = Tensor.rand([4, 100]).realize();
    const optimizer = new optim.SGD([w], { lr: 0.01 });
    assertHoldsNoMore(() => {
      using loss = x.matmul(w).square().mean();
      optimizer.zeroGrad();
      loss.backward();
      change([w]);
      optimizer.step();
      // One that the program gave, or has got, is its own.
      w.grad!.dispose();
    });
  });
}

/** Fails unless twenty steps hold what three of them do. */
function assertHoldsNoMore(step: () => void): void {
  for (let k = 0; k < 3; k++) step();
  const before = memory.stats().requestedBytes;
  for (let k = 0; k < 20; k++) step();
  assertEquals(memory.stats().requestedBytes, before);
}

testOnBackends("a read keeps what was read, also where assigned state waits for it", () => {
  if (isEager()) return;
  const x = Tensor.rand([1000]).realize(), mean = Tensor.zeros([1000]).realize();
  assertHoldsNoMore(() => {
    using former = mean.mul(0.9);
    using added = x.mul(0.1);
    using sum = former.add(added);
    mean.assign(sum);
    using next = mean.add(1);
    next.toHostSync();
  });
});
