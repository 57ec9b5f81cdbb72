import { hostTarget } from "../../../backend/kernel/target.ts";
import type { KernelPlanner } from "../../../backend/kernel/template.ts";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { GoneError } from "../../../backend/graph/toposort.ts";
import { Node } from "../../../backend/graph/node.ts";
import type { Op } from "../../../backend/graph/op.ts";
import type { DType } from "../../../backend/graph/dtype.ts";
import { PlanCache } from "../../../backend/schedule/plan_cache.ts";
import { type Schedule, schedule } from "../../../backend/schedule/schedule.ts";
import { apply, constant, labels, leaf, map, planner, product, sum } from "./nodes.ts";
import type { Shape } from "../../../backend/graph/shape.ts";

/** Operands and results of each kernel, by position. */
function wires({ kernels }: Schedule): unknown[] {
  return kernels.map(({ inputs, outputs, dying }) => ({ inputs, outputs, dying }));
}

Deno.test("Schedule: a graph of 100,000 nodes is scheduled without recursion, each node once", () => {
  const first = leaf([8]);
  let node = first;
  for (let k = 0; k < 100_000; k++) node = map("add", node, first);
  const { order, kernels } = schedule([node]);
  assertEquals(order.length, 100_001);
  assert(kernels.length > 100 && kernels.length < 10_000, `${kernels.length} kernels`);
  // Two results are in memory at a time: the one before, and the one that is made of it.
  const ends = kernels.slice(1).every(({ inputs, dying }) => inputs.includes(dying[0]!));
  assert(ends);
});

Deno.test("Schedule: a result on the way dies with its last reader, an input never", () => {
  const x = leaf(), rows = sum(x, 1), column = sum(x, 0);
  const spread = (v: Node, shape: Shape): Node =>
    apply({ kind: "expand" }, apply({ kind: "reshape" }, v, shape), [4, 6]);
  const out = map("mul", spread(rows, [4, 1]), spread(column, [1, 6]));
  const plan = schedule([out]);
  const at = (node: Node): number => plan.order.indexOf(node);
  const last = plan.kernels.at(-1)!;
  assertEquals(last.outputs, [at(out)]);
  const dying = plan.kernels.flatMap((kernel) => kernel.dying);
  assertEquals(dying.length, new Set(dying).size);
  assertEquals(dying.includes(at(out)), false);
  assertEquals(plan.kept, [at(out)]);
});

Deno.test("Schedule: what was asked for by a reshape has the bytes of its input", () => {
  const x = leaf(), doubled = map("add", x, x);
  const flat = apply({ kind: "reshape" }, doubled, [24]);
  const { results, order } = schedule([flat]);
  const [{ node, at }] = results as [typeof results[number]];
  assertEquals([results.length, node === flat, order[at] === doubled], [1, true, true]);
});

Deno.test("Schedule: a value whose memory was given back cannot be scheduled", () => {
  const gone = new Node({ kind: "buffer" }, [], [4, 6], "float32");
  assertThrows(() => schedule([map("neg", gone)]), GoneError);
});

Deno.test("Schedule: a graph like one before has its plan, by position", () => {
  const cache = new PlanCache();
  const make = (): Node => {
    const x = leaf();
    return map("mul", map("add", sum(x, 1), leaf([4])), constant(3));
  };
  const first = schedule([make()], { cache }), second = schedule([make()], { cache });
  assert(first.remembered !== null && first.remembered === second.remembered);
  assertEquals(wires(first), wires(second));
});

Deno.test("Schedule: graphs that differ in anything that kernels depend on have plans of their own", () => {
  const cache = new PlanCache();
  const axes = (kind: "permute", ...axes: number[]): Op => ({ kind, axes });
  const pad = (before: number[], value: number): Op => ({ kind: "pad", before, value });
  const slice = (starts: number[], steps: number[]): Op => ({ kind: "slice", starts, steps });
  const shared = leaf();
  const both = (): Node[] => {
    const inner = map("neg", leaf());
    return [map("abs", inner), inner];
  };
  const graphs: (() => Node[])[] = [
    () => [map("neg", leaf())],
    () => [map("abs", leaf())],
    () => [map("neg", leaf([6, 4]))],
    () => [map("neg", leaf([24]))],
    () => [map("add", leaf(), leaf())],
    () => [map("add", shared, shared)],
    () => [map("add", leaf(), constant(0))],
    () => [map("add", leaf(), constant(-0))],
    () => [map("add", leaf(), constant(1))],
    () => [map("add", leaf(), constant(Number.NaN))],
    () => [sum(leaf(), 0)],
    () => [sum(leaf(), 1)],
    () => [map("neg", apply(axes("permute", 1, 0), leaf([5, 5])))],
    () => [map("neg", apply(axes("permute", 0, 1), leaf([5, 5])))],
    () => [map("neg", apply(pad([1, 0], 0), leaf(), [6, 6]))],
    () => [map("neg", apply(pad([0, 0], 0), leaf(), [6, 6]))],
    () => [map("neg", apply(pad([1, 0], 1), leaf(), [6, 6]))],
    () => [map("neg", apply(slice([0, 0], [1, 1]), leaf(), [2, 2]))],
    () => [map("neg", apply(slice([0, 0], [1, 2]), leaf(), [2, 2]))],
    () => [map("neg", apply(slice([1, 0], [1, 1]), leaf(), [2, 2]))],
    () => [new Node({ kind: "cast" }, [leaf()], [4, 6], "int32")],
    () => [new Node({ kind: "cast" }, [leaf()], [4, 6], "float16")],
    () => both().slice(0, 1),
    both,
    () => both().toReversed(),
  ];
  const plans = graphs.map((make) => schedule(make(), { cache }).remembered);
  assertEquals(new Set(plans).size, graphs.length);
  const again = graphs.map((make) => schedule(make(), { cache }).remembered);
  again.forEach((plan, k) => assert(plan === plans[k], `graph ${k} is planned twice`));
});

Deno.test("Schedule: graphs whose number differs each time have one plan, others those of their numbers", () => {
  const cache = new PlanCache();
  const plansOf = (canVary: boolean, numberOf: (k: number) => number, dtype: DType = "float32") =>
    Array.from({ length: 8 }, (_, k) => {
      const number = new Node({ kind: "constant", value: numberOf(k) }, [], [], dtype);
      const once = map("mul", sum(leaf(), 1), constant(0.5)), x = leaf([4]);
      return schedule([map("add", once, map("mul", x, number))], { cache, canVary }).remembered;
    });
  const distinct = (plans: readonly unknown[]): number => new Set(plans).size;
  const varying = plansOf(true, (k) => k + 0.25);
  assertEquals([distinct(varying), distinct(varying.slice(3))], [4, 1]);
  assertEquals(distinct(plansOf(false, (k) => k + 100.25)), 8);
  // A known plan is found first: nothing is read that the kernels have.
  assertEquals(distinct(plansOf(true, (k) => k % 2 + 100.25)), 2);
  assertEquals(distinct(plansOf(true, (k) => k, "bfloat16")), 8);
});

Deno.test("Schedule: the plans that were used last are kept", () => {
  const cache = new PlanCache();
  const planOf = (n: number) => schedule([map("neg", leaf([n]))], { cache }).remembered;
  const first = planOf(1), second = planOf(2);
  for (let n = 3; n <= PlanCache.MAX_PLANS; n++) planOf(n);
  assert(planOf(1) === first);
  planOf(PlanCache.MAX_PLANS + 1);
  assert(planOf(1) === first);
  assert(planOf(2) !== second);
});

Deno.test("Schedule: large graphs are planned once; of many large ones, those that were used last are kept", () => {
  const chain = (n: number): Node => {
    let node = leaf([2]);
    for (let k = 0; k < n; k++) node = map("neg", node);
    return node;
  };
  const planOf = (n: number, cache: PlanCache) => schedule([chain(n)], { cache }).remembered;
  // A step of ResNet-18 and AdamW has 4262 nodes.
  const usual = new PlanCache(), plan = planOf(5000, usual);
  assert(plan !== null && planOf(5000, usual) === plan);
  const small = new PlanCache(800), [first, second] = [planOf(90, small), planOf(91, small)];
  for (let n = 92; n < 97; n++) planOf(n, small);
  assert(planOf(90, small) === first);
  planOf(98, small); // makes nine of them more than 800 nodes
  planOf(97, small);
  assert(planOf(90, small) === first);
  assert(planOf(91, small) !== second);
  assertEquals(planOf(100, small), null);
});

Deno.test("Schedule: a random node of a graph like one before has its own place in the sequence", () => {
  const cache = new PlanCache();
  const make = (value: number): Node => {
    const op: Op = { kind: "random", seed: 7, stream: { value } };
    return map("neg", new Node(op, [], [4], "float32"));
  };
  const streamOf = (plan: Schedule): number[] =>
    plan.kernels.flatMap(({ kernel }) => kernel.kind === "loop" ? kernel.exprs : [])
      .flatMap((e) => e.op === "random" ? [e.stream.value] : []);
  assertEquals(streamOf(schedule([make(3)], { cache })), [3]);
  assertEquals(streamOf(schedule([make(9)], { cache })), [9]);
  assertEquals(streamOf(schedule([make(4)])), [4]);
});

Deno.test("Schedule: a plan remembers what is saved for a graph that is made later", () => {
  const cache = new PlanCache(), middle: Node[] = [];
  let made = 0;
  const read = (key: string, later: (hidden: Node) => Node): Schedule => {
    const hidden = product(leaf([4, 6]), leaf([6, 3]));
    const out = sum(product(map("neg", hidden), leaf([3, 2])), 1);
    middle.push(hidden);
    const nodes = (): Node[] => [later(hidden)].filter(() => ++made > 0);
    return schedule([out], { cache, ahead: [{ key: [key], nodes }] });
  };
  const square = (hidden: Node): Node => map("mul", hidden, hidden);
  const first = read("square", square), second = read("square", square);
  assertEquals(made, 1);
  assertEquals(second.saved, [second.order.indexOf(middle[1]!)]);
  assert(first.remembered !== null && first.remembered === second.remembered);
  // Buffers behind the nodes are where they were, although those of the later graph are not made.
  const places = second.order.length + second.temporaries.length;
  const used = second.kernels.flatMap(({ inputs, outputs }) => [...inputs, ...outputs]);
  assert(used.every((at) => at < places));
  const other = read("nothing", () => map("neg", leaf()));
  assertEquals([made, other.saved], [2, []]);
});

Deno.test("Schedule: a value behind a product is stored by the product, and read by what reduces it", () => {
  const activation = map("neg", product(leaf([16, 6]), leaf([6, 12])));
  const plan = schedule([activation, sum(activation, 1)]);
  assertEquals(labels(plan), ["matmul_neg", "sum"]);
  // Without a product there is nothing to store first: one kernel gives both.
  const plain = map("neg", leaf([16, 12]));
  assertEquals(labels(schedule([plain, sum(plain, 1)])), ["neg_sum"]);
});

Deno.test("Schedule: padding is stored where no kernel reads through it, and only there", () => {
  const plan = (planKernel: KernelPlanner | null): string[] => {
    const image = map("neg", leaf([16, 6]));
    const padded = apply({ kind: "pad", before: [0, 1], value: 0 }, image, [16, 8]);
    const device = { target: hostTarget, planKernel };
    return labels(schedule([product(padded, leaf([8, 12]))], { device }));
  };
  assertEquals(plan(planner()), ["neg", "matmul"]);
  assertEquals(plan(null), ["neg_pad", "matmul"]);
  // The attempt leaves no trace: the image is not stored beside its padded copy.
  assertEquals(plan(planner({ isSpecialized: false })), plan(null));
});
