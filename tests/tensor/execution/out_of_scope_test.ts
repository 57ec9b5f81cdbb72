// Suite: alone; asks what all blocks of the process come to.
/** Tensors that nobody disposes: the garbage collector takes back only what nobody can ask for. */
import { assertEquals } from "@std/assert";
import { runCollector as gc } from "../../../memory/core/garbage.ts";
import { Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";

async function collectGarbage(): Promise<void> {
  gc();
  await new Promise((resolve) => setTimeout(resolve, 0)); // finalizers run between tasks
}

const SIDE = 64; // large enough to be on the device, not a value that the host keeps

function image(): Tensor {
  return Tensor.fromHost(new Float32Array(SIDE * SIDE).fill(0.5)).reshape([SIDE, SIDE]);
}

testOnBackends("a value can be read when what it came from is out of scope", async () => {
  const make = (): [Tensor, Tensor] => {
    const inner = image().mul(2);
    return [inner, inner.sum()];
  };
  const [inner, sum] = make();
  await sum.item();
  await collectGarbage();
  assertEquals((await inner.toHost())[7], 1);
});

testOnBackends("gradients can be read when their inputs are gone", async () => {
  const make = (): Tensor[] => {
    const x = image(), w = image();
    x.requiresGrad = w.requiresGrad = true;
    const y = x.matmul(w).relu();
    y.mul(image()).sum().backward();
    return [y.detach(), x.grad!, w.grad!];
  };
  for (const [k, value] of [[0, 16], [1, 16], [2, 16]] as const) {
    const results = make();
    for (const i of [k, (k + 1) % 3, (k + 2) % 3]) {
      await collectGarbage();
      assertEquals((await results[i]!.toHost())[0], i === 0 ? value : 16);
    }
  }
});
