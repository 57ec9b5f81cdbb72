/** Scatters of whole rows on processors: the template that takes them, and its values at odd sizes. */
import { assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import type { SpecialKernel } from "../../../../backend/kernel/kernel.ts";
import { hostTarget } from "../../../../backend/kernel/target.ts";
import { specials } from "../../../../backend/opencl/templates/lists.ts";
import { firstMatch } from "../../../../backend/opencl/templates/parts/template.ts";
import { type BackendName, device, type DType, grad, noGrad, Tensor } from "../../../../mod.ts";
import { testOpenCL } from "../../../opencl.ts";

function templateOf(
  shape: number[],
  indexStrides: number[],
  sourceShape = shape,
  computeUnits = 1,
): string {
  const kernel: SpecialKernel = {
    kind: "special",
    inputs: ["float32", "int32", "float32"],
    output: { dtype: "float32", size: shape.reduce((a, b) => a * b, 1) },
    label: "scatter",
    op: "scatter",
    mode: "add",
    shape,
    sourceShape,
    indexStrides,
    axis: 0,
    opName: "scatter",
  };
  return firstMatch(specials, kernel, { ...hostTarget, computeUnits }).template.name;
}

Deno.test("whole rows are scattered by ranges of rows, not by lines across them", () => {
  assertEquals(templateOf([20_000, 128], [1, 0], [1024, 128]), "range scatter");
  assertEquals(templateOf([1000], [1], [5000]), "range scatter");
  // Each column has indices of its own, or the source has fewer columns: strips, where there are enough.
  assertEquals(templateOf([100, 800], [800, 1], [50, 800]), "strip scatter");
  assertEquals(templateOf([100, 800], [1, 0], [50, 500]), "strip scatter");
  assertEquals(templateOf([100, 8], [8, 1], [50, 8], 2), "line scatter");
  assertEquals(templateOf([100, 8], [1, 0], [50, 5], 2), "line scatter");
});

interface Case {
  readonly shape: [number, number, number];
  readonly axis: number;
  readonly picks: number[];
  readonly dtype: DType;
}

const cases: fc.Arbitrary<Case> = fc.record({
  shape: fc.tuple(...[9, 70, 40].map((max) => fc.integer({ min: 1, max }))) as fc.Arbitrary<
    [number, number, number]
  >,
  axis: fc.nat(2),
  picks: fc.array(fc.nat(1000), { maxLength: 90 }),
  dtype: fc.constantFrom<DType>("float32", "float16", "bfloat16"),
});

/** The gradient of picked rows, each of which has weights of its own. */
function scattered(where: BackendName, { shape, axis, picks, dtype }: Case): number[] {
  using _device = device(where);
  const x = noGrad(() => Tensor.zeros(shape, { dtype }).realize());
  x.requiresGrad = true;
  const ids = Tensor.fromHost(Int32Array.from(picks, (pick) => pick % shape[axis]!));
  const picked = x.indexSelect(axis, ids);
  // Sums of eighths are exact in half precision, in any order.
  const weights = noGrad(() =>
    Tensor.arange(0, picked.size).remainder(13).div(8).reshape(picked.shape).cast(dtype).realize()
  );
  const [g] = grad([picked], [x], { gradients: [weights] });
  const values = [...g!.cast("float32").toHostSync("float32")];
  for (const tensor of [x, ids, picked, weights, g!]) tensor.dispose();
  return values;
}

testOpenCL("rows of any number and length are added where their indices say", () => {
  fc.assert(
    fc.property(cases, (sizes) => assertEquals(scattered("cl", sizes), scattered("cpu", sizes))),
    { numRuns: 40, seed: 11 },
  );
  for (const shape of [[5000, 33, 1], [1, 3000, 16], [2, 4099, 3]] as const) {
    const picks = Array.from({ length: 777 }, (_, k) => (k * k * 31) % 65_521);
    const sizes: Case = {
      shape: [...shape],
      axis: shape[0] === 5000 ? 0 : 1,
      picks,
      dtype: "float32",
    };
    assertEquals(scattered("cl", sizes), scattered("cpu", sizes));
  }
});

/** Sources and indices of one shape, into a larger one: sums, and what was set last. */
function byElement(where: BackendName, into: number[], from: number[], axis: number): number[] {
  using _device = device(where);
  return noGrad(() => {
    const n = from.reduce((a, b) => a * b, 1);
    const index = Tensor.arange(n).mul(7919).remainder(into[axis]!).reshape(from).cast("int64");
    const source = Tensor.arange(n).remainder(13).div(8).reshape(from);
    const base = Tensor.ones(into).realize();
    const results = [base.scatterAdd(axis, index, source), base.scatter(axis, index, source)];
    return results.flatMap((t) => Array.from(t.toHostSync(), Number));
  });
}

testOpenCL("strips of lines have every source in its order, also where sources are fewer", () => {
  for (
    const [into, from, axis] of [
      [[40, 170], [60, 170], 0],
      [[40, 170], [60, 75], 0],
      [[3, 21, 65], [2, 30, 65], 1],
      [[9, 5, 48], [20, 5, 33], 0],
    ] as const
  ) {
    const [got, wanted] = (["cl", "cpu"] as const).map((where) =>
      byElement(where, [...into], [...from], axis)
    );
    assertEquals(got, wanted, `[${from}] into [${into}]`);
  }
});

testOpenCL("an index that no range has is an error", () => {
  using _device = device("cl");
  const picks = Tensor.fromHost(Int32Array.of(3, 9000, 1));
  const x = Tensor.zeros([5000, 40]);
  x.requiresGrad = true;
  assertThrows(() => x.indexSelect(0, picks).sum().itemSync(), RangeError, "9000");
});
