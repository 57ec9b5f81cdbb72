/** Kernels as they are planned and written for GPUs, run by the OpenCL device that is here. */
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { manualSeed, nn, profiler, Tensor, withDevice } from "../../../mod.ts";
import { realizeAll } from "../../../tensor/execution/realization.ts";
import { testOpenCL } from "../../opencl.ts";
import { withDeviceType } from "./fixture.ts";

/** The numbers of the tensors on both, and the launches that were for a GPU. */
async function assertAlike(fn: () => Tensor[], tolerance: number): Promise<number> {
  const run = (): [number[][], number] => {
    manualSeed(5);
    const tensors = fn();
    profiler.reset();
    realizeAll(tensors);
    const { kernels } = profiler.counters();
    return [tensors.map((tensor) => [...tensor.toHostSync()].map(Number)), kernels];
  };
  const [expected] = withDevice("cpu", run);
  let kernels = 0, actual: number[][] = [];
  await withDeviceType("gpu", () => {
    [actual, kernels] = run();
    return Promise.resolve();
  });
  assertEquals(actual.length, expected.length);
  actual.forEach((values, k) =>
    values.forEach((value, at) => {
      const other = expected[k]![at]!;
      assertAlmostEquals(value, other, tolerance * (1 + Math.abs(other)));
    })
  );
  return kernels;
}

testOpenCL("parts of sums of several values are one launch on a GPU, as are joins", async () => {
  const kernels = await assertAlike(
    () =>
      [40_000, 65_536, 70_001].map((length) =>
        Tensor.rand([length, 8]).realize().sum(0).mul(0.5).add(1)
      ),
    1e-5,
  );
  assertEquals(kernels, 2);
});

testOpenCL("followJoins: what follows a divided product is computed with the join", async () => {
  const kernels = await assertAlike(() => {
    const x = Tensor.rand([16, 4096]).sub(0.5).realize();
    const w = Tensor.rand([4096, 48]).sub(0.5).realize(), bias = Tensor.rand([16, 48]).realize();
    const y = x.matmul(w), gate = y.sigmoid().mul(bias.tanh()).add(y.erf().mul(bias.exp()));
    return [gate.tanh().mul(gate.sigmoid()), y];
  }, 1e-4);
  assertEquals(kernels, 2);
});

testOpenCL("a loop over cells learns on a GPU what it learns on the built-in backend", async () => {
  const kernels = await assertAlike(() => {
    const cell = new nn.LSTMCell(96, 96), x = Tensor.rand([6, 8, 96]).sub(0.5).realize();
    let h = Tensor.zeros([8, 96]), c = h;
    for (const now of x.unbind(0)) [h, c] = cell.forward(now, [h, c]);
    h.square().sum().backward();
    return [h, ...[...cell.parameters()].map(({ grad }) => grad!)];
  }, 1e-4);
  assert(kernels < 60, `${kernels} launches`);
});

testOpenCL("small products of other sizes with one text are one launch on a GPU", async () => {
  const kernels = await assertAlike(() => {
    const x = Tensor.rand([32, 256]).sub(0.5).realize();
    return [64, 128, 192, 256].map((columns) => {
      const w = Tensor.rand([256, columns]).sub(0.5).realize();
      return x.matmul(w).add(Tensor.rand([columns]).realize());
    });
  }, 1e-4);
  assert(kernels <= 2, `${kernels} launches`);
});
