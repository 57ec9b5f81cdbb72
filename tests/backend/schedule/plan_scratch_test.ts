import { assert, assertEquals } from "@std/assert";
import { Node } from "../../../backend/graph/node.ts";
import { hostTarget } from "../../../backend/kernel/target.ts";
import type { KernelPlanner } from "../../../backend/kernel/template.ts";
import { schedule } from "../../../backend/schedule/schedule.ts";
import { Tensor } from "../../../mod.ts";
import { nodeOf } from "../../../tensor/core/internals.ts";
import { testOnCPU } from "../../opencl.ts"; // starts what listens to signals before any test
import { gpu, leaf, map, planner } from "./nodes.ts";

/** Scans take twice their elements as scratch. */
const planKernel: KernelPlanner = (kernel, target) => {
  const { dtype, size } = kernel.kind === "special" ? kernel.output : { dtype: null, size: 0 };
  return planner({ scratch: dtype ? [{ dtype, size: 2 * size }] : [] })(kernel, target);
};

Deno.test("scratch is a buffer of the plan behind the outputs, and dies with its kernel", () => {
  const scan = (input: Node): Node =>
    new Node({ kind: "scan", fn: "sum" }, [input], input.shape, "float32");
  const root = scan(map("neg", scan(leaf([100]))));
  const plan = schedule([root], { device: { target: hostTarget, planKernel } });
  assertEquals(plan.temporaries, [
    { dtype: "float32", size: 200 },
    { dtype: "float32", size: 200 },
  ]);
  const [first, , last] = plan.kernels, end = plan.order.length;
  assertEquals([first!.outputs.slice(1), last!.outputs.slice(1)], [[end], [end + 1]]);
  assertEquals([first!.dying.includes(end), last!.dying.includes(end + 1)], [true, true]);
  // Its input, its output and the scratch.
  assertEquals(plan.peakBytes, 4 * 400);
  const host = schedule([root], { device: { target: hostTarget, planKernel: null } });
  assertEquals([host.temporaries, host.peakBytes], [[], 4 * 200]);
});

testOnCPU("both gradients of a product read one preparation of its result's", () => {
  const target = { ...gpu.target, matrixUnits: "mma" as const, warpgroups: true };
  const random = (...shape: number[]) => Tensor.ones(shape, { requiresGrad: true }).realize();
  const x = random(4096, 1024), w = random(1024, 1024);
  x.matmul(w).exp().sum().backward();
  const wanted = [x, w].map(({ grad }) => nodeOf(grad!));
  const { kernels, order } = schedule(wanted, { device: { ...gpu, target } });
  const found = kernels.flatMap(({ kernel }) =>
    kernel.kind === "loop" ? kernel.prepared ?? [] : []
  );
  assert(found.length >= 2, "the gradient of the result, and operands of the product");
  // What is read is there: nobody has given it back.
  const live = new Set<number>();
  for (const { kernel, inputs, outputs, dying } of kernels) {
    for (const at of inputs) {
      assert(live.has(at) || order[at]?.isLeaf, `${kernel.label} reads ${at}`);
    }
    for (const at of outputs) live.add(at);
    for (const at of dying) live.delete(at);
  }
});
