/** The reasons why calls of a compiled function run as they are written. */
import { assertEquals, assertThrows } from "@std/assert";
import { compile, func, manualSeed, nn, optim, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";
import { learn } from "../training.ts";

/** The reasons that `onFallback` hears in so many calls. */
function reasonsOf(fn: (x: Tensor, k: number) => unknown, calls = 20): string[] {
  const heard: string[] = [], x = Tensor.ones([4]).realize();
  const compiled = compile(fn, { onFallback: (reason) => heard.push(reason) });
  for (let k = 0; k < calls; k++) compiled(x, k);
  return heard;
}

testOnBackends("compile tells nothing where calls are replayed", () => {
  const layer = new nn.Linear(4, 4), optimizer = new optim.Adam(layer.parameters(), { lr: 0.1 });
  assertEquals(reasonsOf((x) => learn(optimizer, layer.forward(x).square().mean())), []);
});

testOnBackends("compile tells each reason once", () => {
  assertEquals(reasonsOf((x) => func.vmap((y: Tensor) => y.mul(2))(x)), ["it calls vmap"]);
  assertEquals(reasonsOf((x) => (manualSeed(1), x.add(Tensor.rand([4])))), ["it sets the seed"]);
  assertEquals(reasonsOf((x, k) => x.mul(k)), [
    "6 calls in a row were other ones than those that were recorded",
  ]);
  const outside = Tensor.ones([4], { requiresGrad: true }).mul(2), heard: string[] = [];
  const compiled = compile((x: Tensor) => x.add(1), { onFallback: (reason) => heard.push(reason) });
  for (let k = 0; k < 3; k++) compiled(outside);
  assertEquals(heard, ["gradients flow through it to what was computed outside"]);
});

Deno.test("compile refuses an onFallback that is no function", () => {
  const odd = { onFallback: "warn" } as unknown as { onFallback(): void };
  assertThrows(() => compile((x: Tensor) => x, odd), TypeError, "onFallback");
});
