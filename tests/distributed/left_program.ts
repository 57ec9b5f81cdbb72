/**
 * Ranks whose devices still wait for each other's gradients when something happens; run by
 * endings_test.ts.
 */
import { assert, assertEquals } from "@std/assert";
import { compile, device, distributed, InterruptedError, nn, Tensor } from "../../mod.ts";

using _dev = device("cl");
using group = distributed.init();
const { rank, size } = group, [how] = Deno.args;
const model = new nn.Sequential(...Array.from({ length: 4 }, () => new nn.Linear(256, 256)));
const parallel = new distributed.DataParallel(model, group, { reduceOn: "device" });
const first = model.parameters()[0]!, x = Tensor.ones([64, 256]).realize();
const gradients = compile((x: Tensor) => {
  for (const p of model.parameters()) p.grad = null;
  model.forward(x).mul(rank + 1).mean().backward();
});
const step = () => parallel.onEachDevice([[x] as [Tensor]], gradients);
for (let k = 0; k < 3; k++) step();
await first.grad!.sum().item();
console.log(`process ${Deno.pid} is ready`);

if (how === "read") {
  // One rank is late: the other's reads wait, each in its own way, and the event loop goes on.
  const late = () => {
    if (rank === 1) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
    step();
    return first.grad!.sum();
  };
  const expected = await late().item();
  assert(expected !== 0);
  const sums = [late().itemSync(), await late().item(), (await late().toHost())[0]];
  for (const sum of sums) assertEquals(sum, expected);
  const all = await group.allGather(Tensor.fromHost([expected]));
  assertEquals(await all.toNumbers(), Array(size).fill(expected));
  step();
  parallel.dispose();
  step();
  console.log(`rank ${rank} of ${size}: good`);
} else {
  for (let k = 0;; k++) {
    step();
    if (how === "end" && k === 2) break;
    if (how === "leave" && k === 2) Deno.exit(0);
    if (rank === 1 && k === 5) {
      if (how === "throw") throw new Error("rank 1 cannot go on");
      if (how === "kill") Deno.kill(Deno.pid, "SIGKILL");
      if (how === "interrupt") Deno.kill(Deno.pid, "SIGINT");
    }
    try {
      if (how !== "end" && how !== "leave") await first.grad!.sum().item();
    } catch (error) {
      if (!(error instanceof InterruptedError)) throw error;
      console.log(`rank ${rank} saves`);
      Deno.exit(130);
    }
  }
}
