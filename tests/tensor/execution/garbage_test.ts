/**
 * A step's graph is garbage of V8's young generation: nothing of it is kept until a full collection. V8
 * puts array and object literals whose results live for a while straight into the old generation, where
 * they keep all that they hold; graphs must not be made of such.
 */
import { assert } from "@std/assert";
import { runProgram } from "../../run_deno.ts";

/** Prints the bytes that are kept of a step, by the median of a few tries. */
const program = `
  import { device, nn, optim, Tensor } from "${new URL("../../../mod.ts", import.meta.url)}";
  using _ = device("cpu");
  const used = () => Deno.memoryUsage().heapUsed;
  const layers = [1, 2, 3, 4].flatMap(() => [new nn.Linear(16, 16), new nn.GELU()]);
  const model = new nn.Sequential(...layers, new nn.Linear(16, 4));
  const optimizer = new optim.Adam(model.parameters(), { lr: 1e-3 });
  const x = Tensor.rand([16, 16]).realize(), y = Tensor.randint(0, 4, [16]).realize();
  const step = () => {
    const loss = model.forward(x).crossEntropy(y);
    optimizer.zeroGrad();
    loss.backward();
    optimizer.step();
    loss.realize().dispose();
  };
  for (let k = 0; k < 300; k++) step();
  const kept = [];
  for (let round = 0; round < 5; round++) {
    gc();
    await new Promise((resolve) => setTimeout(resolve));
    gc();
    const after = [];
    for (let k = 0; k < 24; k++) {
      step();
      gc({ type: "minor" });
      after.push(used());
    }
    kept.push((after[23] - after[11]) / 12);
  }
  console.log(kept.sort((a, b) => a - b)[2]);
`;

/** Prints the bytes that an operation on small tensors takes of the heap when each is realized. */
const additions = `
  import { device, noGrad, Tensor } from "${new URL("../../../mod.ts", import.meta.url)}";
  using _ = device("cpu");
  const x = Tensor.rand([64]).realize();
  const add = (times) =>
    noGrad(() => {
      for (let k = 0; k < times; k++) x.add(x).realize().dispose();
    });
  const taken = [];
  for (let round = 0; round < 300; round++) {
    const before = Deno.memoryUsage().heapUsed;
    add(100);
    taken.push((Deno.memoryUsage().heapUsed - before) / 100);
    await new Promise((resolve) => setTimeout(resolve));
  }
  // Rounds with a collection give less; the first ones ran unoptimized.
  console.log(taken.slice(200).sort((a, b) => a - b)[50]);
`;

Deno.test("what a realized operation takes of the heap", async () => {
  const { code, out, err } = await runProgram(additions);
  assert(code === 0, err);
  assert(Number(out) > 0 && Number(out) < 4500, `${out.trim()} bytes an operation`);
});

Deno.test("what quick collections leave of a training step", async () => {
  const { code, out, err } = await runProgram(program, { flags: ["--v8-flags=--expose-gc"] });
  assert(code === 0, err);
  // Values in memory are registered with a finalizer, and those stay: some 10 to 20 KB.
  assert(Number(out) < 50e3, `${out.trim()} bytes a step`);
});
