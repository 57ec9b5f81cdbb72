import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import type { DType } from "../../../backend/graph/dtype.ts";
import { hostTarget, type Target } from "../../../backend/kernel/target.ts";
import { referenceStrategy } from "../../../backend/cpu/strategy/strategy.ts";
import { schedule } from "../../../backend/schedule/schedule.ts";
import { nodeOf } from "../../../tensor/core/internals.ts";
import { manualSeed, noGrad, Tensor, withDevice } from "../../../mod.ts";
import { backendWith, compute } from "../cpu/strategies.ts";
import { cpu, gpu, labels, leaf, map, product, transposed } from "./nodes.ts";

Deno.test("vectorProducts: a row times weights is one launch on a GPU, which others share", () => {
  const x = map("tanh", leaf([1, 768]));
  const weights = Array.from({ length: 3 }, () => transposed(leaf([768, 768])));
  const plan = schedule(weights.map((weight) => product(x, weight)), { device: gpu });
  assertEquals(labels(plan), ["tanh", "matmul"]);
  assertEquals(plan.kernels[1]!.kernel.kind, "horizontal");
});

Deno.test("vectorProducts leaves to other kernels what is no GPU's, and what has several rows", () => {
  const isContraction = (rows: number, device = gpu): boolean =>
    schedule([product(leaf([rows, 768]), leaf([768, 768]))], { device }).kernels.some(
      ({ kernel }) => kernel.kind === "loop" && kernel.contraction !== null,
    );
  assertEquals([isContraction(1), isContraction(2), isContraction(1, cpu)], [false, true, true]);
});

/** The built-in evaluator, planned for as a GPU is. */
function asGPU() {
  const backend = backendWith(referenceStrategy);
  const target: Target = { ...hostTarget, isGpu: true };
  Object.defineProperty(backend, "target", { value: target });
  return backend;
}

Deno.test("vectorProducts computes what products compute, in every type and order of axes", () => {
  const graph = asGPU();
  withDevice("cpu", () => {
    manualSeed(2);
    const forms: ((x: Tensor, w: Tensor) => Tensor)[] = [
      (x, w) => x.matmul(w.transpose()).add(1),
      (x, w) => x.matmul(w).mul(2).tanh(),
      (x, w) => w.matmul(x.transpose()),
      (x, w) => x.reshape([1, 1, 40]).expand([3, 1, 40]).matmul(w.reshape([1, 40, 40])),
      (x, w) => w.matmul(x.reshape([40])),
    ];
    for (const dtype of ["float32", "float16", "bfloat16", "float64"] satisfies DType[]) {
      const [x, w] = noGrad(() =>
        [[1, 40], [40, 40]].map((shape) => Tensor.rand(shape).sub(0.5).cast(dtype).realize())
      ) as [Tensor, Tensor];
      for (const form of forms) {
        const kernels = schedule([nodeOf(form(x, w))], { device: graph }).kernels;
        assert(kernels.every(({ kernel }) => kernel.kind !== "loop" || !kernel.contraction));
        const found = compute(graph, form(x, w)).map(Number);
        const expected = compute(backendWith(referenceStrategy), form(x, w)).map(Number);
        const tolerance = { float32: 1e-5, float64: 1e-12, float16: 5e-3, bfloat16: 3e-2 }[dtype];
        expected.forEach((value, k) => assertAlmostEquals(found[k]!, value, tolerance));
      }
    }
  });
});
