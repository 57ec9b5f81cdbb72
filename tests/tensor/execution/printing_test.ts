/** Tensors as numbers and text, on consoles, in operators; whether two have the same values. */
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { compile, profiler, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";

const quiet = { log: () => {} };

testOnBackends("toNumbers gives numbers of every type", async () => {
  const x = Tensor.fromHost([[0, 1], [2, 3]]);
  for (const dtype of ["float32", "float16", "bfloat16", "int32", "int64", "uint8"] as const) {
    assertEquals(await x.cast(dtype).transpose().toNumbers(), [0, 2, 1, 3], dtype);
  }
  assertEquals(await x.gt(1).toNumbers(), [0, 0, 1, 1]);
  assertEquals(await Tensor.zeros([0, 3]).toNumbers(), []);
});

testOnBackends("print aligns values, shortens long axes, gives what it prints", async (backend) => {
  const texts: string[] = [];
  const log = (text: string) => void texts.push(text);
  const returned = await Tensor.fromHost([[1, -2.5], [NaN, 100]]).print({ log });
  assertEquals(texts, [returned]);
  assertEquals(
    returned,
    `Tensor([[  1.0,  -2.5],\n        [  nan, 100.0]], shape [2, 2], float32, ${backend})`,
  );
  assertMatch(await Tensor.fromHost([1e9, 1e-9, Infinity]).print(quiet), /1\.0000e\+9, .*inf/);
  assertMatch(await Tensor.zeros([0, 2]).print(quiet), /^Tensor\(\[\], shape \[0, 2\]/);
  assertMatch(await Tensor.fromHost(7).cast("int64").print(quiet), /^Tensor\(7, shape \[\], int64/);
  const long = await Tensor.arange(3000).reshape([30, 100]).cast("int32").print(quiet);
  assertEquals(long.split("\n").length, 7);
  assertMatch(long, /^Tensor\(\[\[ {3}0, {4}1, {4}2, \.\.\., {3}97, {3}98, {3}99\],/);
  assertMatch(long, /2997, 2998, 2999\]\], shape \[30, 100\], int32/);
  // The elements between the ends never leave the device.
  assert(long.length < 500);
});

testOnBackends("a console shows values that the host has, and computes nothing", (backend) => {
  const sum = Tensor.ones([3]).add(1);
  assertMatch(Deno.inspect(sum), /lazy\)$/);
  const before = profiler.counters().kernels;
  Deno.inspect(sum);
  assertEquals(profiler.counters().kernels, before);
  sum.realize();
  const text = Deno.inspect(sum);
  assertMatch(text, backend === "cpu" ? /^Tensor\(\[2\., 2\., 2\.\], shape/ : /print\(\) shows it/);
  assertMatch(Deno.inspect(Tensor.fromHost([1, 2])), /^Tensor\(\[1\., 2\.\], shape \[2\]/);
  assertMatch(Deno.inspect(Tensor.ones([5000]).realize()), /print\(\) shows it\)$/);
  sum.dispose();
  assertMatch(Deno.inspect(sum), /disposed\)$/);
});

Deno.test("operators of JavaScript say which method there is", () => {
  // deno-lint-ignore no-explicit-any -- what a caller without types writes
  const x = Tensor.ones([2], { device: "cpu" }) as any;
  for (const use of [() => x + 1, () => 2 * x, () => x < 1, () => +x, () => x == 1]) {
    assertThrows(use, TypeError, "write a.add(b)");
  }
  assertEquals(`${x}`, "Tensor([2], float32, cpu)");
  // deno-lint-ignore no-explicit-any -- as above
  const Any = Tensor as any;
  for (const data of [[1, 2], undefined, 3, Float32Array.of(1)]) {
    assertThrows(() => new Any(data), TypeError, "Tensor.fromHost");
  }
});

testOnBackends("isClose, allClose and equal compare as PyTorch does", async () => {
  const x = Tensor.fromHost([1, 1000, NaN, Infinity, -Infinity]);
  const y = Tensor.fromHost([1.000005, 1000.02, NaN, Infinity, Infinity]);
  assertEquals(await x.isClose(y).toNumbers(), [1, 0, 0, 1, 0]);
  assertEquals(await x.isClose(y, { rtol: 1e-4, equalNan: true }).toNumbers(), [1, 1, 1, 1, 0]);
  const [a, b] = [Tensor.fromHost([[1, 2]]), Tensor.fromHost([1, 2]).cast("int32")];
  assert(await a.allClose(b));
  assert(!await a.equal(b), "the shapes differ");
  assert(await a.equal(b.unsqueeze(0)), "the types may differ");
  assert(!await a.equal(a.add(1)));
  assert(!await Tensor.fromHost([NaN]).equal(Tensor.fromHost([NaN])));
  assert(await Tensor.zeros([0]).equal(Tensor.ones([0])));
  const big = Tensor.fromHost(BigInt64Array.of(2n ** 53n + 1n));
  assert(!await big.equal(Tensor.fromHost(BigInt64Array.of(2n ** 53n))));
  const truth = Tensor.fromHost([true, false]);
  assert(await truth.allClose(truth));
  await assertRejects(() => a.allClose(1 as unknown as Tensor), TypeError, "pass a tensor");
  await assertRejects(() => a.allClose(a, { tol: 1 } as object), TypeError);
});

testOnBackends("reading inside compile is refused, comparing is not", () => {
  const x = Tensor.ones([2]);
  const reading = compile((t: Tensor) => (void t.print(quiet).catch(() => {}), t.add(1)));
  assertThrows(() => reading(x), Error, "inside a compiled function");
  const comparing = compile((t: Tensor) => t.isClose(t.add(1e-9)));
  for (let k = 0; k < 3; k++) assertEquals([...comparing(x).toHostSync()], [1, 1]);
});
