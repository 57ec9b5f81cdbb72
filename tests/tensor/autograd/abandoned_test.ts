// Suite: alone; asks what all tensors of the process come to.
/** Tensors that nobody disposed give back what they own when they are collected. */
import { assertEquals } from "@std/assert";
import { runCollector as collect } from "../../../memory/core/garbage.ts";
import { manager, memory, Tensor, withDevice } from "../../../mod.ts";
import { pendingOn } from "../../../tensor/core/pending_work.ts";
import { testOnCPU } from "../../opencl.ts";

const device = manager.default("cpu");
const held = (): number => memory.stats(device).requestedBytes;

/** Collects until no more than so many bytes are held, a few times at most. */
async function settle(bytes: number): Promise<number> {
  for (let round = 0; round < 20 && held() > bytes; round++) {
    collect();
    await new Promise((resolve) => setTimeout(resolve));
  }
  return held();
}

/** Runs `fn` with what it makes out of reach afterwards. */
function apart(fn: () => void): void {
  withDevice("cpu", fn);
}

testOnCPU("tensors that are computed and forgotten", async () => {
  const before = held();
  apart(() => {
    for (let k = 0; k < 3000; k++) Tensor.ones([100]).realize();
  });
  // Those that nobody reads have moved to the host, where the collector finds them, too.
  assertEquals(held() > before && held() < before + 1000 * 400, true);
  assertEquals(await settle(before), before);
});

testOnCPU("the inputs of a tensor that is forgotten before it is computed", async () => {
  const before = held();
  apart(() => {
    using x = Tensor.ones([100]).realize();
    x.add(1).mul(2).exp();
  });
  assertEquals(await settle(before), before);
});

testOnCPU("a tensor that was a result on the way, and realized when it owned nothing", async () => {
  const before = held();
  const kept: Tensor[] = [];
  apart(() => {
    using x = Tensor.ones([100]).realize();
    kept.push(x.add(1));
    kept[0]!.mul(2).toHostSync();
  });
  await Promise.resolve();
  apart(() => {
    const x = Tensor.ones([100]).realize();
    kept[0] = x.add(1);
    kept[0].mul(2).toHostSync();
    kept.push(x);
  });
  await Promise.resolve();
  kept[0]!.realize();
  assertEquals(await settle(before + 800), before + 800);
  kept.length = 0;
  assertEquals(await settle(before), before);
});

testOnCPU("the value before an assignment, and the one after", async () => {
  const before = held();
  apart(() => {
    const x = Tensor.ones([100]).realize();
    x.assign(x.add(1)).realize();
  });
  assertEquals(await settle(before), before);
});

testOnCPU("gradients on the way, while the loss that they came from is kept", async () => {
  const found: WeakRef<Tensor>[] = [], kept: Tensor[] = [];
  apart(() => {
    const w = Tensor.ones([4], { requiresGrad: true });
    w.registerHook((gradient) => {
      found.push(new WeakRef(gradient));
      return gradient;
    });
    const loss = w.mul(2).exp().sum();
    loss.backward();
    kept.push(w, loss);
  });
  for (let round = 0; round < 3; round++) {
    await new Promise((resolve) => setTimeout(resolve));
    collect();
  }
  assertEquals(found.map((reference) => reference.deref()), [undefined]);
  kept.forEach((tensor) => tensor.dispose());
});

testOnCPU("what values were computed from, in a loop that never awaits", () => {
  const others = (): number => {
    collect();
    // V8 of Node frees arrays on a thread, for which the next collection waits.
    collect();
    return Deno.memoryUsage().external;
  };
  const forward = (): void => {
    // A thousand floats stay on the host until the value is computed.
    using x = Tensor.fromHost(new Float32Array(1000));
    x.mul(2).add(1).sum().realize().dispose();
  };
  apart(() => {
    forward();
    const before = others();
    for (let k = 0; k < 250; k++) forward();
    const bytes = others() - before;
    assertEquals(bytes < 500_000, true, `${bytes} bytes are held`);
  });
});

testOnCPU("losses whose gradients are gone: no schedule asks for them any more", () => {
  const before = pendingOn(device).roots().length;
  apart(() => {
    const x = Tensor.fromHost([1, 1, 1], { requiresGrad: true });
    const losses = Array.from({ length: 20 }, () => {
      const loss = x.square().sum();
      loss.backward();
      x.grad = null;
      return loss;
    });
    assertEquals(pendingOn(device).roots().length, before);
    assertEquals(losses.map((loss) => loss.itemSync()), losses.map(() => 3));
  });
});
