import { assert, assertEquals } from "@std/assert";
import { Node } from "../../../backend/graph/node.ts";
import type { LoopKernel } from "../../../backend/kernel/kernel.ts";
import type { PlanningDevice } from "../../../backend/kernel/template.ts";
import { type Schedule, schedule } from "../../../backend/schedule/schedule.ts";
import { splitK } from "../../../backend/schedule/passes/split_k.ts";
import { canSplit } from "../../../backend/schedule/passes/split_reduction.ts";
import { constant, cpu, gpu, labels, leaf, map, product, sum } from "./nodes.ts";

const planned = (node: Node, device: PlanningDevice): Schedule => schedule([node], { device });

function kernelOf(node: Node): LoopKernel {
  const [only, ...others] = schedule([node]).kernels;
  assert(only?.kernel.kind === "loop" && others.length === 0);
  return only.kernel;
}

Deno.test("a long sum of few rows is two kernels with a planned buffer between them", () => {
  const plan = planned(map("neg", sum(leaf([4, 1 << 20]), 1)), gpu);
  assertEquals(labels(plan), ["sum_neg_part", "sum_neg_join"]);
  const [part, join] = plan.kernels;
  assertEquals(plan.temporaries.length, 1);
  const temporary = plan.order.length;
  assertEquals([part!.outputs, join!.inputs], [[temporary], [temporary]]);
  assertEquals(join!.dying.includes(temporary), true);
  // Every part of a row has its place.
  const { sizes, outer } = part!.kernel as LoopKernel;
  const parts = outer.reduce((n, s) => n * sizes[s]!, 1);
  assertEquals(plan.temporaries[0], { dtype: "float32", size: parts });
});

Deno.test("each half reads only what it needs, so the input is free when its parts are reduced", () => {
  const scaled = map("mul", sum(map("mul", leaf([2, 1 << 20]), leaf([2, 1 << 20])), 1), leaf([2]));
  const { kernels, temporaries } = planned(scaled, gpu);
  assertEquals(temporaries.length, 1);
  assertEquals(kernels.map(({ inputs }) => inputs.length), [2, 2]);
  assertEquals(kernels[0]!.dying.length, 2);
});

Deno.test("rows that are enough for the device, or cannot be reduced in parts, stay one kernel", () => {
  assertEquals(planned(sum(leaf([1 << 15, 64]), 1), gpu).kernels.length, 1);
  assertEquals(planned(sum(leaf([64]), 0), gpu).kernels.length, 1);
  assert(!canSplit(kernelOf(map("neg", leaf([8])))));
  // The same on a CPU, whose cores are few.
  assertEquals(planned(sum(leaf([1 << 10, 4096]), 1), cpu).kernels.length, 1);
  assertEquals(planned(sum(leaf([1 << 22]), 0), cpu).kernels.length, 2);
});

Deno.test("of an arg-reduction parts keep the best value and its position; the join takes the first", () => {
  const best = (fn: "argmax" | "argmin", x: Node): Node =>
    new Node({ kind: "reduce", fn, axes: [0] }, [x], [], "int32");
  for (const device of [gpu, cpu]) {
    const plan = planned(best("argmax", leaf([1 << 20])), device);
    assertEquals(labels(plan), ["argmax_part", "argmax_join"]);
    const [part, join] = plan.kernels.map(({ kernel }) => kernel as LoopKernel);
    assertEquals(part!.reductions.map(({ fn }) => fn), ["argmax", "max"]);
    assertEquals(part!.outputs.map(({ dtype }) => dtype), ["int32", "float32"]);
    assertEquals(join!.reductions.map(({ fn }) => fn), ["min", "max"]);
  }
  const half = new Node({ kind: "data", bytes: new Uint8Array(4) }, [], [1 << 20], "float16");
  const types = planned(best("argmin", half), gpu).temporaries.map(({ dtype }) => dtype);
  assertEquals(types, ["int32", "float32"]);
});

Deno.test("sums of half types are kept in float32 between the kernels", () => {
  for (const dtype of ["float16", "bfloat16"] as const) {
    const input = new Node({ kind: "data", bytes: new Uint8Array(4) }, [], [1 << 20], dtype);
    const plan = planned(sum(input, 0), gpu);
    assertEquals(plan.temporaries.map((t) => t.dtype), ["float32"]);
  }
});

Deno.test("split-K divides the longest sums of products of few tiles, with what follows them", () => {
  const plan = planned(map("neg", product(leaf([32, 1 << 16]), leaf([1 << 16, 32]))), gpu);
  assertEquals(labels(plan), ["matmul_neg_part", "matmul_neg_join"]);
  assertEquals(plan.temporaries.length, 1);
  assertEquals(plan.kernels[0]!.inputs.length, 2);
  assertEquals(plan.kernels[1]!.inputs, [plan.order.length]);
  // A product with tiles for every unit, or with a short sum, is computed at once.
  assertEquals(planned(product(leaf([2048, 4096]), leaf([4096, 2048])), gpu).kernels.length, 1);
  assertEquals(planned(product(leaf([32, 64]), leaf([64, 32])), gpu).kernels.length, 1);
});

Deno.test("splitK takes parts that divide the sum, and none where the sum is prime", () => {
  const kernel = (k: number): LoopKernel => kernelOf(product(leaf([4, k]), leaf([k, 4])));
  const pair = splitK(kernel(60), 7)!;
  assertEquals(pair.partial.outputs[0]!.size, 10 * 16);
  assertEquals(pair.final.reductions.map(({ fn }) => fn), ["sum"]);
  assertEquals(splitK(kernel(65_537), 7), null);
  assertEquals(splitK(kernelOf(map("neg", constant(1, [4]))), 2), null);
});

Deno.test("a value that is stored and summed is read once: its parts store it", () => {
  const value = map("mul", leaf([1 << 14, 512]), leaf([1 << 14, 512]));
  const plan = schedule([value, sum(value, 0)], { device: gpu });
  assertEquals(labels(plan), ["mul_sum_part", "mul_sum_join"]);
  const [part, join] = plan.kernels;
  const temporary = plan.order.length, [stored, joined] = plan.results;
  assertEquals(part!.outputs, [temporary, stored!.at]);
  assertEquals([join!.inputs, join!.outputs], [[temporary], [joined!.at]]);
});
