import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { type DType, Tensor } from "../../../../mod.ts";
import { assertAgree, compute, filled, sourcesOf, wasmBackend } from "../strategies.ts";
import { testOnCPU } from "../../../opencl.ts";

function indicesOf(count: number, size: number, dtype: DType): Tensor {
  const places = Float64Array.from({ length: count }, (_, k) => k * 7919 % size);
  return Tensor.fromHost(places).cast(dtype).realize();
}

/** True if the scatter that a tensor ends with is WebAssembly. */
function isVectors(tensor: Tensor): boolean {
  return sourcesOf(tensor).some((source) => source.includes("rows are scattered"));
}

const sizes = fc.integer({ min: 1, max: 37 });
const types: DType[] = ["float32", "float16", "bfloat16", "int32", "uint8", "int64", "float64"];

testOnCPU("rows are scattered in vectors, whatever is before and behind their axis", () => {
  fc.assert(
    fc.property(
      fc.tuple(fc.integer({ min: 1, max: 4 }), sizes, sizes),
      fc.constantFrom(0, 1, 2),
      sizes,
      fc.constantFrom<DType>("int32", "int64", "uint8"),
      fc.constantFrom(...types),
      (shape, axis, count, index, dtype) => {
        const base = filled(shape, dtype);
        const places = indicesOf(count, shape[axis]!, index);
        const source = filled(shape.with(axis, count), dtype, 5);
        const line = places.reshape([1, 1, 1].with(axis, count)).expand(source.shape);
        const make = (): Tensor => base.scatterAdd(axis, line, source);
        using made = make();
        assert(isVectors(made));
        assertAgree(make);
        assertAgree(() => base.scatter(axis, line, source));
      },
    ),
    { numRuns: 60 },
  );
});

testOnCPU("elements are scattered along the last axis, each row by indices of its own", () => {
  for (const [batch, rows, columns, count] of [[1, 1, 5, 9], [3, 7, 11, 4], [2, 65, 3, 30]]) {
    for (const dtype of ["float32", "int64", "uint8"] as const) {
      const base = filled([batch!, rows!, columns!], dtype);
      const source = filled([batch!, rows!, count!], dtype, 3);
      const places = indicesOf(source.size, columns!, "int32").reshape([...source.shape]);
      using made = base.scatterAdd(2, places, source);
      assert(isVectors(made));
      assertAgree(() => base.scatterAdd(2, places, source));
      assertAgree(() => base.scatter(2, places, source));
      const shared = places.slice([0, 1], [0, 1]).expand(source.shape);
      assertAgree(() => base.scatterAdd(2, shared, source));
      assertAgree(() =>
        base.scatterAdd(2, places.slice(null, [0, 1]).expand(source.shape), source)
      );
    }
  }
});

testOnCPU("a scatter over all threads adds up in the order of the indices", () => {
  const [rows, columns, count] = [3001, 130, 4000];
  const base = filled([rows, columns], "float32"),
    source = filled([count, columns], "float32", 7);
  const places = indicesOf(count, rows, "int32").reshape([count, 1]).expand(source.shape);
  const values = new Float32Array(compute(wasmBackend, base.add(0)) as number[]);
  const added = compute(wasmBackend, source.add(0)) as number[];
  for (let k = 0; k < count * columns; k++) {
    const at = Math.floor(k / columns) * 7919 % rows * columns + k % columns;
    values[at] = values[at]! + added[k]!;
  }
  for (let run = 0; run < 5; run++) {
    const found = compute(wasmBackend, base.scatterAdd(0, places, source)) as number[];
    assertEquals(found.findIndex((x, k) => x !== values[k]), -1);
  }
});

testOnCPU("an index that a scatter finds out of range is reported by its value", async () => {
  const base = filled([5, 37], "float32"), source = filled([3, 37], "float32", 1);
  const values = [5n, -1n, 2n ** 32n + 1n, -(2n ** 40n)];
  for (const [dtype, wrong] of values.flatMap((v) => [["int32", v], ["int64", v]] as const)) {
    if (dtype === "int32" && BigInt.asIntN(32, wrong) !== wrong) continue;
    const places = Tensor.fromHost(BigInt64Array.of(0n, wrong, 4n), { shape: [3, 1] });
    const line = places.cast(dtype).realize().expand(source.shape);
    const found = base.scatterAdd(0, line, source);
    assert(isVectors(found));
    await assertRejects(() => found.toHost(), RangeError, `the index ${wrong} is out of range`);
  }
});
