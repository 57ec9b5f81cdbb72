/** Attention written by hand: what it becomes, and that it means the same. */
import { assert, assertThrows } from "@std/assert";
import { noGrad, Tensor } from "../../../../mod.ts";
import { testOnBackends, testOpenCL } from "../../../opencl.ts";
import { assertNumbers } from "../../numbers.ts";
import { paperGPU, withPaperDevice } from "../../../backend/paper_device.ts";

type Heads = [query: Tensor, key: Tensor, value: Tensor];

const scale = 0.25;
/** The ways in which people write it. */
const written: Readonly<Record<string, (...heads: Heads) => Tensor>> = {
  "without a scale": (q, k, v) => q.matmul(k.transpose(-2, -1)).softmax(-1).matmul(v),
  "a quotient": (q, k, v) => q.matmul(k.transpose(-2, -1)).div(4).softmax(-1).matmul(v),
  "factors": (q, k, v) => q.mul(2).matmul(k.transpose()).mul(scale).div(2).softmax(-1).matmul(v),
  "hidden keys": (q, k, v) => {
    const scores = q.matmul(k.transpose(-2, -1)).mul(scale);
    const seen = Tensor.ones(scores.shape.slice(-2)).tril();
    return scores.maskedFill(seen.eq(0), -Infinity).softmax(-1).matmul(v);
  },
  "a query that sees nothing": (q, k, v) => {
    const hidden = Tensor.arange(q.shape.at(-2)!).unsqueeze(1).eq(3);
    return q.matmul(k.transpose(-2, -1)).maskedFill(hidden, -Infinity).softmax(-1).matmul(v);
  },
  "shared keys": (q, k, v) =>
    q.matmul(k.slice([0, 1]).transpose(-2, -1)).mul(scale).softmax(-1).matmul(v),
  // What is no attention, and looks like it.
  "softmax over queries": (q, k, v) => q.matmul(k.transpose(-2, -1)).softmax(-2).matmul(v),
  "masked, then scaled": (q, k, v) => {
    const scores = q.matmul(k.transpose(-2, -1));
    return scores.maskedFill(scores.gt(1), -Infinity).mul(-1).softmax(-1).matmul(v);
  },
};

for (const dtype of ["float32", "bfloat16"] as const) {
  for (const [name, attend] of Object.entries(written)) {
    testOnBackends(`writtenAttention means what is written: ${name}, ${dtype}`, async () => {
      const heads = [0, 1, 2].map((k) =>
        Tensor.rand([2, 3, 72, 16]).sub(0.5).mul(2 + k).cast(dtype).realize()
      ) as Heads;
      const made = await noGrad(() => attend(...heads).cast("float32")).toFloat32();
      for (const x of heads) x.requiresGrad = true;
      // Where gradients are recorded it is computed as it stands there.
      const want = await attend(...heads).detach().cast("float32").toFloat32();
      assertNumbers(made, want, dtype === "float32" ? 1e-5 : 4e-2);
    });
  }
}

testOpenCL("writtenAttention has the one kernel where no gradient is wanted", () => {
  const labels: string[] = [];
  const gpu = paperGPU({ warps: true, matrixUnits: "mma", warpgroups: true });
  withPaperDevice(gpu, ({ label }) => labels.push(label), () => {
    for (const name of ["a quotient", "hidden keys"]) {
      const heads = [0, 1, 2].map(() =>
        Tensor.zeros([2, 4, 256, 64], { dtype: "bfloat16" }).realize()
      ) as Heads;
      labels.length = 0;
      noGrad(() => written[name]!(...heads).realize());
      assert(labels.some((label) => label.includes("attention")), `${name}: ${labels}`);
      assert(!labels.some((label) => label.includes("matmul")), `${name}: ${labels}`);
      // The weights themselves can be asked for.
      for (const x of heads) x.requiresGrad = true;
      const loss = written[name]!(...heads).sum();
      labels.length = 0;
      loss.realize();
      assert(labels.some((label) => label.includes("matmul")), `${name}: ${labels}`);
    }
  });
});

testOnBackends("writtenAttention leaves the error of shapes that do not meet", () => {
  const [q, k, v] = [[2, 8, 4], [2, 8, 4], [3, 8, 4]].map((shape) => Tensor.zeros(shape)) as Heads;
  const weights = q.matmul(k.transpose(-2, -1)).softmax(-1);
  assertThrows(() => weights.matmul(v), Error, "Cannot matmul tensors of shapes");
});
