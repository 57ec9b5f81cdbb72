/** Rows that work-items share, in every mapping, as the interpreter runs them. */
import { assert, assertEquals } from "@std/assert";
import type { Target } from "../../../../backend/kernel/target.ts";
import { planKernel } from "../../../../backend/opencl/templates/generate.ts";
import {
  columnGroups,
  groupReduction,
  registerRows,
} from "../../../../backend/opencl/templates/loops/shared_rows.ts";
import type { TileKernel } from "../../../../backend/tile/language/statements.ts";
import { rows } from "../../../../backend/tile/programs/rows.ts";
import { Tensor } from "../../../../mod.ts";
import "../../../opencl.ts"; // starts what listens to signals before any test
import { gpuTarget } from "../../opencl/templates/chosen_template.ts";
import { changed, countOf, without } from "../changed.ts";
import { of, run } from "./products.ts";
import { loopKernelsOf } from "../../loop_kernels.ts";

const templates = [columnGroups, registerRows, groupReduction];
const targets: readonly Target[] = [gpuTarget, { ...gpuTarget, warps: false }];

/** The kernels of a tensor that share rows, as tile programs for a target. */
function programs(make: () => Tensor, target: Target) {
  return loopKernelsOf(make, { target, planKernel }).flatMap((kernel) => {
    const template = templates.find(({ name }) => name === planKernel(kernel, target).name);
    const plan = template?.matches(kernel, target);
    if (!plan) return [];
    let count = 0;
    const nameOf = () => `p${count++}`;
    const tile = rows(kernel, plan.unit, plan.mapping, nameOf, true);
    return [{ name: template!.name, kernel, tile }];
  });
}

const normalized = (x: Tensor): Tensor => {
  const centred = x.sub(x.mean(1, { keepDims: true }));
  return centred.mul(centred.square().mean(1, { keepDims: true }).add(1e-5).rsqrt());
};

/** A computation, and the mapping that it takes; in registers by default. */
const cases: readonly (readonly [what: string, make: () => Tensor, mapping?: string])[] = [
  ["softmax, neighbours", () => of([5, 132]).softmax(1)],
  ["softmax, full", () => of([3, 128]).softmax(1)],
  ["softmax, odd", () => of([5, 67]).softmax(1)],
  ["softmax, one large row", () => of([1, 2100]).softmax(1)],
  ["softmax of halves", () => of([3, 132], "float16").softmax(1)],
  ["norm", () => normalized(of([3, 132]))],
  ["norm of a product", () => normalized(of([3, 99], "bfloat16").mul(of([99], "bfloat16")))],
  ["log-sum-exp", () => of([9, 80]).logSumExp(1)],
  ["rows that an index picks", () => {
    const ids = of([6], "int32");
    return of([7, 128]).indexSelect(0, ids).softmax(1);
  }],
  ["blocks that an index picks", () => {
    const blocks = Tensor.fromBlocks(new Uint8Array(5 * 144).map((_, k) => k * 7 & 0x3b), "Q4_K");
    return blocks.decodeBlocks("Q4_K", [5, 256]).indexSelect(0, of([3], "int32")).softmax(1);
  }],
  ["two axes", () => of([3, 9, 12]).logSumExp([1, 2])],
  ["padded", () => of([3, 70]).pad([[0, 0], [3, 2]]).logSumExp(1)],
  ["integers", () => of([3, 90], "int32").max(1)],
  ["long integers", () => of([3, 90], "int64").sum(1)],
  ["doubles", () => of([3, 90], "float64").sum(1)],
  ["truth values", () => of([3, 90], "bool").any(1)],
  ["long rows", () => of([200, 33_001]).slice([0, 2]).exp().sum(1), "group reduction"],
  ["two draws", () => Tensor.rand([5, 68]).sub(Tensor.rand([5, 68])).softmax(1)],
  ["one number", () => of([300]).sum()],
  ["places", () => of([4, 301]).argmax(1), "group reduction"],
  ["places of integers", () => of([4, 301], "int32").argmin(1), "group reduction"],
  ["columns", () => of([301, 37]).sum(0), "columns in groups"],
  ["largest of columns", () => of([301, 37], "int32").max(0), "columns in groups"],
];

Deno.test("rows have the values of the plain evaluator, each given once, in every mapping", () => {
  const seen = new Set<string>();
  for (const [what, make, mapping = "rows in registers"] of cases) {
    for (const target of targets) {
      const found = programs(make, target);
      const names = new Set(found.map(({ name }) => name));
      assert(names.has(mapping), `${what} is ${[...names]}`);
      for (const { name, kernel, tile } of found) {
        seen.add(name);
        const { report, error } = run(kernel, tile);
        assertEquals([...report.faults], [], `${what}, ${name}`);
        const limit = kernel.outputs.some(({ dtype }) => dtype.endsWith("16")) ? 4e-3 : 1e-5;
        assert(error <= limit, `${what}, ${name}: off by ${error}`);
      }
    }
  }
  assertEquals(seen.size, templates.length);
});

Deno.test("rows: no item of registerRows is without a vector of the row, however many values the row is made of", () => {
  const sum = (shape: number[]): Tensor =>
    Array.from({ length: 6 }, () => of(shape)).reduce((a, b) => a.add(b));
  for (const target of targets) {
    const found = programs(() => normalized(sum([512, 384])), target)
      .filter(({ name }) => name === "rows in registers");
    assert(found.length > 0);
    for (const { tile } of found) assertEquals(tile.items, 128);
  }
});

/** The one kernel of a case. */
function sample(make: () => Tensor, target: Target) {
  const [{ kernel, tile }] = programs(make, target) as [ReturnType<typeof programs>[number]];
  return { tile, run: (changed: TileKernel) => run(kernel, changed) };
}

Deno.test("rows: the interpreter sees each barrier of shared rows that is taken out", () => {
  const makes = [
    () => of([5, 67]).softmax(1),
    () => of([4, 301]).argmax(1),
    () => of([301, 37]).sum(0),
  ];
  for (const make of makes) {
    const { tile, run } = sample(make, targets[1]!), count = countOf(tile, "barrier");
    assert(count > 0);
    for (let n = 0; n < count; n++) {
      const { faults } = run(without(tile, "barrier", n)).report;
      assert([...faults.keys()].some((fault) => fault.startsWith("no barrier")), `barrier ${n}`);
    }
  }
});

Deno.test("rows: the interpreter sees halves that are joined twice, rows that are not there, and moved neighbours", () => {
  const { tile, run } = sample(() => of([5, 132]).softmax(1), targets[0]!);
  const twice = changed(tile, (s) => s.s === "shuffle" && s.mask === 8 ? { ...s, mask: 4 } : s);
  assert(run(twice).error > 1e-3);
  const { faults } = run(changed(tile, (s) => s.s === "if" ? s.body : s)).report;
  assert(["result given twice", "read outside a0"].some((fault) => faults.has(fault)));
  const moved = changed(
    tile,
    (s) =>
      s.s === "let" && s.value.op === "neighbour" ? { ...s, value: { ...s.value, value: 0 } } : s,
  );
  assert(run(moved).error > 1e-3);
});
