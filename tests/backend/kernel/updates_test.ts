import { assertEquals } from "@std/assert";
import { symbol } from "../../../backend/kernel/affine.ts";
import type { Expr, LoopKernel } from "../../../backend/kernel/kernel.ts";
import { type Update, updatesOf } from "../../../backend/kernel/forms/updates.ts";
import { schedule } from "../../../backend/schedule/schedule.ts";
import { gpu, leaf, map, product } from "../schedule/nodes.ts";

const step = (index = symbol(0), bound = false): LoopKernel => {
  const load = (input: number, at: typeof index) => (
    { input, dtype: "float32", index: at, bounds: bound ? [{ index: at, size: 4 }] : [] } as const
  );
  const exprs: Expr[] = [
    { op: "load", load: 0, dtype: "float32" },
    { op: "load", load: 1, dtype: "float32" },
    { op: "primitive", fn: "add", args: [0, 1], dtype: "float32" },
  ];
  return {
    kind: "loop",
    sizes: [8],
    outer: [0],
    inner: [],
    inputs: ["float32", "float32"],
    loads: [load(0, index), load(1, symbol(0))],
    indirect: [],
    exprs,
    reductions: [],
    contraction: null,
    outputs: [{ expr: 2, dtype: "float32", index: symbol(0), size: 8 }],
    label: "add",
  };
};

Deno.test("updatesOf: a result may lie where what is read for the same element alone lies", () => {
  assertEquals(updatesOf(step(), false), [[0, 0], [1, 0]]);
  assertEquals(updatesOf(step({ offset: 7, terms: [[0, -1]] }), false), [[1, 0]]);
  assertEquals(updatesOf(step(symbol(0), true), false), []);
});

Deno.test("updatesOf: in a shared launch, results are counted with the scratch of the members before", () => {
  const kernel = { kind: "horizontal", members: [step(), step()], label: "add" } as const;
  const found: Update[] = [[0, 0], [1, 0], [2, 3], [3, 3]];
  assertEquals(updatesOf({ ...kernel, written: [3, 3] }, true), found);
});

Deno.test("updatesOf: what a product reads of its operands is read for other elements, too", () => {
  const weights = leaf([64, 64]),
    next = map("sub", weights, product(leaf([64, 64]), leaf([64, 64])));
  const { kernels, order } = schedule([next], { device: gpu });
  const { kernel, inputs } = kernels.at(-1)!;
  const from = inputs.findIndex((at) => order[at] === weights);
  assertEquals(updatesOf(kernel, true), [[from, 0]]);
  const square = schedule([map("sub", weights, product(weights, weights))], { device: gpu });
  for (const { kernel } of square.kernels) assertEquals(updatesOf(kernel, true), []);
});
