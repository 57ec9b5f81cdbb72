/** Products on matrix units, of every unit and odd sizes, as the interpreter runs them. */
import { assert, assertEquals } from "@std/assert";
import type { DType } from "../../../../backend/graph/dtype.ts";
import type { LoopKernel } from "../../../../backend/kernel/kernel.ts";
import type { MatrixUnits } from "../../../../backend/kernel/target.ts";
import { withoutFreeBatch } from "../../../../backend/opencl/templates/parts/contraction_shape.ts";
import { mapStatement, type TileKernel } from "../../../../backend/tile/language/statements.ts";
import { matrixUnits, unitOf } from "../../../../backend/tile/matrix_units.ts";
import { matrixGemm, type MmaTile } from "../../../../backend/tile/programs/matrix_gemm.ts";
import type { Tensor } from "../../../../mod.ts";
import "../../../opencl.ts"; // starts what listens to signals before any test
import { type E, make } from "../../../../backend/tile/language/expression.ts";
import { changed, countOf, without } from "../changed.ts";
import { convolved, of, productOf, run } from "./products.ts";

/** The products of a kernel, of floats three of parts by default. */
function programOf(
  kernel: LoopKernel,
  tile: MmaTile,
  { products, units = "mma" }: { readonly products?: 1 | 3; readonly units?: MatrixUnits } = {},
): TileKernel {
  const c = withoutFreeBatch(kernel.contraction!), unit = unitOf(c, units)!;
  let count = 0;
  const nameOf = () => `p${count++}`;
  return matrixGemm(
    kernel,
    c,
    tile,
    { ...unit, products: products ?? unit.products },
    nameOf,
    true,
  );
}

/** Few warps, in two and three stages, with rows of local memory of several lengths. */
const tiles: Readonly<Record<2 | 4, readonly MmaTile[]>> = {
  2: [
    { bm: 32, bn: 32, bk: 32, wm: 16, wn: 32, stages: 2 },
    { bm: 32, bn: 64, bk: 64, wm: 32, wn: 32, stages: 3 },
  ],
  4: [
    { bm: 32, bn: 32, bk: 16, wm: 32, wn: 16, stages: 3 },
    { bm: 64, bn: 32, bk: 32, wm: 32, wn: 32, stages: 2 },
    { bm: 32, bn: 32, bk: 64, wm: 16, wn: 16, stages: 2 },
  ],
};

/** The expression without its exclusive or. */
function withoutSwizzle(e: E): E {
  if (e.op === "^") return withoutSwizzle(e.args[0]!);
  return make(e.op, e.kind, e.args.map(withoutSwizzle), e);
}

type Make = (dtype: DType) => Tensor;
const cases: Readonly<Record<string, Make>> = {
  "odd sizes": (t) => of([33, 37], t).matmul(of([37, 35], t)),
  "whole tiles": (t) => of([64, 64], t).matmul(of([64, 64], t)),
  "both operands transposed": (t) =>
    of([72, 40], t).transpose().matmul(of([48, 72], t).transpose()),
  "pairs of neighbours": (t) => of([34, 38], t).matmul(of([38, 42], t)).add(of([42], t)),
  "heads in the middle": (t) => {
    const q = of([1, 20, 2, 24], t).transpose(1, 2);
    return q.matmul(q.transpose(-1, -2));
  },
  "two padded parts of one tensor": (t) => {
    const x = of([30, 22], t), part = (rows: number) => x.slice([0, rows]).pad([[1, 2], [1, 1]]);
    return part(21).matmul(part(27).transpose());
  },
  "a convolution in steps": (t) =>
    convolved([2, 5, 9, 11], [20, 5, 3, 3], { stride: 2, padding: 1 }, t),
};

const limits: Readonly<Partial<Record<DType, number>>> = {
  float16: 2e-3,
  bfloat16: 1e-2,
  float32: 5e-6,
};

Deno.test("matrixGemm has the values of the plain evaluator, each stored once, without bank conflicts", () => {
  for (const dtype of ["float16", "float32", "bfloat16"] as const) {
    for (const [what, make] of Object.entries(cases)) {
      // The halves differ in how they are decoded alone.
      if (dtype === "bfloat16" && what !== "odd sizes") continue;
      const kernel = productOf(() => make(dtype)), both = tiles[dtype === "float32" ? 4 : 2];
      // Every case in one of the tiles, the first in both: a case takes a second or more.
      const number = Object.keys(cases).indexOf(what);
      for (const tile of number === 0 ? both : [both[number % 2]!]) {
        const name = `${what}, ${dtype}, ${tile.bm} x ${tile.bn}`;
        const { report, error } = run(kernel, programOf(kernel, tile));
        assertEquals([...report.faults], [], name);
        assert(error <= limits[dtype]!, `${name}: off by ${error}`);
      }
    }
  }
});

Deno.test("matrixGemm: one product of TF32 is less accurate than three, and near", () => {
  const kernel = productOf(() => cases["odd sizes"]!("float32"));
  const { report, error } = run(kernel, programOf(kernel, tiles[4][0]!, { products: 1 }));
  assertEquals([...report.faults], []);
  assert(error > 1e-6 && error < 5e-3, `off by ${error}`);
});

Deno.test("matrixGemm: the interpreter sees each barrier and each wait that is taken out", () => {
  const kernel = productOf(() => cases["pairs of neighbours"]!("float16"));
  const tile = programOf(kernel, tiles[2][0]!),
    seen = (program: TileKernel): boolean => {
      const { report, error } = run(kernel, program);
      return report.faults.size > 0 || error > limits.float16!;
    };
  const barriers = countOf(tile, "barrier");
  assertEquals(barriers, 3, "one a stage, and two around the sums on their way out");
  for (let n = 0; n < barriers; n++) assert(seen(without(tile, "barrier", n)), `barrier ${n}`);
  assert(seen(without(tile, "wait", 0)), "the wait of a stage");
  assert(seen(without(tile, "commit", 0)), "the end of a group");
});

Deno.test("matrixGemm: the interpreter sees exchanged fragments, a swizzle that is gone, and wrong matrices", () => {
  const kernel = productOf(() => cases["whole tiles"]!("float16"));
  const tile = programOf(kernel, tiles[2][0]!);
  const exchanged = changed(
    tile,
    (s) => s.s === "matrices" ? { ...s, to: [s.to[1]!, s.to[0]!, s.to[2]!, s.to[3]!] } : s,
  );
  assert(run(kernel, exchanged).error > 1e-2);
  const transposed = changed(
    tile,
    (s) => s.s === "matrices" ? { ...s, how: s.how === "rows" ? "columns" : "rows" } : s,
  );
  assert(run(kernel, transposed).error > 1e-2);
  const straight = changed(tile, (s) => mapStatement(s, (e) => withoutSwizzle(e), (body) => body));
  assert(run(kernel, straight).report.faults.has("bank conflict"));
});

/** Tiles of AMD's and Intel's units: pieces of one and of several matrices, rows of local memory of two lengths. */
const others: Readonly<Partial<Record<MatrixUnits, MmaTile>>> = {
  wmma: { bm: 32, bn: 32, bk: 32, wm: 16, wn: 32, stages: 2 },
  wmma12: { bm: 32, bn: 64, bk: 64, wm: 32, wn: 32, stages: 2 },
  mfma: { bm: 64, bn: 32, bk: 32, wm: 32, wn: 16, stages: 2 },
  dpas8: { bm: 32, bn: 32, bk: 32, wm: 16, wn: 16, stages: 2 },
  dpas16: { bm: 32, bn: 64, bk: 64, wm: 16, wn: 32, stages: 2 },
};

Deno.test("matrixGemm on AMD's and Intel's units: the values of the plain evaluator, without bank conflicts", () => {
  // Both operands lie along the sum, and both across it.
  for (const what of ["odd sizes", "both operands transposed"] as const) {
    for (const [units, tile] of Object.entries(others) as [MatrixUnits, MmaTile][]) {
      const dtype = units === "mfma" ? "bfloat16" : "float16";
      const kernel = productOf(() => cases[what]!(dtype));
      const { report, error } = run(kernel, programOf(kernel, tile, { units }));
      assertEquals([...report.faults], [], `${units}, ${what}`);
      assert(error <= limits[dtype]!, `${units}, ${what}: off by ${error}`);
    }
  }
});

Deno.test("matrixGemm on AMD's units: the interpreter sees exchanged words, and a swizzle that is gone", () => {
  const kernel = productOf(() => cases["whole tiles"]!("float16"));
  const tile = programOf(kernel, others.wmma!, { units: "wmma" });
  const words = matrixUnits.wmma_f16.left.together;
  const exchanged = changed(
    tile,
    (s) => s.s === "matrices" && s.to.length === words ? { ...s, to: s.to.toReversed() } : s,
  );
  // The right operand is read by halves, whose order stays.
  assert(run(kernel, exchanged).error > 1e-2);
  const straight = changed(tile, (s) => mapStatement(s, (e) => withoutSwizzle(e), (body) => body));
  assert(run(kernel, straight).report.faults.has("bank conflict"));
});
