import { assertEquals, assertThrows } from "@std/assert";
import { manager } from "../../../backend/devices/devices.ts";
import { testOnBackends } from "../../opencl.ts";
import { Linear } from "../../../tensor/nn/mod.ts";
import { compile, DTypeError, Tensor, type TensorOptions } from "../../../tensor/mod.ts";

testOnBackends("Tensor.to takes an element type, with its gradient, and a device", async () => {
  const x = Tensor.fromHost([1.5, -2]);
  x.requiresGrad = true;
  const half = x.to("bfloat16");
  half.mul(3).sum().backward();
  assertEquals([half.dtype, x.grad?.dtype], ["bfloat16", "float32"]);
  assertEquals(await x.grad?.toArray(), [3, 3]);
  assertEquals(await x.to("int64").toArray(), [1, -2]);
  assertEquals(x.to(manager.active), x);
  assertThrows(() => x.to("float31"), RangeError, "float31");
  assertThrows(() => x.to("half"), RangeError, 'to "half": it is no device');
  assertThrows(() => x.to("cuda"), RangeError, 'to "cuda": it is no device, such as "cpu"');
  assertThrows(() => new Linear(1, 1).to("long"), RangeError, 'did you mean "int64"?');
  const named = { dtype: "double" } as unknown as TensorOptions;
  const makers = [
    () => Tensor.ones([1], named),
    () => Tensor.arange(3, named),
    () => Tensor.randint(0, 3, [1], named),
  ];
  for (const make of makers) assertThrows(make, DTypeError, 'did you mean "float64"?');
});

testOnBackends("Tensor.to an element type is replayed by compile", async () => {
  const step = compile((x: Tensor) => x.to("int32").to("float32"));
  for (const value of [1.5, 2.5, 3.5, 4.5]) {
    assertEquals(await step(Tensor.fromHost([value])).toArray(), [Math.trunc(value)]);
  }
});
