/** A number on the left of an operation: values, types and gradients are those of a tensor there. */
import { assertEquals, assertThrows } from "@std/assert";
import { compile, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";

const names = ["sub", "div", "pow", "remainder", "floorDivide", "atan2"] as const;

testOnBackends("a number on the left is a tensor full of it", () => {
  for (const name of names) {
    const x = Tensor.fromHost([0.5, 2, -3], { requiresGrad: true });
    const y = Tensor.fromHost([0.5, 2, -3], { requiresGrad: true });
    const found = Tensor[name](2, x), expected = Tensor.full([3], 2)[name](y);
    assertEquals(found.toHostSync(), expected.toHostSync(), name);
    if (name === "floorDivide") continue;
    found.sum().backward();
    expected.sum().backward();
    assertEquals(x.grad!.toHostSync(), y.grad!.toHostSync(), `the gradient of ${name}`);
  }
});

testOnBackends("a number does not change the type of a tensor on its right", () => {
  const half = Tensor.ones([2], { dtype: "float16" }), whole = Tensor.ones([2]).cast("int32");
  assertEquals(Tensor.sub(1, half).dtype, "float16");
  assertEquals(Tensor.sub(1, whole).dtype, "int32");
  assertEquals(Tensor.sub(0.5, whole).dtype, "float32");
  assertEquals(Tensor.div(1, whole).dtype, "float32");
  assertEquals([...Tensor.sub(whole, half).toHostSync()].map(Number), [0, 0]);
  assertEquals(Tensor.pow(2, Tensor.zeros([0, 3])).shape, [0, 3]);
});

Deno.test("two numbers are no tensors", () => {
  assertThrows(() => Tensor.sub(1, 2), TypeError, "pass a tensor");
});

testOnBackends("compile replays a number on the left", () => {
  const step = compile((x: Tensor) => Tensor.sub(1, x).mul(2));
  for (let k = 0; k < 4; k++) {
    assertEquals([...step(Tensor.full([2], k)).toHostSync()], [2 - 2 * k, 2 - 2 * k]);
  }
});
