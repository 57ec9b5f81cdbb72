/** Selections, counts and draws beyond the conformance table: large sizes, errors, compile, gradients. */
import { phraseOf } from "../../../../ffi/host/wording.ts";
import { assert, assertAlmostEquals, assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  type BackendName,
  compile,
  DTypeError,
  grad,
  manualSeed,
  memory,
  noGrad,
  optim,
  ShapeError,
  Tensor,
  withDevice,
} from "../../../../mod.ts";
import { hasOpenCL, testOnBackends } from "../../../opencl.ts";
import { learn } from "../../training.ts";

const whole = (...numbers: number[]): Tensor => Tensor.fromHost(Int32Array.from(numbers));

testOnBackends("counts in blocks are right where there are many blocks", () => {
  for (const n of [511, 512, 513, 300_001]) {
    const data = Float32Array.from({ length: n }, (_, k) => (k * 7919) % 5 - 2);
    const x = Tensor.fromHost(data), expected = data.filter((v) => v > 0);
    assertEquals(x.maskedSelect(x.gt(0)).toHostSync(), expected, `${n}`);
    const at = x.gt(1).nonzeroSync();
    assertEquals(at.shape, [data.filter((v) => v > 1).length, 1]);
    assert((at.toHostSync("int32")).every((k) => data[k] === 2));
  }
});

testOnBackends("a selection of random numbers is one of the numbers that are read", () => {
  const x = Tensor.rand([500]), picked = x.maskedSelect(x.gt(0.5)).toHostSync();
  assertEquals(picked, (x.toHostSync("float32")).filter((v) => v > 0.5));
});

testOnBackends("a loop that selects holds no more memory step after step", () => {
  const x = Tensor.randn([4096]).realize(), held: number[] = [];
  x.requiresGrad = true;
  const optimizer = new optim.SGD([x], { lr: 0.1 }), mask = x.detach().gt(0).realize();
  for (let step = 0; step < 12; step++) {
    using _ = learn(optimizer, x.maskedSelect(mask).square().mean());
    if (step > 3) held.push(memory.stats().currentAllocated);
  }
  assertEquals(new Set(held).size, 1, held.join());
});

testOnBackends("nonzero, unique and maskedSelectAsync give what their sync forms do", async () => {
  const x = Tensor.fromHost([[3, 0, 1], [3, -2, 0]], { requiresGrad: true });
  const mask = x.detach().gt(0);
  assertEquals(await (await x.nonzero()).toArray(), await x.nonzeroSync().toArray());
  const [later, now] = [await x.unique(), x.uniqueSync()];
  for (const name of ["values", "inverse", "counts"] as const) {
    assertEquals(await later[name].toArray(), await now[name].toArray(), name);
  }
  (await x.maskedSelectAsync(mask)).square().sum().backward();
  assertEquals(await x.grad!.toArray(), [[6, 0, 2], [6, 0, 0]]);
  assertEquals((await noGrad(() => x.maskedSelectAsync(mask))).requiresGrad, false);
  assertEquals((await Tensor.zeros([0, 2]).nonzero()).shape, [0, 2]);
  await assertRejects(() => x.maskedSelectAsync(x), DTypeError, "make it bool");
});

testOnBackends("nonzero, unique and maskedSelect leave nothing to the collector", async () => {
  const x = Tensor.fromHost([[3, 0, 1], [3, -2, 0]]).realize(), mask = x.gt(0).realize();
  const held: number[] = [];
  for (let step = 0; step < 4; step++) {
    const all = [
      ...Object.values(await x.unique()),
      ...Object.values(x.uniqueSync()),
      ...[await x.nonzero(), x.nonzeroSync()],
      ...[await x.maskedSelectAsync(mask), x.maskedSelect(mask)],
    ];
    for (const tensor of all) {
      await tensor.toHost();
      tensor.dispose();
    }
    if (step > 0) held.push(memory.stats().currentAllocated);
  }
  // What other tests left may go meanwhile.
  assert(held.at(-1)! <= held[0]!, held.join());
});

testOnBackends("nonzero awaited sees the values of its call", async () => {
  const x = Tensor.fromHost([0, 5, 7]), y = Tensor.fromHost([4, 4, 2], { requiresGrad: true });
  const places = x.nonzero(), distinct = y.unique(), picked = y.maskedSelectAsync(x.gt(5));
  x.assign(Tensor.ones([3]));
  noGrad(() => y.assign(Tensor.zeros([3])));
  x.dispose();
  assertEquals(await (await places).toArray(), [[1], [2]]);
  assertEquals(await (await distinct).values.toArray(), [2, 4]);
  assertEquals(await (await picked).toArray(), [2]);
});

testOnBackends("selections differentiate twice", () => {
  const x = Tensor.fromHost([1, -2, 3], { requiresGrad: true });
  const y = x.maskedSelect(x.detach().gt(0));
  const [first] = grad([y.mul(y).mul(y).sum()], [x], { createGraph: true });
  const [second] = grad([first!.sum()], [x]);
  assertEquals([...second!.toHostSync()], [6, 0, 18]);
  const none = x.maskedSelect(x.detach().gt(9)).sum();
  none.backward();
  assertEquals([...x.grad!.toHostSync()], [0, 0, 0]);
});

testOnBackends("what depends on values is refused in compile, with what to do", () => {
  const refused: Record<string, (x: Tensor) => Tensor> = {
    maskedSelect: (x) => x.maskedSelect(x.gt(0)),
    nonzero: (x) => x.nonzeroSync(),
    unique: (x) => x.uniqueSync().values,
    bincount: (x) => x.cast("int32").bincount(),
    repeatInterleave: (x) => x.repeatInterleave(x.cast("int32")),
  };
  for (const [name, fn] of Object.entries(refused)) {
    const text = `Cannot ${phraseOf(name)} inside a compiled function`;
    assertThrows(() => compile(fn)(Tensor.ones([3])), Error, text);
  }
  const step = compile((x: Tensor, at: Tensor) =>
    x.index([at]).sum().add(x.repeatInterleave(at, 0, { outputSize: 1 }).sum())
      .add(x.histogram(2, { range: [0, 4] }).counts.sum())
  );
  for (let k = 1; k < 5; k++) {
    // Both elements, the second one once more, both in a bin.
    assertEquals(step(Tensor.full([2], k), whole(0, 1)).itemSync(), 2 * k + k + 2);
  }
});

testOnBackends("indices out of range, and of wrong types and shapes, are named", () => {
  const x = Tensor.arange(6, { dtype: "float32" }).reshape([2, 3]);
  const read = (t: Tensor) => () => void t.toHostSync();
  assertThrows(read(x.index([whole(0), whole(3)])), RangeError, "index 3 is out of range");
  assertThrows(read(x.index([whole(-3)])), RangeError, "Cannot compute index: the index -3 is");
  assertThrows(read(x.indexPut([whole(2)], 1)), RangeError, "Cannot compute indexPut");
  assertThrows(read(whole(-1, 2).bincount()), RangeError, "Cannot compute bincount");
  const row = "Cannot compute embedding";
  assertThrows(read(x.embedding(whole(7))), RangeError, `${row}: the index 7 is out of range`);
  assertThrows(() => x.embedding(Tensor.ones([1])), DTypeError, `${row}: indices must be integers`);
  const list = [1] as unknown as Tensor;
  assertThrows(() => x.embedding(list), TypeError, `${row} with [`);
  assertThrows(() => x.index([Tensor.ones([1])]), DTypeError);
  assertThrows(() => x.index([whole(0), whole(0), whole(0)]), ShapeError, "by 3 indices");
  assertThrows(() => x.index([whole(0, 1), whole(0, 1, 2)]), ShapeError, "do not broadcast");
  assertThrows(() => x.index([Tensor.ones([3]).gt(0)]), ShapeError, "by a mask of shape [3]");
  assertThrows(() => x.index(1 as unknown as Tensor[]), Error, "pass an array");
  assertThrows(() => x.maskedSelect(x), DTypeError, "make it bool");
  assertThrows(() => x.repeatInterleave(whole(1, -1), 0), RangeError, "at least 0");
  assertThrows(() => x.bincount(), DTypeError);
  assertThrows(() => x.chunk(0), RangeError, "a whole number of at least 1");
  assertEquals(x.index([null]).toHostSync(), x.toHostSync());
});

testOnBackends("histogram counts in whole numbers, of what is finite", () => {
  const counted = (t: Tensor, bins = 2): number[] =>
    Array.from(t.histogram(bins).counts.cast("float32").toHostSync(), Number);
  assertEquals(counted(Tensor.fromHost([NaN, 1, 2, Infinity, 1.2, -Infinity])), [2, 1]);
  const many = Tensor.full([5000], 1, { dtype: "float16" });
  assertEquals(counted(many, 1), [5000]);
  const { counts } = many.histogram(1, { density: true });
  assertEquals(counts.dtype, "float16");
  assertEquals(counts.cast("float32").itemSync(), 1);
});

/** Draws of one seed. */
function draws(backend: BackendName): Tensor[] {
  return withDevice(backend, () => {
    manualSeed(77);
    const weights = Tensor.fromHost([[1, 2, 3, 4], [0, 5, 0, 1]]);
    return [
      weights.multinomial(50, { replacement: true }),
      weights.multinomial(2),
      Tensor.fromHost([0.1, 0.9, 0.5]).multinomial(1),
      Tensor.full([40], 0.3).bernoulli(),
      Tensor.permutation(20),
      Tensor.permutation(Tensor.arange(12, { dtype: "float32" }).reshape([6, 2])),
    ];
  });
}

Deno.test("draws of one seed are the same bits on every backend", { ignore: !hasOpenCL }, () => {
  const [cpu, cl] = [draws("cpu"), draws("cl")];
  cpu.forEach((t, k) => assertEquals(t.toHostSync(), cl[k]!.toHostSync(), `draw ${k}`));
});

testOnBackends("multinomial draws classes as often as their weights say", () => {
  manualSeed(5);
  const weights = Tensor.fromHost([1, 0, 2, 5]);
  const counts = weights.multinomial(8000, { replacement: true }).bincount({ minLength: 4 });
  const shares = [...counts.toHostSync()].map((n) => Number(n) / 8000);
  [0.125, 0, 0.25, 0.625].forEach((p, k) => assertAlmostEquals(shares[k]!, p, 0.03));
  assertEquals(shares[1], 0);
  const firsts = weights.expand([4000, 4]).multinomial(2);
  const pairs = firsts.toHostSync("int32");
  assert(pairs.every((v, k) => k % 2 === 0 || v !== pairs[k - 1]), "no class twice");
  assert(!pairs.includes(1));
  const lead = pairs.filter((_, k) => k % 2 === 0);
  assertAlmostEquals(lead.filter((v) => v === 3).length / 4000, 0.625, 0.04);
  const all = [...weights.multinomial(3).toHostSync()].map(Number).sort();
  assertEquals(all, [0, 2, 3]);
});

testOnBackends("multinomial refuses what is no distribution", () => {
  const single = [[-1, 2], [NaN, 1], [0, 0], [Infinity, 1]].map((weights) => [weights, 1]);
  const bad = [...single, [[1, 0], 2]] as [number[], number][];
  for (const [weights, count] of bad) {
    const drawn = Tensor.fromHost(weights).multinomial(count);
    assertThrows(() => drawn.toHostSync(), RangeError, "Cannot compute multinomial by weights");
  }
  assertThrows(() => Tensor.ones([2]).multinomial(3), RangeError, "replacement: true");
  assertThrows(() => Tensor.ones([1, 2, 3]).multinomial(1), ShapeError);
  assertThrows(() => whole(1).bernoulli(), DTypeError);
});

testOnBackends("draws are new in every call of a compiled function", () => {
  manualSeed(3);
  const step = compile((p: Tensor) => p.multinomial(20, { replacement: true }));
  const seen = new Set<string>();
  for (let k = 0; k < 6; k++) seen.add(step(Tensor.ones([50])).toHostSync().join());
  assertEquals(seen.size, 6);
});

testOnBackends("normal has its mean and deviation, and gradients of both", () => {
  manualSeed(8);
  const x = Tensor.normal(3, 0.5, [20_000]).realize();
  assertAlmostEquals(x.mean().itemSync(), 3, 0.02);
  assertAlmostEquals(x.std().itemSync(), 0.5, 0.02);
  const mean = Tensor.fromHost([1, 2], { requiresGrad: true });
  const y = Tensor.normal(mean, Tensor.ones([3, 1]));
  assertEquals(y.shape, [3, 2]);
  y.sum().backward();
  assertEquals([...mean.grad!.toHostSync()], [3, 3]);
  assertEquals(Tensor.normal(0, 1).shape, []);
  assertThrows(() => Tensor.normal(mean, 1, [3]), ShapeError);
  assertThrows(() => Tensor.normal(0, -1, [3]), RangeError);
});
