import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { type DType, profiler, Tensor } from "../../../../mod.ts";
import { testOnBackends } from "../../../opencl.ts";

/** The values at [rows, columns] when all sources have come to their places. */
function extremes(
  x: readonly number[],
  places: readonly number[],
  sources: readonly number[],
  { columns, join, isSelf }: { columns: number; join: typeof Math.max; isSelf: boolean },
): number[] {
  const found = x.slice(), isHit = x.map(() => isSelf);
  sources.forEach((value, k) => {
    const at = places[k]! * columns + k % columns;
    found[at] = isHit[at] ? join(found[at]!, value) : value;
    isHit[at] = true;
  });
  return found;
}

testOnBackends("scatterReduce keeps the largest or least of what comes to a place", () => {
  return fc.assert(
    fc.asyncProperty(
      fc.tuple(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 40 })),
      fc.integer({ min: 1, max: 30 }),
      fc.constantFrom<DType>("float32", "float16", "float64", "int32", "int64", "uint8"),
      fc.constantFrom("amax" as const, "amin" as const),
      fc.tuple(fc.boolean(), fc.boolean()),
      fc.infiniteStream(fc.nat(99)),
      async ([rows, columns], count, dtype, reduce, [includeSelf, isShared], numbers) => {
        const take = (n: number, below = 100): number[] =>
          Array.from({ length: n }, () => numbers.next().value! % below);
        const x = take(rows * columns), sources = take(count * columns);
        const lines = isShared ? take(count, rows) : take(count * columns, rows);
        const places = sources.map((_, k) => lines[isShared ? Math.floor(k / columns) : k]!);
        const indices = Tensor.fromHost(lines).cast("int64")
          .reshape([count, isShared ? 1 : columns]).expand([count, columns]);
        const source = Tensor.fromHost(sources, { shape: [count, columns] }).cast(dtype);
        const found = Tensor.fromHost(x, { shape: [rows, columns] }).cast(dtype)
          .scatterReduce(0, indices, source, { reduce, includeSelf });
        const join = reduce === "amax" ? Math.max : Math.min;
        assertEquals(
          await found.toNumbers(),
          extremes(x, places, sources, { columns, join, isSelf: includeSelf }),
        );
      },
    ),
    { numRuns: 20 },
  );
});

testOnBackends("scatterReduce: a NaN that comes to a place stays there", async () => {
  const indices = Tensor.fromHost(Int32Array.of(0, 0, 1));
  for (const reduce of ["amax", "amin"] as const) {
    const found = Tensor.fromHost([1, 2])
      .scatterReduce(0, indices, Tensor.fromHost([5, NaN, 3]), { reduce, includeSelf: false });
    assertEquals(await found.toNumbers(), [NaN, 3]);
  }
});

testOnBackends("scatterReduce looks for extremes in one launch, without sorting", () => {
  const x = Tensor.rand([50, 8]).realize(), source = Tensor.rand([400, 8]).realize();
  const indices = Tensor.randint(0, 50, [400, 1]).realize().expand([400, 8]);
  if (x.device.deviceType === "gpu") return;
  profiler.reset();
  x.scatterReduce(0, indices, source, { reduce: "amax" }).realize();
  assert(profiler.counters().kernels === 1, `${profiler.counters().kernels} launches`);
});

testOnBackends("scatterReduce along the last axis is that of the transposed", async () => {
  const indices = Tensor.fromHost([[0, 2, 0, 0], [1, 1, 2, 1]]).cast("int64");
  const source = Tensor.fromHost([[2, 3, 4, 5], [6, 7, 8, 9]]), x = Tensor.full([2, 3], 10);
  for (const reduce of ["sum", "prod", "mean", "amax", "amin"] as const) {
    for (const includeSelf of [true, false]) {
      const options = { reduce, includeSelf };
      const [turned, places, sources] = [x, indices, source].map((t) => t.transpose());
      const across = turned!.scatterReduce(0, places!, sources!, options);
      const along = x.scatterReduce(1, indices, source, options);
      assertEquals(await along.toNumbers(), await across.transpose().toNumbers(), reduce);
    }
  }
});
