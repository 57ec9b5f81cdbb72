/** L-BFGS goes where PyTorch's goes, and goes on from its state. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { backendOf } from "../../../backend/internal.ts";
import { manager, optim, Tensor } from "../../../mod.ts";
import { fixture } from "../../fixtures/pytorch.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";
import { assertNumbers, numbersOf } from "../numbers.ts";

const setups: Record<string, optim.LBFGSOptions> = {
  lbfgs: { lr: 0.5, maxIter: 5, historySize: 3 },
  lbfgs_wolfe: { maxIter: 4, historySize: 5, lineSearchFn: "strongWolfe" },
};

/** Function that `step` calls: it gives the loss, with new gradients. */
function closureOf(optimizer: () => optim.LBFGS, lossOf: () => Tensor): () => Tensor {
  return () => {
    optimizer().zeroGrad();
    const loss = lossOf();
    loss.backward();
    return loss;
  };
}

for (const [name, options] of Object.entries(setups)) {
  testOnBackends(`${name} is where PyTorch's is, also when it is resumed`, async (backend) => {
    if (!backendOf(manager.active).capabilities.dtypes.has("float64")) return;
    const run = await fixture("more_optimizers", backend);
    // In double precision: what rounding changes grows with each iteration.
    const [x, y, weight, bias] = ["x", "y", "weight", "bias"].map((key) =>
      run[key]!.cast("float64").realize()
    ) as [Tensor, Tensor, Tensor, Tensor];
    weight.requiresGrad = bias.requiresGrad = true;
    let optimizer = new optim.LBFGS([weight, bias], options);
    const closure = closureOf(
      () => optimizer,
      () => x.matmul(weight.transpose()).add(bias).tanh().sub(y).square().mean(),
    );
    let former = Infinity;
    for (let step = 0; step < 4; step++) {
      const loss = await optimizer.step(closure);
      // By the rate alone, an iteration may go too far.
      assert(loss < former || !options.lineSearchFn, `step ${step}: ${loss} after ${former}`);
      former = loss;
      const expected = numbersOf(run[name]!.slice(step));
      assertNumbers(numbersOf(weight, bias), expected, 1e-6, `step ${step}`);
      const resumed = new optim.LBFGS([weight, bias], options);
      resumed.loadStateDict(JSON.parse(JSON.stringify(optimizer.stateDict())));
      assertEquals(resumed.stateDict(), optimizer.stateDict());
      optimizer = resumed;
    }
  });
}

testOnCPU("LBFGS says what it takes", async () => {
  const x = Tensor.ones([2], { requiresGrad: true });
  assertThrows(() => new optim.LBFGS([Tensor.ones([2])]), TypeError, "require a gradient");
  assertThrows(() => new optim.LBFGS([]), TypeError, "no parameters");
  const optimizer = new optim.LBFGS([x]);
  await assertRejects(() => optimizer.step(undefined as never), TypeError, "closure");
  const other = new optim.LBFGS([Tensor.ones([3], { requiresGrad: true })]);
  await optimizer.step(closureOf(() => optimizer, () => x.square().sum()));
  assertThrows(() => other.loadStateDict(optimizer.stateDict()), RangeError, "have 3");
});

testOnCPU("LBFGS refuses a step while its last is not through", async () => {
  const x = Tensor.fromHost([-1.5, 2], { requiresGrad: true, device: "cpu" });
  const optimizer = new optim.LBFGS([x], { maxIter: 3 });
  const closure = closureOf(() => optimizer, () => x.sub(1).square().sum());
  const first = optimizer.step(closure);
  await assertRejects(() => optimizer.step(closure), Error, "await optimizer.step(closure)");
  await first;
  await optimizer.step(closure);
  assertEquals([...x.toHostSync()].map((v) => Math.round(Number(v))), [1, 1]);
  const failing = () =>
    optimizer.step(() => {
      throw new RangeError("of the closure");
    });
  await assertRejects(failing, RangeError, "of the closure");
  await assertRejects(failing, RangeError, "of the closure");
});
