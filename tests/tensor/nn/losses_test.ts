import { assertEquals, assertThrows } from "@std/assert";
import { DTypeError, nn, ShapeError, Tensor, withDevice } from "../../../mod.ts";
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
  testOnBackends(`${name} and its gradient are PyTorch's`, (backend) => {
    return withDevice(backend, async () => {
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
  });
}

testOnBackends("losses name what does not fit", (backend) => {
  withDevice(backend, () => {
    const [a, b] = [Tensor.ones([2, 3]), Tensor.ones([3])];
    assertEquals(
      assertThrows(() => nn.mse(a, b), ShapeError).message,
      "Cannot compute mse of an input of shape [2, 3] and a target of [3]: they must be equal",
    );
    assertThrows(() => nn.l1(a.cast("int32"), a), DTypeError, "int32");
  });
});
