// Suite: quick kernels; chains are long texts, and what they compute is told by their members' tests.
/** Chains: launches of a replayed program that are enqueued as one, here as they are planned for GPUs. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { compile, manualSeed, nn, noGrad, optim, profiler, Tensor } from "../../../../mod.ts";
import { testOpenCL } from "../../../opencl.ts";
import { withDeviceType } from "../fixture.ts";
import { setVariables } from "../../../variables.ts";

/** Enough for chains to be built, and taken by both places of what changes. */
const CALLS = 7;

/** Runs with chains or without, on the device for tests as a GPU. */
async function withChains(value: "0" | "1", fn: () => Promise<void>): Promise<void> {
  using _variables = setVariables({ NETCL_CHAINS: value });
  await withDeviceType("gpu", fn);
}

/** Results of some calls, and the launches of the last. */
async function outcomes(
  value: "0" | "1",
  make: () => (call: number) => Tensor,
): Promise<{ values: number[][]; launches: number }> {
  const values: number[][] = [];
  let launches = 0;
  await withChains(value, async () => {
    manualSeed(3);
    const call = make();
    for (let k = 0; k < CALLS; k++) {
      profiler.reset();
      using result = call(k);
      values.push([...await result.toHost()].map(Number));
      launches = profiler.counters().kernels;
    }
  });
  return { values, launches };
}

/** Asserts that chains give the same bits, in fewer launches. */
async function assertChained(make: () => (call: number) => Tensor): Promise<void> {
  const alone = await outcomes("0", make), chained = await outcomes("1", make);
  assertEquals(chained.values, alone.values);
  assert(chained.launches < alone.launches, `${chained.launches} of ${alone.launches} launches`);
}

testOpenCL("chains of a training step have the bits of single launches", () =>
  assertChained(() => {
    const model = new nn.Sequential(
      new nn.Linear(16, 32),
      new nn.LayerNorm(32),
      new nn.Dropout(0.5),
      new nn.Linear(32, 4),
    );
    const optimizer = new optim.Adam(model.parameters(), { lr: 0.01 });
    const batches = [1, 2, 3].map(() => Tensor.randn([64, 16]).realize());
    const labels = Tensor.randint(0, 4, [64]).realize();
    const step = compile((x: Tensor) => {
      const loss = model.forward(x).crossEntropy(labels);
      optimizer.zeroGrad();
      loss.backward();
      optimizer.step();
      return loss;
    });
    return (call) => step(batches[call % 3]!);
  }));

/** A function whose kernels read what other groups of those before made. */
function turning(): () => Tensor {
  const x = Tensor.randn([64, 4096]).realize();
  const turn = compile((x: Tensor) =>
    noGrad(() => {
      let sums = x.sum(1, { keepDims: true });
      for (let k = 0; k < 5; k++) sums = x.mul(sums.flip(0)).tanh().sum(1, { keepDims: true });
      return sums;
    })
  );
  return () => turn(x);
}

testOpenCL("kernels of a chain wait for groups that they read", () => assertChained(turning));

testOpenCL("chains take another number from a random stream in every call", async () => {
  const make = () => {
    const x = Tensor.ones([64, 64]).realize();
    const call = compile((x: Tensor) =>
      noGrad(() => {
        const a = x.add(Tensor.rand([64, 64])).sum(1, { keepDims: true });
        const b = a.mul(x).add(Tensor.rand([64, 64])).sum(0, { keepDims: true });
        return a.add(b).sum(1);
      })
    );
    return () => call(x);
  };
  const { values } = await outcomes("1", make);
  assertEquals(values, (await outcomes("0", make)).values);
  assert(values.at(-1)![0] !== values.at(-2)![0]);
});

testOpenCL(
  "an index out of range in a chain is an error of the next read",
  () =>
    withChains("1", () => {
      const table = Tensor.ones([10, 64]).realize();
      const look = compile((at: Tensor) =>
        noGrad(() => {
          const rows = table.gather(0, at.unsqueeze(1).expand([64, 64]));
          const sums = rows.sum(1, { keepDims: true });
          return rows.mul(sums).sum(0, { keepDims: true }).mul(sums).sum(1);
        })
      );
      const [inside, outside] = [3, 30].map((at) =>
        Tensor.full([64], at, { dtype: "int32" }).realize()
      );
      for (let k = 0; k < CALLS; k++) look(inside!).toHostSync();
      const error = assertThrows(() => look(outside!).toHostSync(), RangeError);
      assert(/30/.test(error.message), error.message);
      look(inside!).toHostSync();
      return Promise.resolve();
    }),
);

testOpenCL("a trace shows the kernels of chains one by one", () =>
  withChains("1", () => {
    const call = turning();
    for (let k = 0; k < CALLS; k++) call().dispose();
    profiler.reset();
    const expected = call().toHostSync(), launches = profiler.counters().kernels;
    {
      using _trace = profiler.trace();
      assertEquals(call().toHostSync(), expected);
    }
    const kernels = profiler.rows().filter(({ lane }) => lane === "kernel");
    const count = kernels.reduce((sum, { calls }) => sum + calls, 0);
    assert(count > launches, `${count} kernels in ${launches} launches`);
    assertEquals(call().toHostSync(), expected);
    return Promise.resolve();
  }));
