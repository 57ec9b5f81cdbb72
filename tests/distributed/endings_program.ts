/** Ranks that reduce for ever, until one of them ends as it is told; run by endings_test.ts. */
import { device, distributed, InterruptedError, Tensor } from "../../mod.ts";

using _dev = device("cpu");
using group = distributed.init();
const isEnding = group.rank === 1;
for (let step = 0;; step++) {
  try {
    await group.allReduce([Tensor.ones([1000])], "sum");
  } catch (error) {
    if (!(error instanceof InterruptedError)) throw error;
    console.log(`rank ${group.rank} saves`);
    Deno.exit(130);
  }
  if (step < 3 || !isEnding) continue;
  if (step === 3) console.log(`process ${Deno.pid} is ready`);
  const [how] = Deno.args;
  if (how === "throw") throw new Error("rank 1 cannot go on");
  if (how === "exit") Deno.exit(7);
  if (how === "kill") Deno.kill(Deno.pid, "SIGKILL");
  if (how === "interrupt" && step === 3) Deno.kill(Deno.pid, "SIGINT");
}
