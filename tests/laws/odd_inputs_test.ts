// Suite: quick kernels; above the kernels: other tests hold that optimized ones are right.
/** Mistakes of users, which are told with the operation, the value and the remedy; the rest works. */
import { assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import {
  DataLoader,
  device,
  type DType,
  DTypeError,
  grad,
  manager,
  manualSeed,
  memory,
  nn,
  optim,
  ShapeError,
  Tensor,
  TensorDataset,
} from "../../mod.ts";
import { testOnBackends, testOnCPU } from "../opencl.ts";

// deno-lint-ignore no-explicit-any -- what a caller without types may pass
type Untyped = any;
type Row = readonly [fn: () => unknown, type: new (...args: Untyped[]) => Error, text: string];

function assertRefused(rows: readonly Row[]): void {
  for (const [fn, type, text] of rows) assertThrows(fn, type, text);
}

function numbers(t: Tensor): number[] {
  return [...t.toHostSync() as Iterable<number | bigint>].map(Number);
}

const host = (data: Untyped, options?: Untyped): Tensor => Tensor.fromHost(data, options);

testOnCPU("operands that are no tensors are named", () => {
  const m: Untyped = Tensor.arange(6).reshape([2, 3]);
  assertRefused([
    [() => m.add("1"), TypeError, 'Cannot add with "1": pass a tensor or a number'],
    [() => m.mul([1, 2, 3]), TypeError, "Cannot mul with [1, 2, 3]"],
    [() => m.sub(null), TypeError, "Cannot sub with null"],
    [() => m.div(undefined), TypeError, "Cannot div with undefined"],
    [() => m.add(1n), TypeError, "1n"],
    [() => m.matmul(2), TypeError, "Cannot matmul with 2"],
    [() => m.gt(0).where(1), TypeError, "Cannot select with undefined"],
    [() => m.gather(0, [0]), TypeError, "Cannot gather with [0]"],
    [() => m.crossEntropy([0, 1]), TypeError, "Cannot compute crossEntropy with [0, 1]"],
    [() => Tensor.concat([m, 3 as Untyped]), TypeError, "Cannot concat with 3"],
    [() => Tensor.stack([m, 3 as Untyped]), TypeError, "Cannot stack with 3"],
    [() => m.assign(3), TypeError, "Cannot assign 3"],
    [() => m.reshape(6), TypeError, "Cannot reshape by 6"],
    [() => m.permute(1, 0), TypeError, "Cannot permute by 1"],
    [() => m.expand(), TypeError, "Cannot expand by undefined"],
    [() => m.gelu("fast"), TypeError, 'pass "none" or "tanh"'],
  ]);
});

testOnCPU("shapes, axes and counts that do not fit are named", () => {
  const m = Tensor.arange(6).reshape([2, 3]), v = Tensor.arange(3), s = Tensor.full([], 2);
  const image = Tensor.ones([1, 1, 4, 4]), weight = Tensor.ones([2, 1, 2, 2]);
  const labels = Tensor.zeros([2], { dtype: "int32" });
  assertRefused([
    [() => Tensor.ones([1]).expand([1.5]), ShapeError, "[1.5]"],
    [() => v.split(0), ShapeError, "a whole number of at least 1"],
    [() => v.split(1.5), ShapeError, "[1.5]"],
    [() => v.split([1, 1]), ShapeError, "add up to 3"],
    [() => v.roll(0.5), RangeError, "Cannot roll by 0.5"],
    [() => v.pad([[-2, -2]]), ShapeError, "no more than there is"],
    [() => v.tril(), ShapeError, "it takes matrices"],
    [() => m.triu(0.5), ShapeError, "a whole number"],
    [() => s.diagonal(), ShapeError, "it has no axes"],
    [() => m.sum(2), ShapeError, "has the axes -2 to 1"],
    [() => m.topk(4), RangeError, "from 0 to 3"],
    [() => Tensor.eye(-1), ShapeError, "Cannot make eye of shape"],
    [() => Tensor.linspace(0, 1, 2.5), ShapeError, "Cannot make linspace of shape"],
    [() => Tensor.randperm(-1), ShapeError, "Cannot make randperm of shape"],
    [() => Tensor.zeros([-1]), ShapeError, "Cannot make a tensor of shape [-1]"],
    [() => image.maxPool2d(2, { padding: 2 }), ShapeError, "at most half a window"],
    [() => image.avgPool2d(2, { padding: -1 }), ShapeError, "padding [-1, -1]"],
    [() => image.adaptiveAvgPool2d(0), ShapeError, "sizes of at least 1"],
    [() => image.conv2d(Tensor.ones([1, 1, 0, 0])), ShapeError, "the kernel is empty"],
    [() => image.conv2d(weight, { bias: v }), ShapeError, "one number for each of the 2 outputs"],
    [() => Tensor.zeros([2, 0]).crossEntropy(labels), ShapeError, "no classes"],
    [() => m.crossEntropy(labels, { labelSmoothing: 2 }), RangeError, "from 0 to 1"],
  ]);
});

testOnCPU("host data that the type does not hold is an error", () => {
  assertRefused([
    [() => host([NaN, 1], { dtype: "int32" }), RangeError, "NaN in int32"],
    [() => host([1e20], { dtype: "int32" }), RangeError, "from -2147483648 to 2147483647"],
    [() => host([300], { dtype: "uint8" }), RangeError, "300 in uint8"],
    [() => host([NaN], { dtype: "int64" }), RangeError, "NaN in int64"],
    [() => host(new BigUint64Array(2) as never), DTypeError, "no element type is its own"],
    [() => host(new DataView(new ArrayBuffer(8))), DTypeError, "DataView"],
    [() => host([[1, 2], [3]]), ShapeError, "ragged"],
    [() => Tensor.full([2], 3e9, { dtype: "int32" }), RangeError, "3000000000 in int32"],
    [() => Tensor.rand([2], { dtype: "int32" }), DTypeError, "randint"],
  ]);
  assertEquals(numbers(host([1.7, -1.7], { dtype: "int64" })), [1, -1]);
  assertEquals(numbers(host(new Int8Array([-1, 5]), { dtype: "int32" })), [-1, 5]);
  assertEquals(numbers(host(new Uint32Array([4e9]), { dtype: "int64" })), [4e9]);
  assertEquals(numbers(Tensor.full([1], 7, { dtype: "bool" })), [1]);
  assertEquals(numbers(Tensor.linspace(0, 10, 5, { dtype: "int32" })), [0, 2, 5, 7, 10]);
});

testOnBackends("numbers beyond an integer type compare and bound as what they are", () => {
  const bytes = host(Uint8Array.of(0, 44, 255)), ints = host(Int32Array.of(-5, 7));
  assertEquals(numbers(bytes.eq(300)), [0, 0, 0]);
  assertEquals(numbers(bytes.gt(-1)), [1, 1, 1]);
  assertEquals(numbers(bytes.le(1e30)), [1, 1, 1]);
  assertEquals(numbers(ints.lt(1e10)), [1, 1]);
  assertEquals(numbers(ints.ne(-1e10)), [1, 1]);
  assertEquals(numbers(ints.clamp(-1e12, 1e12)), [-5, 7]);
  assertEquals(numbers(bytes.clamp(-3, 100)), [0, 44, 100]);
  assertEquals(numbers(bytes.maximum(-1)), [0, 44, 255]);
  assertEquals(numbers(ints.relu()), [0, 7]);
  assertThrows(() => ints.add(1e10), RangeError, "cast to a type that holds it");
  assertThrows(() => bytes.add(300), RangeError, "300 in uint8");
  assertThrows(() => ints.clamp(1e12), RangeError, "1000000000000 in int32");
  assertEquals(numbers(bytes.sub(1)), [255, 43, 254]);
  assertEquals(numbers(bytes.add(-1)), [255, 43, 254]);
});

testOnBackends("empty tensors go through everything that has an answer", () => {
  const none = Tensor.zeros([0, 3]).realize();
  assertEquals(numbers(none.sum(0)), [0, 0, 0]);
  assertEquals(numbers(none.prod(0)), [1, 1, 1]);
  assertEquals(numbers(none.logSumExp(0)), [-Infinity, -Infinity, -Infinity]);
  assertEquals(numbers(none.mean(0)), [NaN, NaN, NaN]);
  assertEquals(none.max(1).shape, [0]);
  assertEquals([none.softmax(1).shape, none.cumsum(0).shape], [[0, 3], [0, 3]]);
  assertEquals(none.split(2).map((t) => t.shape), [[0, 3]]);
  assertEquals([none.argsort(1).shape, none.sort(0).values.shape], [[0, 3], [0, 3]]);
  assertEquals(numbers(Tensor.concat([none, Tensor.ones([1, 3])])), [1, 1, 1]);
  assertEquals(numbers(none.transpose().matmul(none)), new Array(9).fill(0));
  assertEquals(Tensor.zeros([0, 1, 4, 4]).conv2d(Tensor.ones([2, 1, 2, 2])).shape, [0, 2, 3, 3]);
  const x = Tensor.ones([0, 3], { requiresGrad: true });
  x.mul(2).sum().backward();
  assertEquals(x.grad!.shape, [0, 3]);
  assertThrows(() => none.max(0), ShapeError, "it has no identity");
});

testOnCPU("padding that is cut off again leaves what is between the cuts", () => {
  const x = Tensor.fromHost([7, 8, 9], { requiresGrad: true });
  const padded: [readonly [number, number], number[]][] = [
    [[2, -2], [0, 0, 7]],
    [[3, -3], [0, 0, 0]],
    [[5, -4], [0, 0, 0, 0]],
    [[5, -6], [0, 0]],
    [[-2, 2], [9, 0, 0]],
    [[-3, 1], [0]],
    [[-4, 2], [0]],
    [[4, -7], []],
  ];
  for (const [widths, expected] of padded) assertEquals(numbers(x.pad([widths])), expected);
  x.pad([[2, -2]]).sum().backward();
  assertEquals(numbers(x.grad!), [1, 0, 0]);
});

testOnBackends("minima of integers pool, the smallest int64 included", () => {
  for (const dtype of ["int32", "int64", "uint8"] satisfies DType[]) {
    const image = Tensor.full([1, 1, 2, 2], 3, { dtype });
    assertEquals(numbers(image.maxPool2d(2, { padding: 1 })), [3, 3, 3, 3]);
  }
  const values = [40, 41, 42, 50].map((exponent) => -(2 ** exponent));
  const low = host(BigInt64Array.from(values, BigInt), { shape: [1, 1, 2, 2] });
  assertEquals(numbers(low.maxPool2d(2, { padding: 1 })), values);
});

testOnBackends("gradients have the type of their tensor, whatever they start from", () => {
  const x = Tensor.ones([2], { requiresGrad: true });
  x.mul(3).backward(host(Int32Array.of(1, 2)));
  assertEquals(x.grad!.dtype, "float32");
  assertEquals(numbers(x.grad!), [3, 6]);
  const wrong = () => (x.mul(2) as Untyped).backward(1);
  assertThrows(wrong, TypeError, "Cannot go backward with 1");
});

testOnBackends("differentiating what is constant is an error, not zeros", () => {
  const [x, other] = [2, 3].map((n) => Tensor.ones([n], { requiresGrad: true })) as [
    Tensor,
    Tensor,
  ];
  const loss = x.square().sum();
  assertRefused([
    [() => grad([loss], [Tensor.ones([2])]), Error, "with respect to input 0, of shape [2]"],
    [() => grad([Tensor.ones([])], [x]), Error, "outputs that require no gradient"],
    [() => (grad as Untyped)("loss", x), TypeError, "grad(loss, [w, b])"],
  ]);
  assertEquals(numbers(grad(loss, x)[0]), [2, 2]);
  assertEquals(numbers(grad([loss], [other])[0]!), [0, 0, 0]);
});

testOnBackends("an index out of range names the loss, and what it should have been", () => {
  const loss = Tensor.ones([2, 3]).crossEntropy(host(Int32Array.of(0, 3)));
  assertThrows(() => loss.itemSync(), RangeError, "crossEntropy: the label 3");
});

testOnBackends("a quotient that rounds up is rounded down all the same", () => {
  const a = Tensor.fromHost([1, -1, 7, -7, 1, 5, 0, 6]);
  const b = Tensor.fromHost([0.1, 0.1, -2, 2, 0, Infinity, 3, 0.3]);
  assertEquals(numbers(a.floorDivide(b)), [9, -10, -4, -4, Infinity, 0, 0, 19]);
  assertEquals(numbers(Tensor.ones([3000]).floorDivide(0.1)), new Array(3000).fill(9));
});

testOnBackends("the sine of a small number beside a huge one is its own", () => {
  const small = [1e-30, -3e-24, 1e-8, 0.001, -0.005, 0.0077, 0.0079, 0.02];
  const x = Tensor.fromHost(small.flatMap((v) => [v, 3e38, 1e10, 0.5])).realize();
  const every = (t: Tensor): number[] => numbers(t).filter((_, k) => k % 4 === 0);
  every(x.sin()).forEach((v, k) => assertAlmostEquals(v, Math.sin(small[k]!), 1e-8));
  every(x.cos()).forEach((v, k) => assertAlmostEquals(v, Math.cos(small[k]!), 2e-7));
  assertEquals(every(x.sin())[0], Math.fround(1e-30));
});

testOnBackends("reductions of empty axes store their identity over what memory held", () => {
  const reductions: [expected: number, fn: (x: Tensor) => Tensor][] = [
    [0, (x) => x.sum(0)],
    [1, (x) => x.prod(0)],
    [0, (x) => x.any(0)],
    [1, (x) => x.all(0)],
    [NaN, (x) => x.mean(0)],
    [-Infinity, (x) => x.logSumExp(0)],
    [0, (x) => x.transpose().matmul(x).sum(0)],
  ];
  for (const shape of [[0, 3], [0, 70], [0, 2000]]) {
    for (const [expected, fn] of reductions) {
      Tensor.full([4096], 7).realize().dispose();
      const values = new Set(Array.from(fn(Tensor.zeros(shape)).toHostSync(), Number));
      assertEquals([...values], [expected]);
    }
  }
});

testOnBackends("an index is looked at where all elements are the same, too", () => {
  const bad = Tensor.fromHost(Int32Array.of(0, 7)), good = Tensor.fromHost(Int32Array.of(2, 0));
  const huge = Tensor.fromHost(BigInt64Array.of(2n ** 40n));
  const same = [Tensor.ones([3]), Tensor.zeros([3, 2]).mul(2), Tensor.full([1], 3).expand([3])];
  for (const x of same) {
    assertThrows(() => x.indexSelect(0, bad).toHostSync(), RangeError, "the index 7");
    assertEquals(x.indexSelect(0, good).sum().itemSync(), x.slice([0, 2]).sum().itemSync());
  }
  const read = () => Tensor.arange(3).gather(0, huge).toHostSync();
  assertThrows(read, RangeError, `the index ${2 ** 40} is out of range`);
});

testOnCPU("what layers, optimizers and loaders cannot be made of is named", () => {
  const w = Tensor.ones([1], { requiresGrad: true });
  const any = (value: unknown): Untyped => value;
  assertRefused([
    [() => new nn.Linear(2.5, 3), RangeError, "Cannot make Linear with inFeatures 2.5"],
    [() => new nn.Conv2d(1, any(undefined), 3), RangeError, "with outChannels undefined"],
    [() => new nn.Embedding(-1, 2), RangeError, "Cannot make Embedding with count -1"],
    [() => new nn.BatchNorm2d(any("3")), RangeError, 'Cannot make BatchNorm2d with channels "3"'],
    [() => new nn.MultiheadAttention(4, 1.5), RangeError, "with heads 1.5"],
    [() => new nn.Linear(2, 3).forward(any([1, 2])), TypeError, "Cannot run Linear with [1, 2]"],
    [() => new nn.LayerNorm(2).forward(any(3)), TypeError, "Cannot run LayerNorm with 3"],
    [() => new nn.Sequential(new nn.ReLU(), any(() => 1)), TypeError, "layer 1 is function"],
    [() => new optim.SGD([w], any({ learningRate: 1 })), TypeError, "lr, momentum, dampening"],
    [() => new optim.Adam([w], any({ betas: [0.9, 0.99] })), TypeError, "beta1, beta2"],
    [() => new optim.AdamW([w], { eps: -1 }), RangeError, "Cannot make AdamW with eps -1"],
    [() => new optim.RMSprop([w], { momentum: NaN }), RangeError, "RMSprop with momentum NaN"],
    [() => new optim.SGD(any([{ parameters: [w], decay: 1 }])), TypeError, 'the option "decay"'],
    [() => new DataLoader(any(undefined)), TypeError, "Cannot load from undefined"],
    [() => new TensorDataset(any(3)), TypeError, "Field 0 of a TensorDataset is no field"],
    [() => memory.stats(any("cpu")), TypeError, 'Cannot find the memory of string "cpu"'],
    [() => device(any(undefined)), TypeError, "Cannot select device undefined"],
    [() => Tensor.concat(any(w)), TypeError, "Cannot concat a Tensor: pass an array"],
    [() => w.sum(any("0")), ShapeError, 'Cannot sum along axis "0"'],
    [() => host(null), TypeError, "Cannot make a tensor of null"],
    [() => host([1n]), TypeError, "pass a BigInt64Array"],
    [() => manualSeed(any("1")), RangeError, 'Cannot seed with "1"'],
  ]);
  assertEquals(manager.active, manager.default("cpu"), "a refused device is not made active");
  // What is left undefined is left out.
  const options = any({ weightDecay: undefined, momentum: undefined });
  assertEquals(new optim.SGD([w], options).groups[0]!.options.momentum, 0);
  const decay = any({ weightDecay: undefined });
  assertEquals(new optim.AdamW([w], decay).groups[0]!.options.weightDecay, 0.01);
});

/** Results of each operation along an axis for the scalar 2, and the gradient of its values. */
const alongAxis: Record<string, readonly [value: number, gradient: number | null]> = {
  ...{ sum: [2, 1], mean: [2, 1], prod: [2, 1], max: [2, 1], min: [2, 1], norm: [2, 1] },
  ...{ argmax: [0, null], argmin: [0, null], any: [1, null], all: [1, null], argsort: [0, null] },
  ...{ variance: [NaN, NaN], std: [NaN, NaN], logSumExp: [2, 1], softmax: [1, 0] },
  ...{ logSoftmax: [0, 0], maxWithIndices: [2, 1], minWithIndices: [2, 1], cumsum: [2, 1] },
  ...{ cumprod: [2, 1], cummax: [2, 1], cummin: [2, 1], flip: [2, 1], sort: [2, 1], topk: [2, 1] },
};

testOnBackends("a scalar takes the axes 0 and -1 along which others are reduced", () => {
  for (const [op, [value, gradient]] of Object.entries(alongAxis)) {
    const run = (x: Untyped, axis: unknown): Untyped =>
      op === "topk" ? x.topk(1, axis) : x[op](axis);
    for (const axis of [0, -1]) {
      const x = Tensor.full([], 2, { requiresGrad: gradient !== null });
      const out = run(x, axis), values: Tensor = out.values ?? out;
      const actual = numbers(values);
      if (gradient !== null) values.backward();
      const slope = gradient === null ? null : numbers(x.grad!)[0];
      assertEquals([op, values.shape, actual[0]! + 0, slope], [op, [], value, gradient]);
      if (out.indices) assertEquals([out.indices.shape, numbers(out.indices)], [[], [0]]);
    }
    const s = Tensor.full([], 2);
    for (const axis of [1, -2, 0.5]) assertThrows(() => run(s, axis), ShapeError, "-1 to 0");
  }
  const s = Tensor.full([], 2);
  for (const op of ["sum", "max", "mean", "logSumExp", "any", "std"] as const) {
    assertEquals(s[op]([-1], { keepDims: true }).shape, []);
    assertThrows(() => s[op]([0, -1]), ShapeError, "twice");
  }
});
