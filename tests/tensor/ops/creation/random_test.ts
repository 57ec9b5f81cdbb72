/** Random tensors: the distributions, the seed, the same bits everywhere. */
import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import {
  type BackendName,
  compile,
  type DType,
  manualSeed,
  randomState,
  setRandomState,
  Tensor,
  withDevice,
} from "../../../../mod.ts";
import { hasOpenCL, testOnBackends } from "../../../opencl.ts";
import { numbersOf } from "../../numbers.ts";

/** Some of everything that is drawn, from one seed. */
function draws(backend: BackendName): Tensor[] {
  return withDevice(backend, () => {
    manualSeed(2024);
    const plain = [Tensor.rand([1000]), Tensor.randint(-5, 5, [100]), Tensor.randperm(64)];
    const half = Tensor.rand([7], { dtype: "bfloat16" });
    const bytes = Tensor.randint(0, 200, [50], { dtype: "uint8" });
    return [...plain, Tensor.zeros([3, 5]).randLike(), half, bytes];
  });
}

Deno.test("the same seed gives the same bits on every backend", { ignore: !hasOpenCL }, () => {
  const [cpu, cl] = [draws("cpu"), draws("cl")];
  cpu.forEach((t, k) => assertEquals(t.toHostSync(), cl[k]!.toHostSync(), `draw ${k}`));
});

testOnBackends("rand is uniform on [0, 1), and never draws the same twice", () => {
  manualSeed(1);
  const [first, second] = [Tensor.rand([20_000]), Tensor.rand([20_000])];
  const values = first.toHostSync("float32");
  assert(values.every((v) => v >= 0 && v < 1));
  assertAlmostEquals(first.mean().itemSync(), 0.5, 0.01);
  assertAlmostEquals(first.variance().itemSync(), 1 / 12, 0.003);
  const product = first.sub(0.5).mul(second.sub(0.5)).mean().itemSync();
  assertAlmostEquals(product, 0, 0.003);
  assertEquals(first.toHostSync(), values, "a tensor keeps its numbers");
  for (const dtype of ["float16", "bfloat16"] satisfies DType[]) {
    const half = Tensor.rand([20_000], { dtype }).cast("float32");
    assert(half.max().itemSync() < 1, `${dtype} rounds up to 1`);
    assertAlmostEquals(half.mean().itemSync(), 0.5, 0.01);
  }
});

testOnBackends("randn is normal", () => {
  manualSeed(3);
  const x = Tensor.randn([40_000]).realize();
  assertAlmostEquals(x.mean().itemSync(), 0, 0.02);
  assertAlmostEquals(x.variance().itemSync(), 1, 0.03);
  assertAlmostEquals(x.pow(4).mean().itemSync(), 3, 0.2);
  assert(x.isFinite().all().itemSync() === 1);
  assertEquals(Tensor.ones([2, 3], { dtype: "float16" }).randnLike().dtype, "float16");
});

testOnBackends("randint takes every whole number of its range, and no other", () => {
  manualSeed(4);
  const distinct = (x: Tensor): number[] => [...new Set(numbersOf(x))].sort((a, b) => a - b);
  assertEquals(distinct(Tensor.randint(-3, 4, [5000])), [-3, -2, -1, 0, 1, 2, 3]);
  for (const dtype of ["int64", "uint8", "float32"] satisfies DType[]) {
    const t = Tensor.randint(0, 3, [100], { dtype });
    assertEquals([t.dtype, distinct(t)], [dtype, [0, 1, 2]]);
  }
  for (const [low, dtype] of [[2 ** 30, "int32"], [-(2 ** 50), "int64"]] as const) {
    const far = Tensor.randint(low, low + 3, [100], { dtype });
    assertEquals(distinct(far), [low, low + 1, low + 2]);
  }
  assertThrows(() => Tensor.randint(3, 3, [2]), RangeError, "from 3 to 3");
  assertThrows(() => Tensor.randint(0.5, 3, [2]), RangeError, "0.5");
});

testOnBackends("randperm is a permutation", () => {
  manualSeed(5);
  const [a, b] = [Tensor.randperm(200).toHostSync(), Tensor.randperm(200).toHostSync()];
  assertEquals([...a].map(Number).sort((x, y) => x - y), Array.from({ length: 200 }, (_, k) => k));
  assert(`${a}` !== `${b}`);
  assertEquals(Tensor.randperm(0).shape, [0]);
});

testOnBackends("a seed says what comes, whatever was drawn before", () => {
  const from = (seed: number): unknown => {
    manualSeed(seed);
    return Tensor.rand([6]).toHostSync();
  };
  const first = from(9);
  assert(`${from(10)}` !== `${first}`);
  assertEquals(from(9), first);
  assert(`${from(9 + 2 ** 32)}` !== `${first}`, "all bits of the seed count");
  assertThrows(() => manualSeed(0.5), RangeError, "0.5");
});

testOnBackends("random tensors of nothing, and of a scalar", () => {
  assertEquals(Tensor.rand([0, 3]).toHostSync().length, 0);
  assertEquals(Tensor.randn([]).shape, []);
  assertEquals(Tensor.rand([2], { requiresGrad: true }).requiresGrad, true);
  assertThrows(() => Tensor.rand([-1]), RangeError, "[-1]");
});

testOnBackends("the random state can be kept, also as JSON, and put back", async () => {
  for (const seed of [7, -3, 2 ** 40]) {
    manualSeed(seed);
    await Tensor.rand([3]).toHost();
    const state = JSON.parse(JSON.stringify(randomState()));
    const next = async () => [await Tensor.randn([5]).toArray(), await Tensor.rand([2]).toArray()];
    const first = await next();
    manualSeed(1);
    setRandomState(state);
    assertEquals(await next(), first);
  }
  const draw = compile(() => Tensor.rand([3]));
  for (let k = 0; k < 3; k++) await draw().toHost();
  const state = randomState(), fourth = await draw().toArray();
  setRandomState(state);
  assertEquals(await draw().toArray(), fourth);
});

Deno.test("what is no random state is refused, and changes nothing", () => {
  const state = randomState();
  const odd = [1.5, 2 ** 40].map((seed) => ({ seed, offset: 0 }));
  for (const wrong of [null, 3, {}, { seed: 1 }, ...odd]) {
    assertThrows(() => setRandomState(wrong as never), Error, "set the random state");
  }
  assertEquals(randomState(), state);
});
