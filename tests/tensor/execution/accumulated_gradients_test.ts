// Suite: alone; asks what all blocks of the process come to.
/** Gradients of many passes of `backward`, as where a large batch is learned in small ones. */
import { assert, assertAlmostEquals } from "@std/assert";
import { device, memory, nn, realizeAll, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";

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
    const sum = await layers.parameters()[0]!.grad!.toHost();
    layers.zeroGrad();
    for (const batch of batches) {
      layers.forward(batch).square().mean().backward();
      realizeAll(layers.parameters().map(({ grad }) => grad!));
    }
    const each = await layers.parameters()[0]!.grad!.toHost();
    sum.forEach((value, k) => assertAlmostEquals(value, each[k]!, 1e-4));
  },
);
