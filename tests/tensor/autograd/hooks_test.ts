import { assertEquals, assertThrows } from "@std/assert";
import { nn, ShapeError, Tensor } from "../../../mod.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";

testOnBackends("hooks see the sum of gradients, and may change it", async () => {
  const x = Tensor.fromHost([1, 2], { requiresGrad: true });
  const y = x.mul(2);
  const seen: Tensor[] = [];
  const watch = y.registerHook((g) => void seen.push(g));
  y.registerHook((g) => g.mul(10));
  using leaf = x.registerHook((g) => g.add(1));
  y.add(y).sum().backward();
  assertEquals(await seen[0]!.toArray(), [2, 2]);
  assertEquals(await x.grad!.toArray(), [41, 41]);
  watch.remove();
  watch.remove();
  leaf[Symbol.dispose]();
  x.grad = null;
  const z = x.mul(2);
  z.registerHook(() => Tensor.ones([3]));
  assertThrows(() => z.sum().backward(), ShapeError, "from a hook of a tensor of shape [2]");
  x.mul(3).sum().backward();
  assertEquals(await x.grad!.toArray(), [3, 3]);
  assertEquals(seen.length, 1);
  assertThrows(() => Tensor.ones([1]).registerHook(() => {}), TypeError, "requires no gradient");
});

testOnCPU("forward hooks see inputs and outputs, may replace them, and go away", () => {
  const layer = new nn.Linear(2, 2), model = new nn.Sequential(layer);
  const before = model.namedParameters().map(([name]) => name);
  const calls: string[] = [];
  const first = layer.registerForwardHook((module, [x], y) => {
    calls.push(`${module === layer} ${x.shape} ${y.shape}`);
    return y.mul(0);
  });
  const second = layer.registerForwardHook((_, __, y) => y.add(3));
  assertEquals(model.forward(Tensor.ones([1, 2])).toHostSync(), Float32Array.of(3, 3));
  assertEquals(calls, ["true 1,2 1,2"]);
  assertEquals(model.namedParameters().map(([name]) => name), before);
  first[Symbol.dispose]();
  second[Symbol.dispose]();
  second[Symbol.dispose]();
  assertEquals(Object.hasOwn(layer, "forward"), false);
  model.forward(Tensor.ones([1, 2]));
  assertEquals(calls.length, 1);
});
