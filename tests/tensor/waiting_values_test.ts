// Suite: alone; asks what all blocks of the process come to.
/** Sums over many batches, read at the end: hits that an evaluation counts, gradients of a large batch in parts. */
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { device, memory, nn, noGrad, realizeAll, Tensor } from "../../mod.ts";
import { testOnBackends } from "../opencl.ts";

const rows = 256, columns = 1024;

testOnBackends("hits that are counted over many batches hold few of them", async (backend) => {
  using _ = device(backend);
  const layer = new nn.Linear(columns, 4), data = new Float32Array(rows * columns);
  const loss = layer.forward(Tensor.ones([1, columns])).sum();
  let hits = Tensor.zeros([], { dtype: "int32" }), sums = Tensor.zeros([columns]), expected = 0;
  const before = memory.stats().currentAllocated;
  memory.resetPeakStats();
  for (let k = 0; k < 96; k++) {
    data.fill(k % 3 === 0 ? 1 : -1);
    const batch = Tensor.fromHost(data, { shape: [rows, columns] }); // 1 MiB
    hits = hits.add(
      noGrad(() => layer.forward(batch).mul(0).add(batch.sum(1, { keepDims: true })))
        .gt(0).sum(),
    );
    sums = sums.add(batch.sum(0));
    if (k % 3 === 0) expected += 4 * rows;
  }
  assertEquals(await hits.item(), expected);
  assertEquals((await sums.toHost())[7], -32 * rows);
  const peak = (memory.stats().peakAllocated - before) / 2 ** 20;
  assert(peak < 64, `${peak} MiB for 96 batches of 1 MiB`);
  assert(!loss.isRealized, "what backward may go through waits for it");
});

testOnBackends(
  "backward adds up gradients over many passes in the memory of few, whether losses are read or not",
  async (backend) => {
    using _ = device(backend);
    const layers = new nn.Sequential(new nn.Linear(16, 128), new nn.GELU(), new nn.Linear(128, 1));
    const batches = Array.from({ length: 24 }, () => Tensor.randn([128, 16]).realize());
    const peakOf = async (passes: number, isRead: boolean): Promise<number> => {
      layers.zeroGrad();
      const before = memory.stats().currentAllocated;
      memory.resetPeakStats();
      for (const batch of batches.slice(0, passes)) {
        const loss = layers.forward(batch).square().mean();
        if (isRead) await loss.item();
        loss.backward();
      }
      realizeAll(layers.parameters().map(({ grad }) => grad!));
      return memory.stats().peakAllocated - before;
    };
    for (const isRead of [false, true]) {
      const few = await peakOf(3, isRead), many = await peakOf(24, isRead);
      assert(many < 1.5 * few, `${many} bytes for 24 passes, ${few} for 3`);
    }
    const sum = await layers.parameters()[0]!.grad!.toFloat32();
    layers.zeroGrad();
    for (const batch of batches) {
      layers.forward(batch).square().mean().backward();
      realizeAll(layers.parameters().map(({ grad }) => grad!));
    }
    const each = await layers.parameters()[0]!.grad!.toFloat32();
    sum.forEach((value, k) => assertAlmostEquals(value, each[k]!, 1e-4));
  },
);
