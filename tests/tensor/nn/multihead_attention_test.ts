import { assertEquals, assertThrows } from "@std/assert";
import { grad, manager, manualSeed, nn, ShapeError, Tensor } from "../../../mod.ts";
import { backendOf } from "../../../backend/internal.ts";
import { assertClose, fixture } from "../../fixtures/pytorch.ts";
import { testOnBackends, testOpenCL } from "../../opencl.ts";
import { withCapabilities } from "../capabilities.ts";
import { assertNumbers, numbersOf } from "../numbers.ts";

testOnBackends("MultiheadAttention is PyTorch's with every mask", async (backend) => {
  const run = await fixture("attention_run", backend);
  const model = new nn.MultiheadAttention(12, 3);
  model.loadStateDict(await fixture("attention", backend));
  const { query, key, value } = run as Record<"query" | "key" | "value", Tensor>;
  const masks = { mask: run.mask!, keyPaddingMask: run.padding! };
  const { output, weights } = model.attend(query, key, value, masks);
  await assertClose(output, run.output!, 1e-5, "output");
  await assertClose(weights, run.weights!, 1e-5, "weights");
  const one = (x: Tensor): Tensor => x.slice(null, 0);
  const single = model.forward(one(query), one(key), one(value));
  await assertClose(single, run.single!, 1e-5, "output without a batch");
  const first = new nn.MultiheadAttention(12, 3, { batchFirst: true });
  first.loadStateDict(await fixture("attention", backend));
  const turned = first.forward(query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1));
  const plain = model.forward(query, key, value);
  await assertClose(turned.transpose(0, 1), plain, 1e-6, "batch first");
});

testOnBackends("MultiheadAttention: causal is the same as a mask of what comes later", async () => {
  const model = new nn.MultiheadAttention(8, 2);
  const x = Tensor.randn([5, 3, 8]).realize();
  const later = Tensor.ones([5, 5]).triu(1).ne(0);
  const causal = model.forward(x, x, x, { isCausal: true });
  await assertClose(causal, model.forward(x, x, x, { mask: later }), 1e-6, "causal");
  const { weights } = model.attend(x, x, x, { isCausal: true });
  assertEquals(await weights.slice(0, 0, 0).toArray(), [1, 0, 0, 0, 0]);
});

testOnBackends("MultiheadAttention names shapes that do not fit", () => {
  assertThrows(() => new nn.MultiheadAttention(10, 3), RangeError, "10 features");
  const model = new nn.MultiheadAttention(8, 2);
  assertThrows(() => model.forward(Tensor.ones([4, 2, 6])), ShapeError, "E = 8");
  const apart = () => model.forward(Tensor.ones([4, 2, 8]), Tensor.ones([4, 3, 8]));
  assertThrows(apart, ShapeError, "batches must be equal");
});

testOpenCL("heads are side by side before a processor maps them", async () => {
  const former = backendOf(manager.active).capabilities.joinsHeads;
  const run = (joinsHeads: boolean): Promise<number[]> =>
    withCapabilities("cl", { joinsHeads }, () => {
      manualSeed(4);
      const layer = new nn.MultiheadAttention(24, 3, { batchFirst: true });
      const x = Tensor.rand([4, 65, 24], { requiresGrad: true });
      const y = layer.forward(x, x, x, { isCausal: true });
      const gradients = grad([y.square().sum()], [x, ...layer.parameters()]);
      const numbers = numbersOf(y, ...gradients);
      const again = layer.forward(x.detach(), x.detach(), x.detach(), { isCausal: true });
      // Kernels of a GPU read heads that lie apart.
      if (former) assertEquals(/copy/.test(again.explain()), joinsHeads);
      return numbers;
    });
  assertNumbers(await run(true), await run(false), 1e-4);
});
