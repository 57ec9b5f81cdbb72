import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { type DType, Tensor, withDevice } from "../../../../mod.ts";
import { assertAgree, compute, filled, sourcesOf, wasmBackend } from "../strategies.ts";
import { testOnCPU } from "../../../opencl.ts";

/** Agrees with the reference, and no kernel is JavaScript. */
function assertVectors(make: () => Tensor): void {
  using tensor = make();
  for (const source of sourcesOf(tensor)) assert(source.startsWith("// WebAssembly"), source);
  assertAgree(make);
}

const sizes = fc.integer({ min: 1, max: 37 });

Deno.test("elements of any shape are computed in vectors, however they lie", () => {
  const steps: Readonly<Record<string, (t: Tensor) => Tensor>> = {
    flip: (t) => t.flip(1),
    transpose: (t) => t.transpose().add(1).transpose(),
    pad: (t) => t.pad([[2, 1], [0, 3]], 7).mul(2).slice([1, null], [0, t.shape[1]!]),
    row: (t) => t.add(t.slice([0, 1])),
    column: (t) => t.mul(t.slice(null, [0, 1])),
    where: (t) => t.gt(0).where(t, t.mul(-3)),
    index: (t) => t.add(Tensor.arange(t.shape[1]!).cast(t.dtype)),
    relu: (t) => t.relu().sub(t.abs()),
  };
  const cases = fc.record({
    shape: fc.tuple(sizes, sizes),
    dtype: fc.constantFrom<DType>("float32", "float16", "bfloat16", "int32", "uint8"),
    names: fc.array(fc.constantFrom(...Object.keys(steps)), { minLength: 1, maxLength: 3 }),
  });
  withDevice("cpu", () => {
    fc.assert(
      fc.property(cases, ({ shape, dtype, names }) => {
        assertAgree(() => names.reduce((t, name) => steps[name]!(t), filled(shape, dtype)));
      }),
      { numRuns: 100 },
    );
  });
});

testOnCPU("rows, columns and everything are reduced in vectors", () => {
  fc.assert(
    fc.property(sizes, sizes, (rows, columns) => {
      const t = filled([rows, columns]);
      for (const axis of [0, 1, undefined]) {
        assertVectors(() => t.mul(0.5).sum(axis).add(1));
        assertVectors(() => t.max(axis));
        assertVectors(() => t.min(axis).mul(2));
        assertVectors(() => t.abs().add(0.5).mul(0.5).prod(axis));
        assertVectors(() => filled([rows, columns], "int32").max(axis));
      }
    }),
    { numRuns: 15 },
  );
});

testOnCPU("the place of an extreme is that of the first, NaN before all", () => {
  fc.assert(
    fc.property(sizes, sizes, fc.boolean(), (rows, columns, hasNaN) => {
      const size = rows * columns;
      const values = Float32Array.from({ length: size }, (_, k) => k * 7919 % 5 - 2);
      if (hasNaN) { for (const k of [size >> 1, size - 1]) values[k] = NaN; }
      const t = Tensor.fromHost(values, { shape: [rows, columns] }).realize();
      for (const axis of [0, 1, undefined]) {
        assertVectors(() => t.argmax(axis));
        assertVectors(() => t.argmin(axis).add(1));
        assertVectors(() => t.gt(0).argmax(axis));
        assertVectors(() => t.gt(0).argmin(axis));
        assertVectors(() => filled([rows, columns], "int32").argmin(axis));
      }
    }),
    { numRuns: 15 },
  );
  assertAgree(() => filled([3, 4, 5, 6]).permute([0, 2, 1, 3]).reshape([15, 24]).argmax(1));
});

testOnCPU("row-wise kernels keep what they computed in the output", () => {
  for (const columns of [1, 3, 10, 64, 133]) {
    const t = filled([9, columns]);
    assertVectors(() => t.softmax(1));
    assertVectors(() => t.logSoftmax(1));
    assertVectors(() => {
      const centered = t.sub(t.mean(1, { keepDims: true }));
      return centered.div(centered.square().mean(1, { keepDims: true }).add(1e-5).sqrt());
    });
  }
});

testOnCPU("NaN and infinities come through reductions", () => {
  const values = new Float32Array(41).fill(1);
  for (const place of [0, 7, 40]) {
    for (const special of [NaN, Infinity, -Infinity]) {
      const t = Tensor.fromHost(values.with(place, special)).realize();
      for (const name of ["max", "min", "sum"] as const) {
        assertVectors(() => t[name]());
        assertVectors(() => t.reshape([41, 1]).add(Tensor.zeros([1, 8]).realize())[name](0));
      }
      if (special === -Infinity) assertVectors(() => t.softmax(0));
    }
  }
});

testOnCPU("a sum is as good as one in doubles", () => {
  const n = 1_000_003;
  const values = Float32Array.from({ length: n }, (_, k) => (k * 7919 % 1009) / 1009);
  const exact = values.reduce((sum, x) => sum + x, 0);
  using sum = Tensor.fromHost(values).sum();
  const [found] = compute(wasmBackend, sum) as [number];
  assert(Math.abs(found - exact) / exact < 1e-7, `${found} for ${exact}`);
});

testOnCPU("what has no vectors is computed in JavaScript", () => {
  const ofDoubles = [() => filled([5], "float64").sin(), () => filled([5], "float64").erfc()];
  for (const make of ofDoubles) {
    using tensor = make();
    assert(sourcesOf(tensor).every((source) => !source.includes("WebAssembly")));
    assertAgree(make);
  }
});

testOnCPU("values rounded to half types on the way, and logic of numbers, are vectors too", () => {
  for (const dtype of ["float16", "bfloat16"] as const) {
    assertVectors(() => filled([5, 37]).cast(dtype).mul(0.3).cast("float32").add(1));
  }
  assertVectors(() => filled([5, 37]).logicalXor(filled([5, 37], "float32", 3)).cast("float32"));
  assertVectors(() => filled([5, 37], "int32").floor().logicalAnd(filled([37], "int32", 1)));
});

Deno.test("rows that indices name are read in vectors, wherever the index varies", () => {
  const places = (count: number, size: number, dtype: DType): Tensor =>
    Tensor.fromHost(Float64Array.from({ length: count }, (_, k) => k * 7919 % size)).cast(dtype)
      .realize();
  withDevice("cpu", () => {
    fc.assert(
      fc.property(
        fc.tuple(sizes, sizes),
        sizes,
        fc.constantFrom<DType>("int32", "int64", "uint8"),
        fc.constantFrom<DType>("float32", "float16", "bfloat16", "int32", "uint8"),
        ([rows, columns], count, index, dtype) => {
          const t = filled([rows, columns], dtype);
          const [ofRow, ofColumn] = [rows, columns].map((size) => places(count, size, index));
          const weights = filled([count, columns], "float32", 3);
          assertVectors(() => t.indexSelect(0, ofRow!).mul(2));
          assertVectors(() => t.indexSelect(1, ofColumn!).add(1));
          assertVectors(() => t.indexSelect(0, ofRow!).cast("float32").mul(weights).sum());
          assertVectors(() => t.indexSelect(0, ofRow!).cast("float32").mul(weights).sum(0));
          assertVectors(() => t.indexSelect(0, ofRow!).cast("float32").mul(weights).sum(1));
          assertVectors(() => t.indexSelect(0, ofRow!).cast("float32").softmax(1));
          assertVectors(() => t.indexSelect(1, ofColumn!).max(1));
          assertVectors(() => t.indexSelect(0, ofRow!).pad([[1, 2], [2, 1]]).mul(3));
          assertVectors(() => t.indexSelect(0, ofRow!).indexSelect(1, ofColumn!).add(1));
          assertVectors(() => t.indexSelect(0, ofRow!.mul(0).add(ofRow!)).add(1));
        },
      ),
      { numRuns: 15 },
    );
  });
});

testOnCPU("an index that vectors find out of range is reported by its value", async () => {
  const t = filled([5, 37]);
  const small = [5, -1, -(2 ** 31), 2 ** 31 - 1];
  const all = [
    ...small.map((wrong) => Int32Array.of(0, wrong, 4)),
    // Those of 64 bits are told from their lower words.
    ...[...small, 2 ** 32, -(2 ** 32) + 3, 2 ** 52].map((wrong) =>
      BigInt64Array.of(0n, BigInt(wrong), 4n)
    ),
  ];
  for (const values of all) {
    const wrong = values[1], indices = Tensor.fromHost(values).realize();
    const wrongRow = t.indexSelect(0, indices).mul(2);
    const wrongPlace = t.gather(0, indices.reshape([3, 1]));
    for (const found of [wrongRow, wrongPlace]) {
      assert(sourcesOf(found).every((source) => source.startsWith("// WebAssembly")));
      await assertRejects(() => found.toHost(), RangeError, `the index ${wrong} is out of range`);
    }
  }
});

testOnCPU("windows that step over padded images are joined in vectors, at their edges too", () => {
  for (const [kernel, stride, padding] of [[3, 2, 1], [3, 3, 1], [5, 4, 2], [2, 1, 1]] as const) {
    for (const [height, width] of [[9, 23], [16, 8], [5, 41]] as const) {
      assertVectors(() => filled([3, 2, height, width]).maxPool2d(kernel, { stride, padding }));
      assertVectors(() => filled([3, 2, height, width]).avgPool2d(kernel, { stride, padding }));
    }
  }
});

testOnCPU("sums over rows that are joined four at a time have all rows", () => {
  for (const rows of [1, 3, 4, 6, 8, 201]) {
    for (const columns of [3, 16, 37]) {
      // Quarters: every sum is exact.
      const x = Tensor.arange(rows * columns).remainder(29).mul(0.25).reshape([rows, columns])
        .realize();
      assertAgree(() => x.sum(0));
      assertAgree(() => x.mul(x).sum(0));
      assertAgree(() => x.sub(1).sum(0).add(x.slice(0)));
    }
  }
});

Deno.test("elements of 64 bits are computed in pairs of vectors, however they lie", () => {
  const steps: readonly ((t: Tensor) => Tensor)[] = [
    (t) => t.flip(1).add(1).mul(-2.5),
    (t) => t.transpose(0, 1).mul(t.transpose(0, 1).cast("int32")),
    (t) => t.slice(null, [1, null, 2]).sub(3),
    (t) => t.pad([[1, 2], [0, 3]], 2).add(t.pad([[0, 3], [2, 1]])),
    (t) => Tensor.where(t.gt(0), t, t.neg()).maximum(t.abs().minimum(2)),
    (t) => t.ge(t.sum(1, { keepDims: true })).logicalOr(t.ne(0)),
    (t) => t.cast("float32").mul(0.5),
    (t) => t.gt(1).cast(t.dtype).add(t.cast("bool").cast(t.dtype)),
    (t) => t.indexSelect(0, Tensor.fromHost(Int32Array.of(0, 0)).realize()).mul(2),
  ];
  withDevice("cpu", () => {
    fc.assert(
      fc.property(
        sizes,
        sizes,
        fc.constantFrom<DType>("float64", "int64"),
        fc.constantFrom(...steps),
        (rows, columns, dtype, step) => {
          const t = filled([rows, columns], dtype);
          assertAgree(() => step(t));
          if (dtype === "float64") assertVectors(() => step(t));
        },
      ),
      { numRuns: 40 },
    );
  });
});

testOnCPU("sums of 64 bits are kept in pairs of vectors, whatever they are summed along", () => {
  for (const [rows, columns] of [[1, 1], [3, 37], [16, 16], [37, 5], [9, 200]] as const) {
    for (const axis of [0, 1, undefined]) {
      for (const dtype of ["int32", "uint8", "bool", "int64", "float64"] as const) {
        assertVectors(() => filled([rows, columns], dtype).sum(axis));
      }
      assertVectors(() => filled([rows, columns]).gt(0).sum(axis));
      assertVectors(() => filled([rows, columns], "float64").prod(axis));
    }
  }
  const big = Tensor.full([5000], 2 ** 30, { dtype: "int32" }).realize();
  assertEquals(compute(wasmBackend, big.sum()), [5000n * 2n ** 30n]);
});
