import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import type { LoopKernel } from "../../../backend/kernel/kernel.ts";
import { hostTarget } from "../../../backend/kernel/target.ts";
import type { KernelGraph } from "../../../backend/schedule/passes/kernel_graph.ts";
import { listSchedule } from "../../../backend/schedule/passes/list_scheduling.ts";
import { planMemory } from "../../../backend/schedule/memory_plan.ts";
import { schedule } from "../../../backend/schedule/schedule.ts";
import { leaf, map } from "./nodes.ts";

const device = { target: hostTarget, planKernel: null };
const kernel = schedule([map("neg", leaf([8]))]).kernels[0]!.kernel as LoopKernel;

/** Kernels by what they read; the k-th writes buffer k of so many elements. The last one is wanted. */
function graphOf(steps: readonly (readonly [reads: number[], size: number])[]): KernelGraph {
  const plain = { dtype: "float32", isStored: false, isPresent: true } as const;
  return {
    buffers: steps.map(([, size], k) => ({ ...plain, size, made: k })),
    steps: steps.map(([reads], k) => ({ kernel, inputs: reads, outputs: [k] })),
    wanted: new Set([steps.length - 1]),
    saved: new Set(),
  };
}

const orderOf = (graph: KernelGraph): number[] =>
  listSchedule(graph, device).steps.map(({ outputs }) => outputs[0]!);

Deno.test("a kernel that frees as much as it takes runs as soon as it can", () => {
  // Two large values, each summed to a small one: the sum of the first comes before the second.
  const graph = graphOf([[[], 1000], [[], 1000], [[0], 1], [[1], 1], [[2, 3], 1]]);
  assertEquals(orderOf(graph), [0, 2, 1, 3, 4]);
  assertEquals(planMemory(graph, 5).peakBytes, 4 * 2001);
  assertEquals(planMemory(listSchedule(graph, device), 5).peakBytes, 4 * 1002);
});

Deno.test("what a kernel writes for itself alone does not keep it from running early", () => {
  // The second takes scratch while it runs, which nobody reads, and frees the first value.
  const graph = graphOf([[[], 100], [[], 100], [[0], 10], [[1, 2], 1]]);
  const scratch = graph.buffers.length;
  const buffers = [...graph.buffers, { ...graph.buffers[2]!, size: 500 }];
  const steps = graph.steps.map((step, k) =>
    k === 2 ? { ...step, outputs: [...step.outputs, scratch] } : step
  );
  assertEquals(orderOf({ ...graph, buffers, steps }), [0, 2, 1, 3]);
});

Deno.test("other kernels run in the order of the program", () => {
  const graph = graphOf([[[], 1], [[0], 10], [[0], 10], [[1, 2], 100]]);
  assertEquals(orderOf({ ...graph, steps: graph.steps.toReversed() }), [0, 1, 2, 3]);
});

Deno.test("every kernel runs once, behind those whose results it reads", () => {
  const step = fc.tuple(fc.array(fc.nat(), { maxLength: 3 }), fc.nat(64));
  fc.assert(fc.property(fc.array(step, { minLength: 1, maxLength: 40 }), (steps) => {
    const graph = graphOf(
      steps.map(([reads, size], k) => [k === 0 ? [] : reads.map((n) => n % k), size]),
    );
    const done = new Set<number>();
    for (const { inputs, outputs } of listSchedule(graph, device).steps) {
      for (const at of inputs) assert(done.has(at));
      for (const at of outputs) {
        assert(!done.has(at));
        done.add(at);
      }
    }
    assertEquals(done.size, steps.length);
  }));
});
