import { assert, assertEquals } from "@std/assert";
import type { Expr, LoopKernel } from "../../../backend/kernel/kernel.ts";
import { symbol } from "../../../backend/kernel/affine.ts";
import { kernelKey, KernelMemo } from "../../../backend/execution/kernel_memo.ts";

/** Stores `value` in so many elements. */
function fill(size: number, value: number, more: readonly Expr[] = []): LoopKernel {
  const exprs: Expr[] = [{ op: "constant", value, dtype: "float32" }, ...more];
  const output = { expr: exprs.length - 1, dtype: "float32", index: symbol(0), size } as const;
  return {
    kind: "loop",
    sizes: [size],
    outer: [0],
    inner: [],
    inputs: [],
    loads: [],
    indirect: [],
    exprs,
    reductions: [],
    contraction: null,
    outputs: [output],
    label: "fill",
  };
}

Deno.test("KernelMemo: equal kernels have one key, and others have others", () => {
  const values = [0, -0, 1, -1, NaN, Infinity, -Infinity, 0.1, 0.1 + 2 ** -55, 5e-324];
  const keys = values.map((value) => kernelKey(fill(4, value)));
  assertEquals(new Set(keys).size, values.length);
  for (const value of values) assertEquals(kernelKey(fill(4, value)), kernelKey(fill(4, value)));
  assert(kernelKey(fill(4, 1)) !== kernelKey(fill(5, 1)));
  const constant = (value: number): Expr => ({ op: "constant", value, dtype: "float32" });
  assert(kernelKey(fill(4, NaN, [constant(0)])) !== kernelKey(fill(4, 0, [constant(NaN)])));
  assert(kernelKey(fill(4, -0, [constant(0)])) !== kernelKey(fill(4, 0, [constant(-0)])));
  const both = (a: number, b: number) =>
    kernelKey({
      kind: "horizontal",
      members: [fill(4, a), fill(4, b)],
      written: [1, 1],
      label: "",
    });
  assert(both(NaN, Infinity) !== both(Infinity, NaN));
});

Deno.test("KernelMemo: kernels of random numbers have no key: each has a place in the sequence", () => {
  const random: Expr = {
    op: "random",
    index: symbol(0),
    seed: 1,
    stream: { value: 0 },
    dtype: "float32",
  };
  assertEquals(kernelKey(fill(4, 1, [random])), null);
  const memo = new KernelMemo<object>();
  const kernel = fill(4, 1, [random]);
  assert(memo.get(kernel, () => ({})) !== memo.get(kernel, () => ({})));
});

Deno.test("KernelMemo forgets what was not used for a while, and no more", () => {
  const memo = new KernelMemo<number>(8);
  let made = 0;
  const get = (size: number): number => memo.get(fill(size, 1), () => ++made);
  const first = get(1);
  for (let size = 2; size < 200; size++) {
    get(size);
    assertEquals(get(1), first, "in use");
  }
  assertEquals(made, 199);
  for (let size = 2; size < 10; size++) get(size);
  assertEquals(made, 199 + 8, "long ago");
  for (let size = 2; size < 10; size++) get(size);
  assert(made === 199 + 8, "just now");
});
