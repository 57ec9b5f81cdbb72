/** vmap beside the same function called sample by sample: values and gradients of every kind of operation. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  checkpoint,
  compile,
  customGradient,
  func,
  grad,
  linalg,
  manualSeed,
  nn,
  ShapeError,
  special,
  Tensor,
} from "../../../mod.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";
import { assertNumbers, leaf, numbersOf } from "../numbers.ts";

const { vmap } = func;

/** A sample (3, 4), numbers that all share, positions. */
interface Given {
  readonly x: Tensor;
  readonly w: Tensor;
  readonly at: Tensor;
}

type Sample = (given: Given) => Tensor;

const threefold = customGradient((x: Tensor) => x.square(), (g, [x]) => [g.mul(x).mul(3)]);

/** Functions of a sample: each kind of operation that has a rule. */
const functions: Readonly<Record<string, Sample>> = {
  elementwise: ({ x, w }) => x.gt(0).where(x.mul(w.slice([0, 3], [0, 4])).add(x.sin()), x),
  "broadcast within a sample": ({ x }) => x.add(x.sum(0)).mul(x.slice(null, 0).unsqueeze(1)),
  casts: ({ x }) => x.cast("int32").cast("float32").mul(x),
  "reshape, permute, expand": ({ x }) => x.reshape([2, 6]).transpose().expand([2, 6, 2]).square(),
  "slice, pad, flip": ({ x }) => x.pad([[1, 0], [0, 2]]).slice([0, 3], [1, 5]).flip(1).mul(2),
  reductions: ({ x }) => x.softmax(-1).sum(0).add(x.max()).add(x.variance(1).mean()),
  "positions of extremes": ({ x }) => x.argmax(1).cast("float32").add(x.sum()),
  "products with shared columns": ({ x, w }) => x.matmul(w),
  "products with shared rows": ({ x, w }) => w.transpose().matmul(x.transpose()),
  "products of two of its own": ({ x }) => x.matmul(x.transpose()).tanh(),
  "batches of products": ({ x, w }) => x.reshape([3, 1, 4]).matmul(w.expand([3, 4, 5])),
  "batches of products from the right": ({ x, w }) =>
    w.reshape([2, 2, 5]).transpose().matmul(x.reshape([2, 2, 3])),
  "vectors and matrices": ({ x, w }) => w.transpose().matmul(x.slice(0)).outer(x.slice(1)),
  gather: ({ x, at }) => x.indexSelect(0, at).square(),
  "gather by values": ({ x, w }) => w.slice([0, 3]).gather(1, x.argsort(1)).mul(x),
  scatter: ({ x, at }) =>
    x.zerosLike().scatterAdd(0, at.reshape([2, 1]).expand([2, 4]), x.slice([0, 2])),
  scans: ({ x }) => x.cumsum(1).mul(x.cumprod(0)),
  convolution: ({ x, w }) =>
    x.reshape([1, 1, 3, 4]).conv2d(w.slice([0, 2], [0, 2]).reshape([1, 1, 2, 2])),
  "pooling, which windows overlap": ({ x }) =>
    x.reshape([1, 1, 3, 4]).maxPool2d(2, { stride: 1 }).add(
      x.reshape([1, 1, 3, 4]).avgPool2d(2, { stride: 1 }),
    ),
  "a result that is not its own": ({ x, w }) => w.add(x.sum().mul(0)),
  "the sample itself": ({ x }) => x,
  "a gradient of the program's own": ({ x, w }) => threefold(x.matmul(w)),
  "a checkpoint": ({ x, w }) => checkpoint((x: Tensor) => x.matmul(w).tanh(), x),
  "hooks on the way": ({ x, w }) => {
    const product = x.matmul(w);
    product.registerHook((g) => g.mul(3));
    return product.square();
  },
};

const numbers = Array.from({ length: 48 }, (_, k) => Math.sin(3 * k) + k / 50);

/** The value of a function of all samples, and the gradients of these and of what they share. */
function outcome(all: (given: Given) => Tensor): number[] {
  const x = leaf(Tensor.fromHost(numbers).reshape([4, 3, 4]).detach());
  const w = leaf(Tensor.linspace(-1, 1, 20).reshape([4, 5]).detach());
  const y = all({ x, w, at: Tensor.fromHost(Int32Array.of(2, 0)) });
  y.mul(Tensor.linspace(0, 1, y.size).reshape(y.shape)).sum().backward();
  return numbersOf(y, ...[x, w].map((leaf) => leaf.grad ?? leaf.zerosLike()));
}

/** Warnings of a function. */
async function warnings(fn: () => void | Promise<void>): Promise<string[]> {
  const said: string[] = [], { warn } = console;
  console.warn = (text) => void said.push(text);
  try {
    await fn();
  } finally {
    console.warn = warn;
  }
  return said;
}

for (const [name, f] of Object.entries(functions)) {
  testOnCPU(`vmap has the values and gradients of single calls: ${name}`, async () => {
    const alone = outcome((given) =>
      Tensor.stack(given.x.unbind(0).map((x) => f({ ...given, x })))
    );
    let together: number[] = [];
    const said = await warnings(() => {
      together = outcome((given) => vmap((x: Tensor) => f({ ...given, x }))(given.x));
    });
    assertNumbers(together, alone, 1e-4);
    assertEquals(said, []);
  });
}

testOnBackends("vmap keeps a product with what all samples share one product", () => {
  const x = Tensor.ones([8, 5]), w = Tensor.ones([5, 3]);
  const shared = vmap((x: Tensor) => x.matmul(w))(x), plain = x.matmul(w);
  const kernels = (t: Tensor) => t.explain().match(/^\d+\. .*$/gm);
  assertEquals(kernels(shared), kernels(plain));
  assertEquals(shared.toHostSync(), plain.toHostSync());
});

testOnBackends("vmap takes axes anywhere, trees of tensors, arguments that all share", async () => {
  const x = Tensor.arange(6, { dtype: "float32" }).reshape([2, 3]), y = Tensor.fromHost([1, 10]);
  const f = ({ a }: { a: Tensor }, b: Tensor, times: number) => ({ sum: a.add(b).mul(times), a });
  const found = vmap(f, { inAxes: [1, null, null], outAxis: 1 })({ a: x }, y, 2);
  assertEquals(await found.sum.toArray(), await x.add(y.unsqueeze(1)).mul(2).toArray());
  assertEquals(await found.a.toArray(), await x.toArray());
  const row = vmap((a: Tensor, b: Tensor) => a.mul(b), { inAxes: [null, 0] });
  const table = vmap(row, { inAxes: [0, null] });
  assertEquals(await table(y, y).toArray(), [[1, 10], [10, 100]]);
});

testOnBackends("vmap of gradients is differentiated again, by its closure too", async () => {
  const x = Tensor.fromHost([1, 2, 3], { requiresGrad: true });
  const a = Tensor.fromHost(2, { requiresGrad: true });
  const slopes = vmap(func.grad((x: Tensor) => x.pow(3).mul(a)))(x);
  assertEquals(await slopes.toArray(), [6, 24, 54]);
  const [byX, byA] = grad([slopes.sum()], [x, a], { createGraph: true });
  assertEquals([await byX!.toArray(), await byA!.item()], [[12, 24, 36], 42]);
  const [third, mixed] = grad([byX!.sum()], [x, a]);
  assertEquals([await third!.toArray(), await mixed!.item()], [[12, 12, 12], 36]);
  const unrecorded = vmap(func.grad((x: Tensor) => x.square()))(Tensor.ones([2]));
  assertEquals(unrecorded.requiresGrad, false);
});

testOnBackends("vmap: a loss through vmap trains as one without it", async () => {
  const run = async (isMapped: boolean) => {
    manualSeed(3);
    const model = new nn.Sequential(new nn.Linear(3, 4), new nn.Tanh(), new nn.Linear(4, 2));
    const x = Tensor.randn([5, 3]).realize(), losses: number[] = [];
    for (let step = 0; step < 4; step++) {
      const y = isMapped ? vmap((x: Tensor) => model.forward(x))(x) : model.forward(x);
      const loss = y.square().sum();
      loss.backward();
      for (const p of model.parameters()) p.assign(p.detach().sub(p.grad!.mul(0.1)));
      model.zeroGrad();
      losses.push(await loss.item());
    }
    return losses;
  };
  assertNumbers(await run(true), await run(false), 1e-5);
});

testOnBackends("vmap has rules for matrices' kernels, attention and recurrences", async () => {
  const said = await warnings(async () => {
    manualSeed(2);
    const gru = new nn.GRU(3, 4);
    const programs: Record<string, [f: (x: Tensor) => Tensor, shape: number[]]> = {
      solve: [(x) => linalg.solve(x.add(Tensor.eye(3).mul(4)), Tensor.ones([3, 2])), [3, 3]],
      cholesky: [(x) => linalg.cholesky(x.matmul(x.transpose()).add(Tensor.eye(3))), [3, 3]],
      eigh: [(x) => linalg.eigh(x.add(x.transpose())).values, [3, 3]],
      bessel: [(x) => special.i0(x), [5]],
      attention: [(x) => nn.scaledDotProductAttention(x, x, x, { isCausal: true }), [2, 16, 8]],
      recurrence: [(x) => gru.forward(x).output, [6, 2, 3]],
    };
    for (const [name, [f, shape]] of Object.entries(programs)) {
      const x = Tensor.randn([4, ...shape], { requiresGrad: true });
      const all = vmap(f)(x), each = Tensor.stack(x.unbind(0).map(f));
      assert(await all.allClose(each, { atol: 1e-4, rtol: 1e-4 }), name);
      const weights = Tensor.randn([...all.shape]).realize();
      const [together, apart] = [all, each].map((y) => grad([y.mul(weights).sum()], [x])[0]!);
      assert(await together!.allClose(apart!, { atol: 1e-3, rtol: 1e-3 }), `${name}, gradient`);
    }
  });
  assertEquals(said, []);
});

testOnBackends("vmap calls for each sample what has no rule, and says so once", async () => {
  const said = await warnings(async () => {
    const x = Tensor.fromHost([[3, 1, 2], [9, 7, 8]], { requiresGrad: true });
    const smallest = vmap(function pick(x: Tensor) {
      return x.mul(Math.sign(x.sum().itemSync())).min();
    });
    assertEquals(await smallest(x).toArray(), [1, 7]);
    smallest(x.neg()).sum().backward();
    assertEquals(await x.grad!.abs().toArray(), [[0, 1, 0], [0, 1, 0]]);
  });
  assertEquals(said, ["vmap calls pick for each of the samples: it reads a value"]);
});

testOnCPU("vmap refuses what does not fit, by name", () => {
  const x = Tensor.ones([2, 3]), running = Tensor.zeros([3]);
  const sum = vmap((a: Tensor, b: Tensor) => a.add(b)), two = { inAxes: [0, 0] };
  assertThrows(() => sum(x, Tensor.ones([3])), ShapeError, "2, 3");
  assertThrows(() => vmap((a: Tensor) => a, two)(x), TypeError, "1 arguments along 2");
  assertThrows(() => vmap((a: Tensor) => a, { inAxes: null })(x), ShapeError, "without a tensor");
  assertThrows(() => vmap((a: Tensor) => a, { inAxes: 2 })(x), ShapeError, "axis 2");
  assertThrows(() => vmap((_: Tensor) => 1)(x), TypeError, "it must give tensors");
  assertThrows(() => vmap((a: Tensor) => Promise.resolve(a))(x), TypeError, "Promise");
  assertThrows(() => vmap((a: Tensor) => running.assign(a))(x), Error, "Cannot assign");
  assertEquals(running.toHostSync(), new Float32Array(3));
});

testOnBackends("vmap: a compiled function that calls vmap is run as it is written", () => {
  const w = Tensor.fromHost([1, 2], { requiresGrad: true });
  const step = compile((x: Tensor) => vmap((x: Tensor) => x.mul(w).sum().square())(x).sum());
  for (const k of [1, 2, 3]) assertEquals(step(Tensor.full([3, 2], k)).itemSync(), 27 * k * k);
});

testOnBackends("vmap: what a function makes within vmap for itself is there afterwards", () => {
  let table: Tensor | undefined;
  const f = vmap((x: Tensor) => x.mul(table ??= Tensor.arange(3).mul(2)));
  assertEquals(f(Tensor.ones([2, 3])).toHostSync(), Float32Array.of(0, 2, 4, 0, 2, 4));
  assertEquals(f(Tensor.ones([1, 3])).toHostSync(), Float32Array.of(0, 2, 4));
});

testOnBackends("vmap draws the same numbers for all samples, or different ones", async () => {
  const x = Tensor.zeros([3]), draw = (x: Tensor) => x.add(Tensor.rand([2]));
  const rows = async (y: Tensor) => (await y.toArray() as number[][]).map((row) => row.join());
  const outer = Tensor.rand([2]), same = await rows(vmap(draw)(x));
  assertEquals(new Set(same).size, 1);
  const different = { randomness: "different" } as const;
  assertEquals(new Set(await rows(vmap(draw, different)(x))).size, 3);
  const held = await rows(vmap((x: Tensor) => x.add(outer), different)(x));
  assertEquals(new Set(held).size, 1);
  // Also where each sample is computed by itself.
  const looped = (x: Tensor) => draw(x).add(x.itemSync());
  await warnings(async () => {
    assertEquals(new Set(await rows(vmap(looped)(x))).size, 1);
    assertEquals(new Set(await rows(vmap(looped, different)(x))).size, 3);
  });
});

testOnCPU("vmap takes axes in the shape of arguments and results", async () => {
  const x = Tensor.arange(0, 6).cast("float32").reshape([2, 3]), y = Tensor.ones([3]);
  const f = ({ a, b }: { a: Tensor; b: Tensor }) => [a.add(b), a] as const;
  const [sum, same] = vmap(f, { inAxes: [{ a: 0, b: null }], outAxis: [0, 1] })({ a: x, b: y });
  assertEquals([await sum.toArray(), same.shape], [[[1, 2, 3], [4, 5, 6]], [3, 2]]);
  const wrong = { inAxes: [{ a: 0 }] };
  assertThrows(() => vmap(f, wrong)({ a: x, b: y }), TypeError, "they must have its shape");
  assertThrows(() => vmap(f, { inAxes: [0], outAxis: null })({ a: x, b: x }), TypeError, "outAxis");
});

testOnBackends("vmap after replaceAllBatchNormModules: each batch has its own moments", () => {
  manualSeed(4);
  const model = new nn.Sequential(new nn.Linear(3, 4), new nn.BatchNorm1d(4), new nn.Linear(4, 1));
  const x = Tensor.randn([5, 6, 3]);
  const loss = (parameters: Record<string, Tensor>, x: Tensor) =>
    func.functionalCall(model, parameters, x).square().sum();
  const each = () =>
    vmap(func.grad(loss), { inAxes: [null, 0] })(Object.fromEntries(model.namedParameters()), x);
  assertThrows(each, Error, "func.replaceAllBatchNormModules");
  assertEquals(func.replaceAllBatchNormModules(model), model);
  const found = each();
  x.unbind(0).forEach((batch, k) => {
    model.zeroGrad();
    model.forward(batch).square().sum().backward();
    for (const [name, p] of model.namedParameters()) {
      const far = found[name]!.slice(k).sub(p.grad!).abs().max().itemSync();
      assert(far < 1e-4 * (1 + p.grad!.abs().max().itemSync()), `${name} ${k}: ${far}`);
    }
  });
  assertThrows(() => func.replaceAllBatchNormModules(1 as never), TypeError, "pass a module");
});
