import { assertAlmostEquals, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { DTypeError, grad, nn, ShapeError, Tensor } from "../../../mod.ts";
import { assertClose, fixture } from "../../fixtures/pytorch.ts";
import { testOnBackends } from "../../opencl.ts";

type Reduction = "mean" | "sum" | "none";
type Loss = (input: Tensor, target: Tensor, reduction: Reduction, weight: Tensor) => Tensor;

const losses: Record<string, Loss> = {
  cross_entropy: (x, y, reduction) => new nn.CrossEntropyLoss({ reduction }).forward(x, y),
  cross_entropy_smooth: (x, y, reduction) =>
    nn.crossEntropy(x, y, { reduction, labelSmoothing: 0.2 }),
  cross_entropy_ignore: (x, y, reduction) => nn.crossEntropy(x, y, { reduction, ignoreIndex: 2 }),
  cross_entropy_both: (x, y, reduction) =>
    nn.crossEntropy(x, y, { reduction, ignoreIndex: 2, labelSmoothing: 0.3 }),
  cross_entropy_images: (x, y, reduction) => nn.crossEntropy(x, y, { reduction }),
  mse: (x, y, reduction) => new nn.MSELoss({ reduction }).forward(x, y),
  l1: (x, y, reduction) => new nn.L1Loss({ reduction }).forward(x, y),
  huber: (x, y, reduction) => new nn.HuberLoss({ reduction, delta: 0.7 }).forward(x, y),
  bce: (x, y, reduction) => new nn.BCEWithLogitsLoss({ reduction }).forward(x, y),
  bce_weighted: (x, y, reduction, positiveWeight) =>
    new nn.BCEWithLogitsLoss({ reduction, positiveWeight }).forward(x, y),
};

for (const [name, loss] of Object.entries(losses)) {
  testOnBackends(`${name} and its gradient are PyTorch's`, async (backend) => {
    const run = await fixture("losses", backend);
    for (const reduction of ["mean", "sum", "none"] as const) {
      const input = run[`${name}.input`]!.detach();
      input.requiresGrad = true;
      const value = loss(input, run[`${name}.target`]!, reduction, run.positive_weight!);
      value.sum().backward();
      const prefix = `${name}.${reduction}`;
      await assertClose(value, run[`${prefix}.loss`]!, 1e-6, `${prefix} loss`);
      await assertClose(input.grad!, run[`${prefix}.gradient`]!, 1e-6, `${prefix} gradient`);
    }
  });
}

testOnBackends("rows with the ignored label count for nothing, even if they are NaN", async () => {
  const rows = [[1, 2, 3], [NaN, 0, Infinity], [3, 1, 0]];
  const kept = Tensor.fromHost([rows[0]!, rows[2]!], { requiresGrad: true });
  const all = Tensor.fromHost(rows, { requiresGrad: true });
  const options = { labelSmoothing: 0.1, ignoreIndex: -100 };
  const expected = kept.crossEntropy(Tensor.fromHost(Int32Array.of(2, 0)), options);
  const loss = all.crossEntropy(Tensor.fromHost(Int32Array.of(2, -100, 0)), options);
  await assertClose(loss, expected, 1e-6, "loss");
  const [first] = grad([loss], [all], { createGraph: true });
  const [inner] = grad([expected], [kept], { createGraph: true });
  const rowsOf = (x: Tensor) => x.indexSelect(0, Tensor.fromHost(Int32Array.of(0, 2)));
  await assertClose(rowsOf(first!), inner!, 1e-6, "gradient");
  assertEquals(await first!.slice(1).toArray(), [0, 0, 0]);
  const [second] = grad([first!.square().sum()], [all]);
  await assertClose(rowsOf(second!), grad([inner!.square().sum()], [kept])[0]!, 1e-6, "second");
  assertEquals(await second!.slice(1).toArray(), [0, 0, 0]);
  const none = all.crossEntropy(Tensor.fromHost(Int32Array.of(-100, -100, -100)), options);
  assertEquals(await none.item(), NaN);
  const each = all.crossEntropy(Tensor.fromHost(Int32Array.of(2, -100, 0)), {
    reduction: "none",
    ignoreIndex: -100,
  });
  assertEquals((await each.toHost())[1], 0);
});

testOnBackends("without a label to ignore each label must be a class", async () => {
  const loss = Tensor.ones([2, 3]).crossEntropy(Tensor.fromHost(Int32Array.of(0, -100)));
  await assertRejects(() => loss.item(), RangeError, "pass { ignoreIndex: -100 }");
});

testOnBackends("labels of bytes cannot be negative: no kernel counts them", () => {
  const logits = Tensor.randn([4, 3]).realize();
  const options = { ignoreIndex: -100 };
  const bytes = logits.crossEntropy(Tensor.fromHost(Uint8Array.of(0, 1, 2, 0)), options);
  const ints = logits.crossEntropy(Tensor.fromHost(Int32Array.of(0, 1, 2, 0)), options);
  assertEquals(bytes.explain().includes("ne_"), false);
  assertAlmostEquals(bytes.itemSync(), ints.itemSync(), 1e-6);
});

testOnBackends("losses name what does not fit", () => {
  const [a, b] = [Tensor.ones([2, 3]), Tensor.ones([3])];
  assertEquals(
    assertThrows(() => nn.mse(a, b), ShapeError).message,
    "Cannot compute mse of an input of shape [2, 3] and a target of [3]: they must be equal",
  );
  assertThrows(() => nn.l1(a.cast("int32"), a), DTypeError, "int32");
});
