import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import type { HeldLimits } from "../../../backend/kernel/target.ts";
import { fuseAlike } from "../../../backend/schedule/passes/horizontal_fusion.ts";
import type { KernelGraph, Step } from "../../../backend/schedule/passes/kernel_graph.ts";
import { Node } from "../../../backend/graph/node.ts";
import type { PrimitiveName } from "../../../backend/graph/primitives.ts";
import { schedule } from "../../../backend/schedule/schedule.ts";
import { type BackendName, manualSeed, profiler, Tensor, withDevice } from "../../../mod.ts";
import { realizeAll } from "../../../tensor/execution/realization.ts";
import { testOnOpenCL, testOpenCL } from "../../opencl.ts";

const leaf = (size: number): Node =>
  new Node({ kind: "data", bytes: new Uint8Array(4) }, [], [size], "float32");
const apply = (fn: PrimitiveName, input: Node): Node =>
  new Node({ kind: "elementwise", fn }, [input], input.shape, "float32");

/** A kernel for each node, in this order, with what `schedule` makes of it; leaves come behind. */
function graphOf(nodes: readonly Node[], leavesAreStored = false): KernelGraph {
  const all = [...new Set([...nodes, ...nodes.flatMap(({ inputs }) => inputs)])];
  const steps = nodes.map((node): Step => {
    const { kernels } = schedule([new Node(node.op, [leaf(node.size)], node.shape, node.dtype)]);
    const inputs = node.inputs.map((input) => all.indexOf(input));
    return { kernel: kernels[0]!.kernel, inputs, outputs: [all.indexOf(node)] };
  });
  const buffers = all.map(({ dtype, size, id }) => ({
    dtype,
    size,
    made: id,
    isStored: leavesAreStored && !nodes.some(({ id: own }) => own === id),
    isPresent: true,
  }));
  return { buffers, steps, wanted: new Set(), saved: new Set() };
}

const cpu = { waiting: 1 << 23, early: 1 << 23, earlyOfStored: 1 << 26 };
const gpu = { waiting: Infinity, early: Infinity, earlyOfStored: Infinity };

/** The graph with its launches shared: kernels of one operation are alike, and three of them fit. */
function shared(
  nodes: readonly Node[],
  leavesAreStored = false,
  limits: HeldLimits = cpu,
): readonly Step[] {
  return fuseAlike(
    graphOf(nodes, leavesAreStored),
    ({ label }) => label === "exp" ? null : { key: label, most: 3 },
    limits,
  ).steps;
}

/** The nodes that each launch computes. */
function launches(nodes: readonly Node[]): (readonly number[])[] {
  return shared(nodes).map(({ outputs }) => outputs);
}

Deno.test("kernels that are alike share a launch, at the place of the last of them", () => {
  const nodes = (["neg", "exp", "neg", "abs", "neg"] as const).map((fn) => apply(fn, leaf(8)));
  assertEquals(launches(nodes), [[1], [3], [0, 2, 4]]);
});

Deno.test("fuseAlike launches a kernel with an earlier one, where what both read is there", () => {
  // Projections of one value: the first has been read when the second comes.
  const x = apply("exp", leaf(8)), first = apply("neg", x), reader = apply("exp", first);
  const nodes = [x, first, reader, apply("neg", x)];
  assertEquals(launches(nodes), [[0], [1, 3], [2]]);
  // What comes between makes what the second reads.
  assertEquals(launches([x, first, reader, apply("neg", reader)]), [[0], [1], [2], [3]]);
});

Deno.test("no more kernels share a launch than fit", () => {
  assertEquals(launches(Array.from({ length: 7 }, () => apply("neg", leaf(8)))), [
    [0, 1, 2],
    [3, 4, 5],
    [6],
  ]);
});

Deno.test("a kernel does not move behind a reader of its results", () => {
  const first = apply("neg", leaf(8)), reader = apply("exp", first);
  const second = apply("neg", leaf(8)), third = apply("neg", leaf(8));
  assertEquals(launches([first, reader, second, third]), [[0], [1], [2, 3]]);
  const inner = apply("neg", leaf(8)), outer = apply("neg", inner);
  assertEquals(launches([inner, outer]), [[0], [1]]);
});

Deno.test("a kernel moves before a reader of others where all that it reads is there, and little is made", () => {
  const early = (size: number): (readonly number[])[] => {
    const weights = [leaf(size), leaf(size), leaf(size)];
    const halves = weights.map((weight) => apply("neg", weight));
    const readers = halves.map((half) => apply("exp", half));
    const late = apply("neg", readers[0]!);
    const nodes = [0, 1, 2].flatMap((k) => [halves[k]!, readers[k]!]);
    return shared([...nodes, late], true).map(({ outputs }) => outputs);
  };
  assertEquals(early(8), [[0, 2, 4], [1], [3], [5], [6]]);
  assertEquals(early(1 << 23), [[0, 2, 4], [1], [3], [5], [6]]);
  assertEquals(early(1 << 25), [[0], [1], [2], [3], [4], [5], [6]]);
});

Deno.test("kernels that wait hold no more than a little memory", () => {
  const readersOf = (size: number): (readonly number[])[] => {
    const made = Array.from({ length: 3 }, () => apply("exp", leaf(size)));
    return launches([...made, ...made.map((node) => apply("neg", node))]);
  };
  assertEquals(readersOf(1 << 23), [[0], [1], [2], [3], [4], [5]]);
  // The gradients of a layer's results, from which those of biases are summed.
  assertEquals(readersOf(768 * 512), [[0], [1], [2], [3, 4, 5]]);
});

Deno.test("fuseAlike lets kernels wait as long as the peak of memory does not grow", () => {
  // Gradients, of which sums are taken, are larger than what was kept for them or smaller.
  const launchesOf = (kept: number, gradient: number): (readonly number[])[] => {
    const forward = Array.from({ length: 4 }, () => apply("exp", leaf(kept)));
    const backward = forward.map((node) => new Node(node.op, [node], [gradient], "float32"));
    const nodes = [...forward, ...backward.flatMap((node) => [node, apply("neg", node)])];
    return shared(nodes, false, gpu).map(({ outputs }) => outputs);
  };
  assertEquals(launchesOf(1 << 24, 1 << 22).slice(4), [[4], [6], [8], [5, 7, 9], [10], [11]]);
  const inOrder = [[4], [5], [6], [7], [8], [9], [10], [11]];
  assertEquals(launchesOf(1 << 22, 1 << 24).slice(4), inOrder, "two gradients would be held");
});

Deno.test("batches keep every dependency and every kernel", () => {
  const functions = ["neg", "abs", "exp", "sqrt"] as const;
  const step = fc.record({
    fn: fc.constantFrom(...functions),
    input: fc.nat(),
    fresh: fc.boolean(),
  });
  const some = fc.array(step, { minLength: 1, maxLength: 30 });
  const limits = fc.constantFrom(cpu, gpu);
  fc.assert(fc.property(some, fc.boolean(), limits, (steps, leavesAreStored, limits) => {
    const nodes: Node[] = [];
    for (const { fn, input, fresh } of steps) {
      const source = fresh || nodes.length === 0 ? leaf(8) : nodes[input % nodes.length]!;
      nodes.push(apply(fn, source));
    }
    const done = new Set<number>();
    let count = 0;
    for (const { inputs, outputs } of shared(nodes, leavesAreStored, limits)) {
      for (const at of inputs) assert(at >= nodes.length || done.has(at));
      for (const at of outputs) done.add(at);
      count += outputs.length;
    }
    assertEquals([done.size, count], [nodes.length, nodes.length]);
  }));
});

/** Runs `fn` on both backends; the values must agree, and OpenCL must launch `kernels`. */
function assertBatched(kernels: number, fn: () => Tensor[]): void {
  const run = (backend: BackendName): unknown[] =>
    withDevice(backend, () => {
      manualSeed(3);
      const tensors = fn();
      profiler.reset();
      realizeAll(tensors);
      if (backend === "cl") assertEquals(profiler.counters().kernels, kernels);
      return tensors.map((tensor) => [...tensor.toHostSync()].map((v) => Math.fround(Number(v))));
    });
  assertEquals(run("cl"), run("cpu"));
}

const sizes = [2, 17, 300, 4097, 16, 100_000];
const counting = (size: number): Tensor =>
  Tensor.arange(size).remainder(97).mul(0.25).sub(7).realize();

testOpenCL("the same operation on tensors of other sizes is one launch", () => {
  assertBatched(1, () =>
    sizes.map((size) => {
      const x = counting(size), y = counting(size);
      return x.mul(3).add(y).relu();
    }));
});

testOpenCL("tensors of other types, numbers and places are batched among themselves", () => {
  assertBatched(2, () =>
    sizes.flatMap((size) => [
      counting(size).mul(size + 1).add(0.3),
      counting(size).cast("int32").realize().mul(size + 1).add(5),
    ]));
  assertBatched(1, () => sizes.map((size) => counting(size + 2).slice([1, size + 1]).mul(2)));
});

testOpenCL("row sums of several matrices are one launch", () => {
  assertBatched(
    1,
    () =>
      [[40, 20], [33, 20], [200, 20]].map(([rows, columns]) =>
        counting(rows! * columns!).reshape([rows!, columns!]).sum(1).mul(2)
      ),
  );
});

testOpenCL("random numbers are the same in a batch", () => {
  assertBatched(1, () => [5, 300, 4097].map((size) => Tensor.rand([size])));
});

testOnOpenCL("an index out of range is found in a batch", () => {
  const rows = [3, 5].map((n) => counting(n));
  const picked = [1, 7].map((at, k) =>
    rows[k]!.gather(0, Tensor.fromHost(Int32Array.of(at)).realize())
  );
  profiler.reset();
  realizeAll(picked);
  assertEquals(profiler.counters().kernels, 1);
  let message = "";
  try {
    picked[0]!.toHostSync();
  } catch (error) {
    assert(error instanceof RangeError);
    message = error.message;
  }
  assert(message.includes("7") && message.includes("5"), message);
});
