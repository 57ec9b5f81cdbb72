/** Memory and launches of attention in half types; of GPUs with warpgroups, planned on paper. */
import { assert, assertEquals } from "@std/assert";
import { amp, memory, Tensor } from "../../../../mod.ts";
import { scaledDotProductAttention } from "../../../../tensor/nn/mod.ts";
import { testOnBackends, testOpenCL } from "../../../opencl.ts";
import { leaf } from "../../numbers.ts";
import { paperGPU, withPaperDevice } from "../../../backend/paper_device.ts";

testOpenCL("fusedAttention: a product behind half-type heads reads them where they lie", () => {
  const [batch, length, width, heads] = [16, 256, 384, 6];
  const labels: string[] = [];
  const gpu = paperGPU({ warps: true, matrixUnits: "mma", warpgroups: true });
  withPaperDevice(gpu, ({ label }) => labels.push(label), () => {
    const draw = (...shape: number[]): Tensor => leaf(Tensor.rand(shape).realize());
    const x = draw(batch, length, 3 * width), weight = draw(width, width);
    const loss = amp.autocast("bfloat16", () => {
      const split = x.split(width, -1).map((part) =>
        part.reshape([batch, length, heads, width / heads]).transpose(1, 2)
      ) as [Tensor, Tensor, Tensor];
      const y = scaledDotProductAttention(...split, { isCausal: true });
      return y.transpose(1, 2).reshape([batch, length, width]).matmul(weight).cast("float32").sum();
    });
    loss.backward();
    weight.grad!.realize();
  });
  assert(labels.some((label) => label.includes("attention")), `${labels}`);
  assertEquals(labels.filter((label) => label.endsWith("_prepare")), []);
});

testOnBackends("fusedAttention: a result that is disposed of leaves nothing of its graph", () => {
  const inputs = [1, 2, 3].map(() =>
    leaf(Tensor.rand([2, 4, 64, 32]).cast("bfloat16").detach().realize())
  ) as [Tensor, Tensor, Tensor];
  // Of leaves, and of values that only the graph has.
  for (const isMade of [false, true]) {
    const held = Array.from({ length: 6 }, () => {
      const made = inputs.map((x) => isMade ? x.mul(2).realize() : x) as typeof inputs;
      scaledDotProductAttention(...made).realize().dispose();
      if (isMade) { for (const x of made) x.dispose(); }
      return memory.stats().requestedBytes;
    });
    assertEquals(held.slice(1), held.slice(1).map(() => held[1]));
  }
});
