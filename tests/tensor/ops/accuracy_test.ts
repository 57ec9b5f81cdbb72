/** Sums, means and what is made of them, held against sums in doubles. Bounds are PyTorch's own errors. */
import { assert, assertEquals } from "@std/assert";
import { manualSeed, nn, noGrad, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";

type Numbers = Float32Array<ArrayBuffer>;

function numbersOf(x: Tensor): Numbers {
  return x.cast("float32").toHostSync() as Numbers;
}

function assertNear(actual: number, expected: number, bound: number, what: string): void {
  const error = Math.abs(actual - expected) / Math.abs(expected);
  assert(error <= bound, `${what}: ${actual} instead of ${expected}, ${error} off`);
}

function doubleSum(numbers: Iterable<number>): number {
  let sum = 0;
  for (const x of numbers) sum += x;
  return sum;
}

function doubleVariance(numbers: Numbers, correction = 1): number {
  const mean = doubleSum(numbers) / numbers.length;
  const squares = Float64Array.from(numbers, (x) => (x - mean) ** 2);
  return doubleSum(squares) / (numbers.length - correction);
}

/** Every n-th of a row-major tensor's numbers: one row or column of a sum. */
function picked(numbers: Numbers, first: number, step: number, count: number): Float64Array {
  return Float64Array.from({ length: count }, (_, k) => numbers[first + k * step]!);
}

const TENTH = Math.fround(0.1);

testOnBackends("a sum of equal numbers does not drift, however long it is", () => {
  for (const count of [1000, 65_537, 1_000_003, 8_000_000]) {
    const x = Tensor.full([count], 0.1);
    assertNear(x.sum().itemSync(), count * TENTH, 1e-6, `sum of ${count}`);
    assertNear(x.realize().sum().itemSync(), count * TENTH, 1e-6, `sum of ${count} stored`);
    assertNear(x.mean().itemSync(), TENTH, 1e-6, `mean of ${count}`);
    assertNear(x.square().sum().itemSync(), count * TENTH ** 2, 1e-6, `squares of ${count}`);
    assertNear(x.norm().itemSync(), Math.sqrt(count) * TENTH, 1e-6, `norm of ${count}`);
  }
});

testOnBackends("sums along any axes do not drift", () => {
  const cases: [number[], number | number[]][] = [
    [[300_000, 2], 0],
    [[300_000, 40], 0],
    [[2, 300_000], 1],
    [[40, 30_000], 1],
    [[3, 50_000, 5], 1],
    [[60_000, 3, 7], [0, 2]],
    [[3, 7, 60_000], [0, 2]],
    [[20, 3, 300, 30], [0, 2, 3]],
    [[300, 300, 5], [0, 1]],
    [[30_000, 3, 3], [0, 1, 2]],
  ];
  for (const [shape, axes] of cases) {
    const x = Tensor.full(shape, 0.1).realize();
    const count = [axes].flat().reduce((n, axis) => n * shape[axis]!, 1);
    for (const got of numbersOf(x.sum(axes))) {
      assertNear(got, count * TENTH, 1e-6, `sum of [${shape}] over ${axes}`);
    }
    // A gradient of what was broadcast is such a sum.
    const bias = Tensor.ones(x.sum(axes, { keepDims: true }).shape, { requiresGrad: true });
    x.mul(bias).sum().backward();
    for (const got of numbersOf(bias.grad!)) {
      assertNear(got, count * TENTH, 1e-6, `gradient of [${shape}] over ${axes}`);
    }
  }
});

testOnBackends("sums of random numbers are those of doubles, rounded once or twice", () => {
  manualSeed(3);
  const x = Tensor.rand([700, 1201]).realize(), numbers = numbersOf(x);
  assertNear(x.sum().itemSync(), doubleSum(numbers), 1.2e-7, "sum");
  const rows = numbersOf(x.sum(1)), columns = numbersOf(x.sum(0));
  for (const at of [0, 1, 350, 699]) {
    assertNear(rows[at]!, doubleSum(picked(numbers, at * 1201, 1, 1201)), 4e-7, `row ${at}`);
  }
  for (const at of [0, 1, 600, 1200]) {
    assertNear(columns[at]!, doubleSum(picked(numbers, at, 1201, 700)), 4e-7, `column ${at}`);
  }
});

testOnBackends("sums with infinities and NaN are IEEE's, wherever they stand", () => {
  const INF = Infinity;
  const meetings = [[INF, 1, INF], [-INF, 1, -INF], [INF, -INF, NaN], [NaN, 1, NaN]];
  for (const [a, b, expected] of meetings) {
    for (const [p, q] of [[0, 1], [70, 5000], [20_000, 99_999]] as const) {
      const numbers = new Float32Array(100_000).fill(1);
      numbers[p] = a!;
      numbers[q] = b!;
      const x = Tensor.fromHost(numbers);
      assertEquals(x.sum().itemSync(), expected);
      assertEquals(numbersOf(x.reshape([1, 100_000]).cumsum(1))[99_999], expected);
      assertEquals(numbersOf(x.reshape([100_000, 1]).sum(0))[0], expected);
      assertEquals(x.reshape([1, -1]).matmul(Tensor.ones([100_000, 1])).itemSync(), expected);
    }
  }
  // Beyond the largest number there is infinity, not NaN.
  assertEquals(Tensor.full([100_000], 3e38).realize().sum().itemSync(), INF);
  assertEquals(Tensor.full([100_000, 16], -3e38).realize().sum(0).min().itemSync(), -INF);
});

testOnBackends("variance and standard deviation do not depend on an offset", () => {
  manualSeed(4);
  for (const offset of [0, 1e4, 1e6]) {
    for (const shape of [[100_000], [4, 25_000], [1000, 64]]) {
      const x = Tensor.rand(shape).add(offset).realize(), numbers = numbersOf(x);
      const axis = shape.length - 1, length = shape[axis]!;
      const row = numbers.slice(0, length), expected = doubleVariance(row);
      const what = `offset ${offset}, rows of ${length}`;
      assertNear(numbersOf(x.variance(axis))[0]!, expected, 1e-5, `variance, ${what}`);
      assertNear(numbersOf(x.std(axis))[0]!, Math.sqrt(expected), 1e-5, `std, ${what}`);
      const biased = numbersOf(x.variance(axis, { correction: 0 }))[0]!;
      assertNear(biased, doubleVariance(row, 0), 1e-5, `biased, ${what}`);
    }
  }
});

testOnBackends("normalization is right far from zero, too", () => {
  manualSeed(5);
  const length = 2000;
  for (const offset of [0, 1e4, 1e6]) {
    const x = Tensor.rand([4, length]).add(offset).realize(), numbers = numbersOf(x);
    const row = numbers.slice(0, length);
    const mean = doubleSum(row) / length, variance = doubleVariance(row, 0);
    const layer = numbersOf(new nn.LayerNorm(length).forward(x));
    const batch = new nn.BatchNorm1d(1, { momentum: 1 });
    const trained = numbersOf(noGrad(() => batch.forward(x.slice([0, 1]).reshape([length, 1]))));
    for (const at of [0, 1, 777, length - 1]) {
      const expected = (row[at]! - mean) / Math.sqrt(variance + 1e-5);
      for (const [name, got] of [["layer", layer[at]!], ["batch", trained[at]!]] as const) {
        const error = Math.abs(got - expected);
        assert(error < 1e-5, `${name} norm at offset ${offset}: ${got} instead of ${expected}`);
      }
    }
    const running = numbersOf(batch.runningVar!)[0]!;
    assertNear(running, doubleVariance(row), 1e-5, `running variance at offset ${offset}`);
    assertNear(numbersOf(batch.runningMean!)[0]!, mean, 1.2e-7, `running mean at ${offset}`);
  }
});

testOnBackends("softmax over many columns sums to 1, logSumExp is that of doubles", () => {
  manualSeed(6);
  const x = Tensor.randn([2, 100_000]).realize(), numbers = numbersOf(x);
  const expected = Math.log(doubleSum(numbers.slice(0, 100_000).map(Math.exp)));
  assertNear(numbersOf(x.logSumExp(1))[0]!, expected, 2e-7, "logSumExp");
  assertNear(doubleSum(numbersOf(x.softmax(1)).slice(0, 100_000)), 1, 1e-6, "softmax");
  assertNear(doubleSum(numbersOf(x.logSoftmax(1).exp()).slice(0, 100_000)), 1, 2e-6, "logSoftmax");
  // Equal columns are where roundings add up.
  const equal = numbersOf(Tensor.ones([1, 100_000]).realize().softmax(1));
  assertNear(doubleSum(equal), 1, 1e-6, "softmax of ones");
  const columns = numbersOf(Tensor.ones([100_000, 20]).realize().softmax(0));
  assertNear(doubleSum(picked(columns, 3, 20, 100_000)), 1, 1e-6, "softmax of columns");
});

testOnBackends("running sums are as good as PyTorch's, which adds up in doubles", () => {
  manualSeed(7);
  const x = Tensor.rand([2, 30_011]).realize(), numbers = numbersOf(x);
  for (const got of [x.cumsum(1), x.transpose().contiguous().cumsum(0).transpose()]) {
    let sum = 0, worst = 0;
    numbersOf(got).slice(0, 30_011).forEach((value, k) => {
      sum += numbers[k]!;
      worst = Math.max(worst, Math.abs(value - sum));
    });
    // A float near 15,000 is exact to 4.9e-4.
    assert(worst < 6e-4, `cumsum is ${worst} off`);
  }
});

testOnBackends("what is constant has the variance 0 or next to it, never below", () => {
  for (const value of [0.001, 0.1, 1 / 3, 7.7, 100.1, 12345.678]) {
    for (const size of [3, 10, 33, 1000, 4001, 30_011]) {
      const x = Tensor.full([size], value).realize();
      const variance = x.variance().itemSync(), std = x.std().itemSync();
      assert(!Object.is(variance, -0) && variance >= 0, `${size} of ${value}: ${variance}`);
      assert(std >= 0 && std < 1e-5 * value, `${size} of ${value}: ${std}`);
    }
  }
});

testOnBackends("sums of half types are added up and averaged in float32", () => {
  for (const dtype of ["float16", "bfloat16"] as const) {
    const x = Tensor.full([300_000], 1, { dtype }).realize();
    assertEquals(x.mean().cast("float32").itemSync(), 1);
    assertEquals(x.mean().contiguous().realize().cast("float32").itemSync(), 1);
    const big = Tensor.full([4000], 100, { dtype }).realize();
    assertEquals(big.norm().cast("float32").contiguous().itemSync() > 6300, true, dtype);
    assertEquals(big.variance().cast("float32").itemSync(), 0, dtype);
    assertNear(numbersOf(x.softmax(0).cast("float32").sum())[0]!, 1, 0.01, dtype);
    assertEquals(big.logSumExp().dtype, dtype);
  }
});

testOnBackends("what is scattered in half types is added up in float32", () => {
  for (const dtype of ["float16", "bfloat16"] as const) {
    const count = 3072, ones = Tensor.ones([count], { dtype });
    const at = Tensor.zeros([count], { dtype: "int32" });
    const rows = Tensor.ones([2, 1], { dtype, requiresGrad: true });
    rows.embedding(at).sum().backward();
    const sums = [
      Tensor.zeros([1], { dtype }).scatterAdd(0, at, ones),
      Tensor.zeros([1], { dtype }).indexPut([at], ones, { accumulate: true }),
      at.bincount({ weights: ones }),
      rows.grad!.slice(0),
    ];
    for (const sum of sums) {
      assertEquals(sum.dtype, dtype);
      assertEquals(sum.cast("float32").toHostSync(), Float32Array.of(count), dtype);
    }
  }
});

testOnBackends("sums of products do not drift, however long they are", () => {
  const other = Math.fround(0.3);
  const sizes = [[1, 1_000_000, 1], [3, 400_000, 2], [16, 60_000, 16], [33, 50_001, 17]];
  for (const [m, k, n] of sizes) {
    const a = Tensor.full([m!, k!], 0.1).realize(), b = Tensor.full([k!, n!], 0.3).realize();
    const at = Tensor.full([k!, m!], 0.1).realize(), bt = Tensor.full([n!, k!], 0.3).realize();
    const products: [string, Tensor][] = [
      ["plain", a.matmul(b)],
      ["left transposed", at.transpose().matmul(b)],
      ["right transposed", a.matmul(bt.transpose())],
    ];
    for (const [how, product] of products) {
      for (const got of numbersOf(product)) {
        assertNear(got, k! * TENTH * other, 2e-5, `${m} x ${k} x ${n}, ${how}`);
      }
    }
  }
});

testOnBackends("the gradient of a convolution's kernel does not drift", () => {
  const x = Tensor.full([48, 3, 32, 32], 0.1).realize();
  const weight = Tensor.ones([16, 3, 3, 3], { requiresGrad: true });
  x.conv2d(weight).sum().backward();
  for (const got of numbersOf(weight.grad!)) {
    assertNear(got, 48 * 30 * 30 * TENTH, 2e-5, "gradient");
  }
});

testOnBackends("integers are added up in int64, as in PyTorch", () => {
  const x = Tensor.full([3, 2000], 2 ** 30, { dtype: "int32" }).realize();
  assertEquals(x.sum().dtype, "int64");
  assertEquals(x.sum().toHostSync(), BigInt64Array.of(6000n * 2n ** 30n));
  assertEquals(x.sum(1).toHostSync(), new BigInt64Array(3).fill(2000n * 2n ** 30n));
  const last = x.cumsum(1).slice(0, [1999, 2000]);
  assertEquals(last.toHostSync(), BigInt64Array.of(2000n * 2n ** 30n));
  assertEquals(x.slice(0, [0, 2]).prod().toHostSync(), BigInt64Array.of(2n ** 60n));
  const bytes = Tensor.full([300], 255, { dtype: "uint8" });
  assertEquals(bytes.sum().toHostSync(), BigInt64Array.of(76_500n));
});
