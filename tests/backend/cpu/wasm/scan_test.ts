import { assert } from "@std/assert";
import { Tensor, withDevice } from "../../../../mod.ts";
import { assertAgree, filled, sourcesOf } from "../strategies.ts";
import { testOnCPU } from "../../../opencl.ts";

Deno.test("rows are scanned side by side, whatever their number and type", () => {
  const scans: readonly ((t: Tensor) => Tensor)[] = [
    (t) => t.cumsum(1),
    (t) => t.cumprod(1),
    (t) => t.cummax(1).values,
    (t) => t.cummin(1).indices,
    (t) => t.cumsum(0),
  ];
  withDevice("cpu", () => {
    for (const [rows, columns] of [[1, 9], [4, 1], [5, 33], [18, 7]] as const) {
      for (const dtype of ["float32", "float64", "bfloat16", "int32", "int64", "uint8"] as const) {
        const t = filled([rows, columns], dtype);
        for (const scan of scans) assertAgree(() => scan(t));
      }
    }
    using sums = filled([5, 33], "float32").cumsum(1);
    assert(sourcesOf(sums).some((source) => source.includes("side by side")));
  });
});

testOnCPU("NaN and infinities stay in their rows", () => {
  const values = Float32Array.from({ length: 6 * 9 }, (_, k) => k % 5 - 2);
  values.set([NaN, Infinity, -Infinity, NaN], 11);
  values[40] = -Infinity;
  const t = Tensor.fromHost(values, { shape: [6, 9] }).realize();
  for (const scan of ["cumsum", "cumprod"] as const) assertAgree(() => t[scan](1));
  assertAgree(() => t.cummax(1).values);
  assertAgree(() => t.cummin(1).values);
});
