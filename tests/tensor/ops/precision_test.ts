import { assertEquals } from "@std/assert";
import { Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";
import { assertNumbers, numbersOf } from "../numbers.ts";

const INF = Infinity;

function rows(table: readonly (readonly number[])[], column: number): Tensor {
  return Tensor.fromHost(table.map((row) => row[column]!));
}

/** a, b, `torch.floor_divide(a, b)`, `torch.remainder(a, b)` of PyTorch. */
const quotients: readonly (readonly number[])[] = [
  ...[[5, 3, 1, 2], [-5, 3, -2, 1], [5, -3, -2, -1], [-5, -3, 1, -2]],
  ...[[0, 3, 0, 0], [-0, 3, -0, -0], [0, -3, -0, 0], [-0, -3, 0, -0]],
  ...[[1, INF, 0, 1], [-5, INF, -1, INF], [5, -INF, -1, -INF], [-7, -INF, 0, -7]],
  ...[[INF, 2, NaN, NaN], [-INF, 2, NaN, NaN], [INF, INF, NaN, NaN], [NaN, 2, NaN, NaN]],
  ...[[5, 0, INF, NaN], [-5, 0, -INF, NaN], [5, -0, -INF, NaN], [0, 0, NaN, NaN]],
  ...[[INF, 0, INF, NaN], [1, Math.fround(0.1), 9, 0.09999999403953552]],
];

testOnBackends("quotients rounded down and remainders are PyTorch's", () => {
  const a = rows(quotients, 0), b = rows(quotients, 1);
  const expected = (column: number) => quotients.map((row): number => row[column]!);
  assertEquals(Array.from(a.floorDivide(b).toHostSync(), Number), expected(2));
  // Beside a sine no backend has vectors for it.
  const beside = a.floorDivide(b).add(a.zerosLike().tan().neg());
  assertEquals(Array.from(beside.toHostSync(), Number), expected(2));
  const rest = numbersOf(a.remainder(b)).map((value) => value + 0);
  assertNumbers(rest, expected(3).map((value) => value + 0), 1e-7, "remainders");
});

testOnBackends("a cast to half precision rounds, also where nothing is stored", () => {
  const x = Tensor.fromHost([0.1, 65520, 2 ** -30, 1.00390625]);
  const doubled = (half: "float16" | "bfloat16") => numbersOf(x.cast(half).cast("float32").mul(2));
  assertEquals(doubled("float16"), [0.199951171875, INF, 0, 2.0078125]);
  assertEquals(doubled("bfloat16"), [0.2001953125, 131072, 2 ** -29, 2]);
  const bits = Tensor.rand([100]).realize();
  for (const half of ["float16", "bfloat16"] as const) {
    const stored = bits.cast(half).contiguous().realize();
    assertEquals(bits.cast(half).eq(stored).all().itemSync(), 1);
    assertEquals(bits.cast(half).tan().toHostSync(), stored.tan().toHostSync());
  }
});

testOnBackends("a number is compared in the precision of the tensor", () => {
  for (const dtype of ["float32", "float16", "bfloat16", "float64"] as const) {
    const x = Tensor.full([3], 0.1, { dtype });
    assertEquals(x.eq(0.1).all().itemSync(), 1, dtype);
    assertEquals(x.lt(0.1).any().itemSync(), 0, dtype);
    assertEquals(Tensor.where(x.gt(0), 0.1, x).eq(x).all().itemSync(), 1, dtype);
  }
});

testOnBackends("float32 is computed in float32, fused or not", () => {
  // 0.7 in float32 times 10 is 7 in float32, and a little less in doubles.
  const x = Tensor.fromHost([0.7, 1e30]), zero = x.zerosLike();
  const tens = x.mul(Tensor.fromHost([10, 1e10]));
  for (const scaled of [tens, tens.add(zero.tan())]) {
    assertEquals(scaled.floor().toHostSync(), Float32Array.of(7, INF));
    assertEquals(scaled.div(10).mul(10).isInf().toHostSync(), Uint8Array.of(0, 1));
  }
  const whole = Tensor.fromHost(Int32Array.of(2 ** 24 + 1)).cast("float32").cast("int32");
  assertEquals(whole.toHostSync(), Int32Array.of(2 ** 24));
  const narrowed = Tensor.fromHost(Float64Array.of(0.1)).cast("float32").cast("float64");
  assertEquals(narrowed.toHostSync(), Float64Array.of(Math.fround(0.1)));
});

testOnBackends("a sum is compared in the precision in which it is stored", () => {
  const x = Tensor.rand([1000]).realize();
  const stored = x.sum().realize();
  assertEquals(x.sum().sub(stored).itemSync(), 0);
  assertEquals(x.mul(x).mean().eq(x.mul(x).mean().realize()).itemSync(), 1);
});

testOnBackends("arange and linspace have NumPy's numbers and both their ends", () => {
  const tenths = Float32Array.from({ length: 10 }, (_, k) => k * 0.1);
  assertEquals(Tensor.arange(0, 1, 0.1).toHostSync(), tenths);
  for (const [start, stop, count] of [[0, 1, 11], [0.1, 0.7, 8], [-3, 7, 1001], [5, -5, 4]]) {
    const values = Tensor.linspace(start!, stop!, count!).toHostSync();
    assertEquals(values[0], Math.fround(start!));
    assertEquals(values[count! - 1], Math.fround(stop!));
  }
  assertEquals(Tensor.linspace(3, 4, 1).toHostSync(), Float32Array.of(3));
  assertEquals(Tensor.linspace(3, 4, 0).toHostSync(), new Float32Array());
});

testOnBackends("an int32 compares as an int64 as it did before", () => {
  const x = Tensor.fromHost(Int32Array.of(-100, -1, 0, 5)), wide = x.cast("int64");
  assertEquals(wide.lt(0).toHostSync(), Uint8Array.of(1, 1, 0, 0));
  assertEquals(wide.ge(0).toHostSync(), Uint8Array.of(0, 0, 1, 1));
  assertEquals(wide.maximum(0).toHostSync(), BigInt64Array.of(0n, 0n, 0n, 5n));
  const index = Tensor.arange(4, undefined, 1, { dtype: "int64" });
  assertEquals(index.lt(2).toHostSync(), Uint8Array.of(1, 1, 0, 0));
  assertEquals(x.argmin(0).cast("int64").lt(1).itemSync(), 1);
});

testOnBackends("a zero keeps its sign", () => {
  const x = Tensor.fromHost([-0, 0]);
  const cases: [Tensor, number[]][] = [
    [Tensor.concat([x, x]), [-0, 0, -0, 0]],
    [Tensor.concat(Array(10).fill(x)).slice([18, 20]), [-0, 0]],
    [Tensor.stack([x, x], 1), [-0, -0, 0, 0]],
    [x.roll(1), [0, -0]],
    [Tensor.full([2], -0), [-0, -0]],
    [Tensor.ones([2]).mul(-0), [-0, -0]],
    [Tensor.ones([2]).mul(0), [0, 0]],
    [x.slice([0, 1]).pad([[0, 1]], -0), [-0, -0]],
  ];
  for (const [same, expected] of cases) {
    assertEquals(Array.from(same.toHostSync(), Number), expected);
  }
});
