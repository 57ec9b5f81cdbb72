/**
 * Workers that train at once, `end` by themselves or by `terminate()`:
 *
 *     workers_program.ts end|terminate ROUNDS WORKERS
 */
import { Tensor } from "../../../mod.ts";

const [ending, rounds, workers] = [Deno.args[0], Number(Deno.args[1]), Number(Deno.args[2])];
const STEPS = 30;

function start(steps: number): Worker {
  const url = new URL("./training_worker.ts", import.meta.url);
  return new Worker(url, { type: "module", name: String(steps) });
}

/** The messages of a worker up to the first that `isLast`. */
function until(worker: Worker, isLast: (message: unknown) => boolean): Promise<unknown> {
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => isLast(data) && resolve(data);
    worker.onerror = (event) => {
      event.preventDefault();
      reject(new Error(event.message));
    };
  });
}

async function endRound(): Promise<void> {
  const all = Array.from({ length: workers }, () => start(STEPS));
  const losses = await Promise.all(all.map((w) => until(w, (data) => typeof data === "number")));
  if (!losses.every(Number.isFinite)) throw new Error(`The losses are ${losses}`);
  for (const worker of all) worker.terminate();
}

async function terminateRound(): Promise<void> {
  const all = Array.from({ length: workers }, () => start(1e9));
  await Promise.all(all.map((worker) => until(worker, () => true)));
  for (const worker of all) {
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 20));
    worker.terminate();
  }
}

for (let round = 0; round < rounds; round++) {
  await (ending === "end" ? endRound() : terminateRound());
  const sum = await Tensor.ones([round + 3], { device: "cl" }).sum().item();
  if (sum !== round + 3) throw new Error(`The main thread's sum is ${sum}`);
}
console.log("done");
