import { assert, assertEquals, assertThrows } from "@std/assert";
import { DTypeError, grad, memory, nn, noGrad, ShapeError, Tensor } from "../../../mod.ts";
import { assertClose, Case, fixture } from "../../fixtures/pytorch.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";

type Pair = [Tensor, Tensor];

const attend = nn.scaledDotProductAttention;

testOnBackends("scaledDotProductAttention: values and gradients are PyTorch's", async (backend) => {
  const run = await fixture("scaled_dot_product_attention", backend);
  const cases: Record<string, nn.ScaledDotProductAttentionOptions> = {
    plain: {},
    mask: { mask: run["masks.mask"]! },
    added: { mask: run["masks.added"]! },
    causal: { isCausal: true },
    scale: { scale: 0.3 },
  };
  for (const [name, options] of Object.entries(cases)) {
    await new Case(run, name).check(({ query, key, value }) => ({
      output: attend(query!, key!, value!, options),
    }));
  }
});

testOnBackends("scaledDotProductAttention: leading axes broadcast, masks join", async () => {
  const q = Tensor.randn([2, 3, 4, 8]).realize(), k = Tensor.randn([5, 8]).realize();
  const mask = Tensor.fromHost([[true, false, true, true, true]]);
  const output = attend(q, k, k, { mask, isCausal: true });
  const later = Tensor.ones([4, 5]).tril().ne(0).logicalAnd(mask);
  await assertClose(output, attend(q, k, k, { mask: later }), 1e-6, "both masks");
  const added = Tensor.where(mask, 0, -Infinity);
  await assertClose(output, attend(q, k, k, { mask: added, isCausal: true }), 1e-6, "added");
  const none = attend(q, k, k, { mask: Tensor.fromHost(false) });
  assertEquals(await none.abs().max().item(), 0);
  assertEquals(attend(q, k.slice([0, 0]), k.slice([0, 0])).shape, [2, 3, 4, 8]);
});

testOnBackends("scores of float16 may leave its range before they are scaled", async () => {
  const dtype = "float16";
  for (const queries of [1, 5]) {
    const [q, k] = [queries, 3].map((n) => Tensor.full([n, 16], 300, { dtype })) as Pair;
    const v = Tensor.fromHost([[1], [2], [3]]).cast(dtype);
    const output = attend(q, k, v, { isCausal: queries === 1 });
    assertEquals(output.dtype, dtype);
    assertEquals(await output.slice(0).toNumbers(), [queries === 1 ? 1 : 2]);
  }
});

testOnBackends("scaledDotProductAttention: dropout keeps the mean", async () => {
  const q = Tensor.zeros([64, 64, 8]), v = Tensor.ones([64, 64, 8]);
  const output = attend(q, q, v, { dropout: 0.5 });
  assert(Math.abs(await output.mean().item() - 1) < 0.02);
  assert(await output.std().item() > 0.01);
});

// Forward and backward of 2,048 queries and keys: the scores alone would be 16 MiB.
testOnBackends("scaledDotProductAttention of long sequences is linear in memory", async () => {
  const [l, e] = [2048, 4];
  const leaves = [0, 1, 2].map(() => Tensor.randn([1, l, e], { requiresGrad: true }).realize());
  const [q, k, v] = leaves as [Tensor, Tensor, Tensor];
  const last = l - 1, at = (x: Tensor): Tensor => x.detach().slice(null, [last, l]);
  memory.resetPeakStats();
  const before = memory.stats().currentAllocated;
  const output = attend(q, k, v, { isCausal: true }).realize();
  const found = grad([output.square().sum()], leaves);
  for (const gradient of found) gradient.realize();
  const peak = memory.stats().peakAllocated - before;
  // On a GPU some kernels wait for others that are like them, within 8 MiB; all scores are 16.
  const most = q.device.deviceType === "gpu" ? 20 : 12;
  assert(peak < most * 2 ** 20, `${peak} bytes at most at a time`);
  const row = noGrad(() => attend(at(q), k, v));
  await assertClose(at(output), row, 1e-5, "the last query");
});

testOnCPU("scaledDotProductAttention in turns is the same, with gradients", async () => {
  const l = 1100;
  const leaves = [0, 1, 2].map(() => Tensor.randn([l, 2], { requiresGrad: true }).realize());
  const [q, k, v] = leaves as [Tensor, Tensor, Tensor];
  const mask = Tensor.rand([l, l]).gt(0.3).realize();
  const plain = q.matmul(k.transpose()).mul(Math.SQRT1_2).maskedFill(mask.logicalNot(), -Infinity)
    .softmax(-1).matmul(v);
  const turns = attend(q, k, v, { mask });
  await assertClose(turns, plain, 1e-5, "values");
  const [expected, found] = [plain, turns].map((y) => grad([y.square().sum()], leaves));
  for (let i = 0; i < 3; i++) await assertClose(found![i]!, expected![i]!, 1e-4, `gradient ${i}`);
});

testOnBackends("scaledDotProductAttention names what does not fit", () => {
  const x = Tensor.ones([2, 4, 8]);
  assertThrows(() => attend(x, x.slice(null, null, [0, 4]), x), ShapeError, "other lengths");
  assertThrows(() => attend(x, x, x.slice(null, [0, 3])), ShapeError, "each key");
  assertThrows(() => attend(x, Tensor.ones([3, 4, 8]), x), ShapeError, "broadcast");
  assertThrows(() => attend(x, x, x, { mask: Tensor.ones([3, 3]) }), ShapeError, "[2, 4, 4]");
  assertThrows(() => attend(x.cast("int32"), x, x), DTypeError, "int32");
  const mask = Tensor.ones([4, 4], { dtype: "int32" });
  assertThrows(() => attend(x, x, x, { mask }), DTypeError, "bool");
});
