/** Products through local memory, of every tile and odd sizes, as the interpreter runs them. */
import { assert, assertEquals } from "@std/assert";
import type { LoopKernel } from "../../../../backend/kernel/kernel.ts";
import { withoutFreeBatch } from "../../../../backend/opencl/templates/parts/contraction_shape.ts";
import type { Statement, TileKernel } from "../../../../backend/tile/language/statements.ts";
import { gemm, type GemmTile } from "../../../../backend/tile/programs/gemm.ts";
import type { Tensor } from "../../../../mod.ts";
import "../../../opencl.ts"; // starts what listens to signals before any test
import { changed, countOf, without } from "../changed.ts";
import { convolved, of, productOf, run } from "./products.ts";

function programOf(kernel: LoopKernel, tile: GemmTile): TileKernel {
  let count = 0;
  return gemm(kernel, withoutFreeBatch(kernel.contraction!), tile, () => `p${count++}`, true);
}

/** Few work-items, so that runs are short: square, wide and high ones, in runs of neighbours and without. */
const tiles: readonly GemmTile[] = [
  { bm: 8, bn: 8, bk: 8, tm: 2, tn: 2 },
  { bm: 32, bn: 16, bk: 4, tm: 8, tn: 4 },
  { bm: 8, bn: 32, bk: 16, tm: 4, tn: 8 },
];

const cases: Readonly<Record<string, () => Tensor>> = {
  "whole tiles": () => of([32, 32]).matmul(of([32, 32])),
  "odd sizes": () => of([13, 21]).matmul(of([21, 35])),
  "less than a tile": () => of([2, 3]).matmul(of([3, 5])),
  "the left operand transposed": () => of([21, 13]).transpose().matmul(of([21, 35])),
  "the right operand transposed": () => of([13, 21]).matmul(of([35, 21]).transpose()),
  "with what follows it": () => of([13, 21]).matmul(of([21, 9])).add(of([9])).relu(),
  "a batch of any strides": () =>
    of([2, 9, 3, 7]).transpose(1, 2).matmul(of([2, 9, 3, 7]).transpose(1, 2).transpose(-1, -2)),
  "every second row, reversed columns": () =>
    of([26, 11]).slice([null, null, 2]).matmul(of([11, 10]).flip([1])),
  "a convolution": () => convolved([2, 3, 5, 6], [4, 3, 3, 3], { padding: 1 }),
  "a convolution in steps": () => convolved([2, 3, 7, 9], [5, 3, 3, 3], { stride: 2, padding: 1 }),
  "a dilated convolution in groups": () =>
    convolved([2, 4, 7, 6], [6, 2, 3, 3], { groups: 2, dilation: 2, padding: 2 }),
  "two padded parts of one tensor": () => {
    const x = of([9, 10]), part = (rows: number) => x.slice([0, rows]).pad([[1, 2], [1, 1]]);
    return part(5).matmul(part(7).transpose());
  },
  "doubles": () => of([9, 10], "float64").matmul(of([10, 11], "float64")),
  "long integers": () => of([9, 10], "int64").matmul(of([10, 11], "int64")),
  "integers": () => of([9, 10], "int32").matmul(of([10, 11], "int32")),
  "halves": () => of([9, 10], "float16").matmul(of([10, 11], "float16")),
  "bfloat16": () => of([9, 10], "bfloat16").matmul(of([10, 11], "bfloat16")),
};

Deno.test("gemm has the values of the plain evaluator, each stored once, in tiles of every form", () => {
  for (const [what, make] of Object.entries(cases)) {
    const kernel = productOf(make);
    for (const tile of tiles) {
      const name = `${what}, ${tile.bm} x ${tile.bn}`, program = programOf(kernel, tile);
      const { report, error } = run(kernel, program);
      assertEquals([...report.faults], [], name);
      const isHalf = kernel.outputs.some(({ dtype }) => dtype.endsWith("16"));
      assert(error <= (isHalf ? 4e-3 : 1e-5), `${name}: off by ${error}`);
    }
  }
});

Deno.test("gemm: the interpreter sees each barrier that is taken out", () => {
  for (const [what, barriers] of [["odd sizes", 2], ["a convolution in steps", 3]] as const) {
    const kernel = productOf(cases[what]!), tile = programOf(kernel, tiles[0]!);
    assertEquals(countOf(tile, "barrier"), barriers, what);
    for (let n = 0; n < barriers; n++) {
      const { faults } = run(kernel, without(tile, "barrier", n)).report;
      assert([...faults.keys()].some((fault) => fault.startsWith("no barrier")), `${what} ${n}`);
    }
  }
});

Deno.test("gemm: the interpreter sees exchanged terms, tests that are missing, and parts of a table", () => {
  const kernel = productOf(cases["odd sizes"]!), tile = programOf(kernel, tiles[0]!);
  const isLocal = (s: Statement): boolean => s.s === "store" && s.place.space === "local";
  let first: Statement | null = null;
  const exchanged = changed(tile, (s) => {
    if (!isLocal(s) || s.s !== "store") return s;
    first ??= s;
    return first.s === "store" ? { ...s, value: first.value } : s;
  });
  assert(run(kernel, exchanged).error > 1e-3);
  const { faults } = run(kernel, changed(tile, (s) => s.s === "if" ? s.body : s)).report;
  assert(["write outside o0", "result given twice"].some((fault) => faults.has(fault)));
  const padded = productOf(cases["a convolution"]!), program = programOf(padded, tiles[0]!);
  const open = changed(program, (s) => s.s === "if" ? s.body : s);
  assert([...run(padded, open).report.faults.keys()].some((fault) => fault.includes("outside")));
});
