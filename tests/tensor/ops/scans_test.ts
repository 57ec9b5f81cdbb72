/** Running results and bits beyond the conformance table: gradients at zeros, compile, errors. */
import { assertEquals, assertThrows } from "@std/assert";
import { compile, DTypeError, grad, ShapeError, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";

testOnBackends("the gradient of cumprod is finite at zeros, and of the last results only", () => {
  const x = Tensor.fromHost([2, 0, 3, 0, 5], { requiresGrad: true });
  const weights = Tensor.fromHost([1, 1, 1, 1, 1]);
  x.cumprod(0).mul(weights).sum().backward();
  // 1; then 2 + 2 * 3 at the first zero; nothing behind it changes a product.
  assertEquals([...x.grad!.toHostSync()], [1, 8, 0, 0, 0]);
});

testOnBackends("the gradient of cumprod is differentiated at zeros, too", () => {
  const x = Tensor.fromHost([2, 0, 3], { requiresGrad: true });
  const [first] = grad([x.cumprod(0).sum()], [x], { createGraph: true });
  // The sum of 1 + b + b c, a + a c and a b, derived by a, b and c.
  assertEquals([...grad([first!.sum()], [x])[0]!.toHostSync()], [4, 6, 2]);
});

testOnBackends("running results of one input are told apart, compiled as well", () => {
  const step = compile((x: Tensor) =>
    Tensor.stack([x.cumsum(0), x.cumprod(0), x.cummax(0).values, x.cummin(0).values])
  );
  for (let k = 1; k < 5; k++) {
    const [a, b, c] = [k, -1, 2], out = [...step(Tensor.fromHost([a, b, c])).toHostSync()];
    const sums = [a, a + b, a + b + c], products = [a, a * b, a * b * c];
    const most = [a, a, Math.max(a, c)];
    assertEquals(out, [...sums, ...products, ...most, a, b, b]);
  }
});

testOnBackends("running extremes of many rows along a first axis", () => {
  const rows = Float32Array.from({ length: 600 }, (_, k) => (k * 37) % 101);
  const x = Tensor.fromHost(rows, { shape: [20, 30] });
  const { values, indices } = x.cummin(0);
  const picked = x.gather(0, indices);
  assertEquals(values.toHostSync(), picked.toHostSync());
  const least = rows.slice(0, 30);
  for (let r = 0; r < 20; r++) {
    for (let c = 0; c < 30; c++) least[c] = Math.min(least[c]!, rows[30 * r + c]!);
  }
  assertEquals(values.slice(19).toHostSync(), least);
  assertThrows(() => x.cummax(2), ShapeError, "Cannot compute cummax along axis 2");
});

testOnBackends("bits are those of integers", () => {
  const x = Tensor.fromHost(Int32Array.of(6, 3)), f = Tensor.ones([2]);
  assertThrows(() => x.bitwiseAnd(f), DTypeError, "it takes integers");
  assertThrows(() => f.bitwiseNot(), DTypeError, "it takes integers");
  assertThrows(() => x.bitwiseOr(1.5), DTypeError, "it takes integers");
  assertThrows(() => x.bitwiseLeftShift(0.5), DTypeError, "both are integers");
  assertThrows(() => x.gt(3).bitwiseLeftShift(1), DTypeError, "both are integers");
  assertEquals([...x.bitwiseXor(x.gt(4)).toHostSync()], [7, 3]);
  const step = compile((t: Tensor) => t.bitwiseLeftShift(t).bitwiseOr(1));
  for (let k = 1; k < 4; k++) {
    assertEquals([...step(x.zerosLike().add(k)).toHostSync()], [k << k | 1, k << k | 1]);
  }
});
