/** Reductions of few long rows get all of the device, whatever else is asked of the same values. */
import { assert, assertEquals } from "@std/assert";
import type { Node } from "../../../backend/graph/node.ts";
import { extent } from "../../../backend/kernel/kernel.ts";
import { planKernel } from "../../../backend/opencl/templates/generate.ts";
import { reducesInGroups } from "../../../backend/kernel/row_order.ts";
import { type Schedule, schedule } from "../../../backend/schedule/schedule.ts";
import { nn, Tensor } from "../../../mod.ts";
import { nodeOf } from "../../../tensor/core/internals.ts";
import { testOnCPU } from "../../opencl.ts"; // starts what listens to signals before any test
import { apply, constant, gpu, leaf, map, sum } from "./nodes.ts";

const planned = (...nodes: Node[]): Schedule => schedule(nodes, { device: gpu });

/** The most elements that a work-item walks, in any kernel of a plan. */
function longestWalk({ kernels }: Schedule): number {
  const walks = kernels.map(({ kernel }) => {
    if (kernel.kind !== "loop" || kernel.inner.length === 0) return 1;
    const length = extent(kernel, kernel.inner), { chunk } = kernel;
    const share = chunk ? length / kernel.sizes[chunk.symbol]! * chunk.length : length;
    // Items of a group share a row, or a column.
    if (reducesInGroups(kernel)) return share / 256;
    return planKernel(kernel, gpu.target).name === "columns in groups" ? share / 8 : share;
  });
  return Math.max(...walks);
}

Deno.test("the sum of columns of a value that is stored as well is computed in parts", () => {
  const value = map("exp", leaf([16384, 1536]));
  const plan = planned(value, sum(value, 0));
  assertEquals(plan.kernels.length, 2);
  assert(longestWalk(plan) <= 512, `a work-item walks ${longestWalk(plan)} elements`);
});

Deno.test("channels whose values are summed and stored are computed in parts", () => {
  const value = map("exp", leaf([128, 64, 32, 32]));
  const plan = planned(value, sum(value, 0, 2, 3), sum(map("mul", value, value), 0, 2, 3));
  assert(longestWalk(plan) <= 64, `a work-item walks ${longestWalk(plan)} elements`);
});

Deno.test("columns that are normalized are reduced in parts, not by a work-item each", () => {
  const x = leaf([16384, 512]);
  const total = apply({ kind: "reshape" }, sum(x, 0), [1, 512]);
  const plan = planned(map("sub", x, apply({ kind: "expand" }, total, [16384, 512])));
  assert(longestWalk(plan) <= 512, `a work-item walks ${longestWalk(plan)} elements`);
});

Deno.test("sums that do not follow from one another share a walk over few long rows", () => {
  const x = leaf([4, 1 << 20]);
  const both = map("div", sum(map("mul", x, x), 1), sum(x, 1));
  assertEquals(planned(both).kernels.length, 2);
});

Deno.test("rows that are many, and values that are few, stay one kernel", () => {
  const rows = map("exp", leaf([4096, 1024]));
  assertEquals(planned(rows, sum(rows, 1)).kernels.length, 1);
  const few = map("exp", leaf([64, 128]));
  assertEquals(planned(few, sum(few, 0)).kernels.length, 1);
  assertEquals(planned(map("add", sum(few, 0), constant(1, [128]))).kernels.length, 1);
});

Deno.test("what is read once a column does not make its elements neighbours", () => {
  const weighed = (n: number): Node =>
    apply({ kind: "expand" }, apply({ kind: "reshape" }, leaf([n]), [n, 1]), [n, 512]);
  const x = leaf([16384, 512]);
  const shifted = map("mul", map("sub", map("mul", x, weighed(16384)), weighed(16384)), x);
  const plan = planned(sum(map("mul", shifted, weighed(16384)), 0));
  const [first] = plan.kernels;
  assert(first!.kernel.kind === "loop");
  assert(!reducesInGroups(first!.kernel), "neighbouring work-items read neighbouring columns");
});

Deno.test("sums of values that one of them reads are computed in its walk, where nothing lies between", () => {
  const [g, y] = [leaf([128, 64, 32, 32]), leaf([128, 64, 32, 32])];
  const total = sum(g, 0, 2, 3), along = sum(map("mul", g, y), 0, 2, 3);
  assertEquals(planned(total, along).kernels.length, 2);
  assertEquals(planned(map("add", total, constant(1, [64])), along).kernels.length, 2);
  // Others read nothing together, or are over other axes, or follow from the first.
  assertEquals(planned(sum(g, 0, 2, 3), sum(y, 0, 2, 3)).kernels.length, 3);
  assertEquals(planned(sum(g, 1), sum(y, 0, 2, 3)).kernels.length, 3);
  const mean = apply({ kind: "reshape" }, total, [1, 64, 1, 1]);
  const centred = map("sub", g, apply({ kind: "expand" }, mean, [128, 64, 32, 32]));
  assertEquals(planned(total, sum(map("mul", centred, centred), 0, 2, 3)).kernels.length, 4);
});

testOnCPU("gradients of a batch norm walk once over few channels, and once over elements", () => {
  const layer = new nn.BatchNorm2d(64), shape = [32, 64, 32, 32];
  // Made first: memory that grows after the forward pass has saved statistics computed again.
  const ones = Tensor.ones(shape).realize(), x = Tensor.zeros(shape).realize();
  x.requiresGrad = true;
  const y = layer.forward(x).realize();
  y.backward(ones);
  const gradients = [x.grad!, layer.weight!.grad!, layer.bias!.grad!].map(nodeOf);
  const large = planned(...gradients).kernels.filter(({ kernel }) =>
    kernel.kind === "loop" && extent(kernel, [...kernel.outer, ...kernel.inner]) >= x.size
  );
  assertEquals(large.map(({ kernel }) => kernel.kind === "loop" && kernel.inner.length > 0), [
    true,
    false,
  ]);
});

testOnCPU("a depthwise weight's gradient of few long sums has work for a whole GPU", () => {
  const x = Tensor.zeros([64, 96, 32, 32]).realize(),
    weight = Tensor.zeros([96, 1, 7, 7]).realize();
  weight.requiresGrad = true;
  x.conv2d(weight, { padding: 3, groups: 96 }).sum().backward();
  const items = planned(nodeOf(weight.grad!)).kernels.map(({ kernel }) =>
    kernel.kind === "loop" && kernel.contraction ? extent(kernel, kernel.outer) : 0
  );
  assert(Math.max(...items) >= 132 * 1024, `${items} work-items`);
});
