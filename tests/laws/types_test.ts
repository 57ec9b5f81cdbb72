/**
 * The types of the public face: programs as users write them, without a cast and without `!`. Each line is
 * checked by `deno check`, and run for the values.
 */
import { assert, assertEquals } from "@std/assert";
import {
  amp,
  checkpoint,
  compile,
  customGradient,
  DataLoader,
  device,
  fft,
  func,
  grad,
  linalg,
  loadSafetensors,
  manualSeed,
  memory,
  nn,
  type noGrad,
  optim,
  randomSplit,
  rawKernel,
  saveSafetensors,
  Tensor,
  TensorDataset,
} from "../../mod.ts";
import { testOnBackends, testOnCPU } from "../opencl.ts";
import type { LanguageModel } from "../../tensor/models/mod.ts";

/** The type itself, neither wider nor narrower. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true
  : false;

/** Fails to compile where the types differ: `sameType<number, typeof x>()`. */
function sameType<A, B>(..._: Same<A, B> extends true ? [] : ["the types differ", A, B]): void {}

testOnCPU("Tensor.toHost gives the array of the type that is asked for", async () => {
  const x = Tensor.fromHost([1, 2, 3]);
  const single = await x.toHost("float32"), whole = await x.cast("int64").toHost("int64");
  sameType<Float32Array<ArrayBuffer>, typeof single>();
  sameType<BigInt64Array<ArrayBuffer>, typeof whole>();
  assertEquals(single.map((v) => v * 2)[1], 4);
  const rounded = await x.cast("int32").toFloat32(), own = new Float64Array(3);
  sameType<Float32Array<ArrayBuffer>, typeof rounded>();
  const filled = await x.cast("float64").toHost(own);
  sameType<Float64Array<ArrayBuffer>, typeof filled>();
  assertEquals([rounded.at(0), filled === own, own[2]], [1, true, 3]);
  const now = x.toHostSync("float32");
  sameType<Float32Array<ArrayBuffer>, typeof now>();
  sameType<number[], Awaited<ReturnType<typeof x.toNumbers>>>();
});

testOnCPU(
  "Tensor.split, unbind, chunk and meshgrid give as many tensors as literals say",
  async () => {
    const x = Tensor.arange(6).reshape([2, 3]);
    const [a, b] = x.split([1, 2], 1), [top, bottom] = x.unbind<2>(), [p, q, r] = x.chunk(3, 1);
    const [row, column] = Tensor.meshgrid([Tensor.arange(2), Tensor.arange(3)]);
    for (const t of [a, b, top, bottom, p, q, r, row, column]) sameType<Tensor, typeof t>();
    assertEquals([a.shape, b.shape, top.shape, bottom.shape], [[2, 1], [2, 2], [3], [3]]);
    assertEquals([p.shape, q.shape, r.shape, row.shape, column.shape.at(0)], [
      ...[[2, 1], [2, 1], [2, 1], [2, 3]],
      2,
    ]);
    const parts: Tensor[] = x.split(1), rows: Tensor[] = x.unbind();
    assertEquals([parts.length, rows.length], [2, 2]);
    const { values, indices } = x.topk(1, 1, { largest: false }), sorted = x.sort(0);
    assertEquals(await values.add(indices).toNumbers(), [0, 3]);
    const { values: distinct, inverse } = await x.unique();
    assertEquals([distinct.size, inverse.size, sorted.values.size], [6, 6, 6]);
  },
);

testOnCPU("DataLoader gives a tensor for each field of its dataset", async () => {
  const data = new TensorDataset({ data: new Float32Array(8), shape: [4, 2] }, {
    data: new Int32Array(4),
    shape: [4],
  });
  const [train, unseen] = randomSplit(data, [0.5, 0.5], { seed: 1 });
  for await (const [x, y] of new DataLoader(train, { batchSize: 2 })) {
    sameType<Tensor, typeof x>();
    assertEquals([x.shape, y.shape], [[2, 2], [2]]);
  }
  assertEquals(unseen.length, 2);
  const own = {
    length: 3,
    get: (k: number): [{ data: Float32Array; shape: number[] }] => [
      { data: new Float32Array([k]), shape: [1] },
    ],
  };
  for await (const [x] of new DataLoader(own)) assertEquals(x.shape, [1, 1]);
});

class Pair extends nn.Module<[Tensor, Tensor], { sum: Tensor; product: Tensor }> {
  readonly layer = new nn.Linear(2, 2);
  override forward(a: Tensor, b: Tensor): { sum: Tensor; product: Tensor } {
    return { sum: this.layer.forward(a).add(b), product: a.mul(b) };
  }
}

testOnCPU("Module's inputs and output are those of its forward", () => {
  const pair = new Pair(), { sum, product } = pair.forward(Tensor.ones([1, 2]), Tensor.ones([2]));
  assertEquals([sum.shape, product.shape], [[1, 2], [1, 2]]);
  const model = new nn.Sequential(new nn.Linear(2, 3), new nn.ReLU(), new nn.Linear(3, 1));
  const any: nn.AnyModule[] = [pair, model, new nn.LSTM(2, 3)];
  assertEquals(any.map((module) => module.parameters().length), [2, 4, 4]);
  const self: Pair = pair.train().eval().to("cpu").half().to("float32").cast("float32");
  assert(self === pair);
  const { output, state } = new nn.LSTM(2, 3).forward(Tensor.zeros([4, 1, 2]));
  const [h, c] = state;
  sameType<Tensor, typeof output>();
  sameType<Tensor, typeof h>();
  assertEquals(c.shape, [1, 1, 3]);
  const { output: attended, weights } = new nn.MultiheadAttention(4, 2).attend(
    Tensor.zeros([1, 3, 4]),
  );
  sameType<Tensor, typeof attended>();
  sameType<Tensor, typeof weights>();
});

testOnCPU("compile keeps the type of the function", async () => {
  const model = new nn.Linear(2, 1), optimizer = new optim.Adam(model.parameters(), { lr: 0.1 });
  const step = compile((x: Tensor, y: Tensor) => {
    const loss = nn.mse(model.forward(x), y);
    optimizer.zeroGrad();
    loss.backward();
    optimizer.step();
    return { loss, seen: x.shape[0] };
  });
  const { loss } = step(Tensor.ones([2, 2]), Tensor.ones([2, 1]));
  sameType<Tensor, typeof loss>();
  sameType<number, Awaited<ReturnType<typeof loss.item>>>();
  const twice = compile((x: Tensor): [Tensor, Tensor] => [x.mul(2), x.add(1)]);
  const [a, b] = twice(Tensor.ones([2]));
  assertEquals(await a.add(b).toNumbers(), [4, 4]);
  const mixed = amp.autocast("float16", () => model.forward(Tensor.ones([1, 2])));
  sameType<Tensor, typeof mixed>();
  sameType<Tensor, ReturnType<typeof noGrad<Tensor>>>();
});

testOnCPU("grad, func and customGradient give tensors for tensors", async () => {
  const w = Tensor.fromHost([1, 2], { requiresGrad: true });
  const [slope] = grad([w.square().sum()], [w]);
  sameType<Tensor, typeof slope>();
  const slopes = func.grad((x: Tensor) => x.square().sum())(Tensor.ones([2]));
  sameType<Tensor, typeof slopes>();
  const each = func.vmap((x: Tensor, y: Tensor) => x.mul(y).sum(), { inAxes: [0, null] });
  assertEquals(each(Tensor.ones([3, 2]), Tensor.ones([2])).shape, [3]);
  const [value, back] = func.vjp((x: Tensor) => x.mul(3), Tensor.ones([2]));
  const [cotangent] = back(value);
  sameType<Tensor, typeof cotangent>();
  const clipped = customGradient((x: Tensor) => x.clamp(0, 1), (g) => [g]);
  assertEquals(clipped(Tensor.fromHost([2])).shape, [1]);
  const kept = checkpoint((x: Tensor) => x.relu(), w);
  sameType<Tensor, typeof kept>();
  const { u, s, vh } = linalg.svd(Tensor.eye(2)), half = fft.rfft(Tensor.ones([4]));
  for (const t of [u, s, vh]) sameType<Tensor, typeof t>();
  assertEquals(half.shape, [3]);
  w.square().sum().backward();
  const gradient = w.grad;
  sameType<Tensor | null, typeof gradient>();
  assertEquals(await gradient?.toNumbers(), [2, 4]);
});

testOnCPU("rawKernel's outputs are as many as it declares", () => {
  const sourceOf = (outputs: string): string =>
    `kernel void f(global const float* x, ${outputs}) {}`;
  const like = (x: Tensor) => ({ shape: x.shape, dtype: x.dtype });
  const source = sourceOf("global float* a");
  const one = rawKernel("f", { source, output: like, cpu: () => {} });
  const two = rawKernel("f", {
    source: sourceOf("global float* a, global float* b"),
    output: (x) => [like(x), like(x)],
    cpu: ([x], [a, b]) => void (a[0] = b[0] = x[0]),
    gradient: ([g], [x]) => [g.mul(x)],
  });
  const y = one(Tensor.ones([2])), [a, b] = two(Tensor.ones([2]));
  sameType<Tensor, typeof y>();
  assertEquals([y.shape, a.shape, b.shape], [[2], [2], [2]]);
});

testOnCPU("devices, memory and files have types without a cast", async () => {
  manualSeed(0);
  using chosen = device("cpu");
  const { current } = memory.stats(chosen).allocated;
  sameType<number, typeof current>();
  const path = await Deno.makeTempFile({ suffix: ".safetensors" });
  await saveSafetensors(path, { w: Tensor.ones([2]) });
  const { w } = await loadSafetensors(path);
  await Deno.remove(path);
  assertEquals(w?.shape, [2]);
  const state = new nn.Linear(1, 1).stateDict(), [name] = Object.keys(state);
  assertEquals(name, "weight");
});

/** Checked by the compiler only: a model needs a file. */
export async function languageModelTypes(lm: LanguageModel): Promise<string> {
  const text = await lm.generateText("Once", { maxTokens: 3, temperature: 0 });
  sameType<string, typeof text>();
  for await (const piece of lm.generate("Once")) sameType<string, typeof piece>();
  for await (const piece of lm.chat().send("Hi")) sameType<string, typeof piece>();
  return text;
}

testOnBackends("matmul of integers adds up in their type, which wraps", async () => {
  const bytes = Tensor.fromHost(Uint8Array.of(200, 200)), column = bytes.reshape([2, 1]);
  const product = bytes.matmul(column);
  assertEquals([product.dtype, await product.toArray()], ["uint8", [128]]);
  assertEquals(await bytes.cast("int32").matmul(column.cast("int32")).toArray(), [80_000]);
  assertEquals([bytes.mul(2).sum().dtype, await bytes.mul(2).sum().item()], ["int64", 288]);
});
