import { assert, assertEquals, assertInstanceOf, assertRejects, assertThrows } from "@std/assert";
import { InterruptedError } from "../../../backend/mod.ts";
import { memory } from "../../../memory/mod.ts";
import { DataLoader, Subset } from "../../../tensor/mod.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";
import { interrupted } from "./interrupted.ts";
import squares from "./squares.ts";

const module = new URL("squares.ts", import.meta.url);
const first70 = new Subset(squares, Array.from({ length: 70 }, (_, i) => i));

function inWorkers(code: string): URL {
  return new URL(`data:text/javascript,${encodeURIComponent(code)}`);
}

/** The indices, batch by batch, after a look at the rest of the samples. */
async function pass(loader: DataLoader): Promise<number[][]> {
  const batches: number[][] = [];
  for await (const [values, flags] of loader) {
    using v = values!, f = flags!;
    const rows = await v.toArray() as number[][];
    for (const [index, square] of rows) assertEquals(square, index! ** 2);
    assert((await f.toArray() as boolean[]).every((isWorker) => isWorker));
    batches.push(rows.map(([index]) => index!));
  }
  return batches;
}

/** The error that ends a pass over datasets of a module's. */
function failure(module: URL): Promise<Error> {
  const loader = new DataLoader(squares, { workers: { module, count: 2 } });
  return assertRejects(() => pass(loader), Error);
}

testOnBackends("workers read the batches, in the order without workers", async () => {
  const options = { batchSize: 8, shuffle: true, seed: 5, prefetch: 4 };
  const loader = new DataLoader(first70, { ...options, workers: { module, count: 3 } });
  const [once, again] = [await pass(loader), await pass(loader)];
  const plain = new DataLoader(first70, options);
  for (const batches of [once, again]) {
    const expected: number[][] = [];
    for await (const [values, flags] of plain) {
      using v = values!, _ = flags!;
      expected.push((await v.toArray() as number[][]).map(([index]) => index!));
    }
    assertEquals(batches, expected);
  }
});

testOnCPU(
  "an error in a worker reaches the pass in its turn, with the sample's index",
  async () => {
    const loader = new DataLoader(squares, { batchSize: 10, workers: { module, count: 2 } });
    const seen: number[] = [];
    const run = async () => {
      for await (const [values, flags] of loader) {
        using v = values!, _ = flags!;
        seen.push(v.shape[0]!);
      }
    };
    const text = `Cannot read sample 77 of ${module} in a worker: no disk`;
    assertInstanceOf((await assertRejects(run, Error, text)).cause, RangeError);
    assertEquals(seen.length, 7);
  },
);

testOnBackends(
  "a pass that ends early ends its workers, and gives back what was read",
  async () => {
    const loader = new DataLoader(first70, { prefetch: 6, workers: { module, count: 2 } });
    await pass(new DataLoader(new Subset(squares, [0]), { workers: { module, count: 1 } }));
    const before = memory.stats().currentAllocated;
    for await (const tensors of loader) {
      tensors.forEach((tensor) => tensor.dispose());
      break;
    }
    // Less where a tensor that an earlier test forgot was collected meanwhile.
    assert(memory.stats().currentAllocated <= before);
  },
);

testOnCPU("Ctrl+C ends the wait for workers", async () => {
  const never = inWorkers("export default { length: 9, get: () => new Promise(() => {}) };");
  const loader = new DataLoader(squares, { workers: { module: never, count: 2 } });
  const wait = loader[Symbol.asyncIterator]().next();
  await interrupted(async () => void await assertRejects(() => wait, InterruptedError));
});

testOnCPU("a module that is none, or exports no dataset, is an error that says so", async () => {
  const broken = await failure(inWorkers("export default {"));
  assert(/^Cannot read the dataset of data:.* in a worker: /.test(broken.message), broken.message);
  const empty = await failure(inWorkers("export default 3;"));
  assert(empty.message.endsWith('is no dataset: it has no method "get"'), empty.message);
  const throws = await failure(inWorkers('throw new TypeError("not here");'));
  assertInstanceOf(throws.cause, TypeError);
});

testOnCPU("a worker that breaks down is an error, also where its error cannot travel", async () => {
  const code = "export default { get: () => new Promise(() => { throw_(); }) };" +
    'function throw_() { setTimeout(() => { throw new Error("later"); }); }';
  const outside = await failure(inWorkers(code));
  assert(outside.message.includes("later"), outside.message);
  const strange = await failure(inWorkers("export default { get() { throw () => 7; } };"));
  assert(strange.message.includes("Cannot read sample 0 of"), strange.message);
  assert(strange.message.endsWith("() => 7"), strange.message);
});

testOnCPU("a worker that ends itself is an error of the pass", async () => {
  const get = "() => (globalThis.Deno ?? process).exit(0)";
  const ended = await failure(inWorkers(`export default { length: 9, get: ${get} };`));
  assert(ended.message.endsWith("in a worker: it ended itself"), ended.message);
});

Deno.test("DataLoader refuses a number of workers that cannot be", () => {
  for (const count of [0, 1.5, -1]) {
    const text = `workers of a DataLoader with count ${count}: pass a whole number of at least 1`;
    assertThrows(() => new DataLoader(squares, { workers: { module, count } }), RangeError, text);
  }
});
