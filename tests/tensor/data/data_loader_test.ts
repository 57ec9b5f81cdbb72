import { assert, assertEquals, assertRejects, assertStrictEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { InterruptedError, manager, withDevice } from "../../../backend/mod.ts";
import { memory } from "../../../memory/mod.ts";
import {
  DataLoader,
  type DataLoaderOptions,
  type Dataset,
  type Field,
  TensorDataset,
} from "../../../tensor/data/mod.ts";
import { manualSeed, Tensor } from "../../../tensor/mod.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";
import { plain } from "../../plain.ts";
import { interrupted } from "./interrupted.ts";

function numbers(length: number): TensorDataset {
  return new TensorDataset({ data: Int32Array.from({ length }, (_, i) => i), shape: [length] });
}

/** The batches of one pass, batch by batch; also those before an error. */
async function pass(loader: DataLoader, batches: number[][] = []): Promise<number[][]> {
  for await (const [batch] of loader) {
    batches.push(Array.from(await batch!.toHost(), Number));
    batch!.dispose();
  }
  return batches;
}

testOnBackends("DataLoader: a pass yields every sample once, whatever the options", async () => {
  const options: fc.Arbitrary<DataLoaderOptions> = fc.record({
    batchSize: fc.integer({ min: 1, max: 9 }),
    shuffle: fc.boolean(),
    prefetch: fc.nat({ max: 5 }),
    pinMemory: fc.boolean(),
    seed: fc.nat(),
  });
  await fc.assert(
    fc.asyncProperty(fc.nat({ max: 30 }), options, async (length, options) => {
      const loader = new DataLoader(numbers(length), options);
      const batches = await pass(loader);
      assertEquals(batches.length, loader.length);
      assert(batches.slice(0, -1).every((batch) => batch.length === options.batchSize));
      const seen = batches.flat();
      if (options.shuffle) seen.sort((a, b) => a - b);
      assertEquals(seen, Array.from({ length }, (_, i) => i));
    }),
    { numRuns: 30 },
  );
});

testOnBackends("DataLoader: batches are on the device that is active first", async (backend) => {
  const points: Field = { data: Float32Array.of(1, 2, 3, 4, 5, 6), shape: [3, 2] };
  const bools: Field = { data: Uint8Array.of(1, 0, 1), shape: [3], dtype: "bool" };
  const loader = new DataLoader(new TensorDataset(points, bools), { batchSize: 2 });
  const iterator = withDevice(backend, () => loader[Symbol.asyncIterator]());
  const [values, flags] = (await iterator.next()).value!;
  assertStrictEquals(values!.device, manager.default(backend));
  assertEquals([[...values!.shape], values!.dtype], [[2, 2], "float32"]);
  assertEquals([[...flags!.shape], flags!.dtype], [[2], "bool"]);
  assertEquals(await flags!.toArray(), [true, false]);
  await iterator.return!();
  values!.dispose();
  flags!.dispose();
});

testOnCPU("DataLoader: the same seed gives the same orders, and every pass a new one", async () => {
  const orders = async (seed: number) => {
    const loader = new DataLoader(numbers(40), { batchSize: 40, shuffle: true, seed });
    return [await pass(loader), await pass(loader)].map(String);
  };
  const [first, second] = await orders(3);
  assertEquals(await orders(3), [first!, second!]);
  assert(first !== second);
  assert((await orders(4))[0] !== first);
});

testOnCPU("DataLoader: without a seed the order depends on manualSeed", async () => {
  const order = async () => {
    manualSeed(11);
    return String(await pass(new DataLoader(numbers(40), { batchSize: 40, shuffle: true })));
  };
  assertEquals(await order(), await order());
});

testOnCPU("DataLoader: dropLast leaves out a batch that is not full", async () => {
  const loader = new DataLoader(numbers(10), { batchSize: 4, dropLast: true });
  assertEquals(loader.length, 2);
  assertEquals(await pass(loader), [[0, 1, 2, 3], [4, 5, 6, 7]]);
});

testOnCPU("DataLoader: prefetch reads that many batches ahead, and no more", async () => {
  const asked: number[] = [];
  const dataset: Dataset = {
    length: 10,
    get: (index) => {
      asked.push(index);
      return Promise.resolve([{ data: Int32Array.of(index), shape: [] }]);
    },
  };
  for (const [prefetch, expected] of [[0, 1], [3, 4], [20, 10]]) {
    asked.length = 0;
    const loader = new DataLoader(dataset, { prefetch: prefetch! });
    const iterator = loader[Symbol.asyncIterator]();
    const { value } = await iterator.next();
    assertEquals(asked.length, expected, `prefetch ${prefetch}`);
    (value as Tensor[]).forEach((tensor) => tensor.dispose());
    await iterator.return!();
  }
});

testOnBackends("DataLoader: a pass that ends early gives back what it read", async () => {
  const loader = new DataLoader(numbers(1000), { batchSize: 10, prefetch: 5 });
  await pass(loader);
  const before = memory.stats().currentAllocated;
  for await (const [batch] of loader) {
    batch!.dispose();
    break;
  }
  assert(memory.stats().currentAllocated <= before);
});

testOnCPU("DataLoader: a sample that cannot be read is an error in its turn", async () => {
  const dataset: Dataset = {
    length: 6,
    get: (index) => {
      if (index === 4) throw new Error("no disk");
      return [{ data: Int32Array.of(index), shape: [] }];
    },
  };
  const seen: number[][] = [], loader = new DataLoader(dataset, { batchSize: 2, prefetch: 4 });
  await assertRejects(() => pass(loader, seen), Error, "no disk");
  assertEquals(seen, [[0, 1], [2, 3]]);
});

/** A dataset that answers when it is told to, and the answers that it owes. */
function slow(length: number): { dataset: Dataset; owed: PromiseWithResolvers<Field[]>[] } {
  const owed: PromiseWithResolvers<Field[]>[] = [];
  const get = (): Promise<Field[]> => {
    owed.push(Promise.withResolvers());
    return owed.at(-1)!.promise;
  };
  return { dataset: { length, get }, owed };
}

testOnBackends("DataLoader: Ctrl+C ends the wait for a dataset, which gives back", async () => {
  const { dataset, owed } = slow(4);
  const sample = [{ data: new Float32Array(1000), shape: [1000] }];
  await pass(new DataLoader(numbers(4)));
  const before = memory.stats().currentAllocated;
  const iterator = new DataLoader(dataset, { prefetch: 3 })[Symbol.asyncIterator]();
  const wait = iterator.next();
  assertEquals(owed.length, 4);
  await interrupted(async () => {
    await assertRejects(() => wait, InterruptedError);
    assertEquals(await iterator.next(), { done: true, value: undefined });
  });
  owed.slice(1).forEach(({ resolve }) => resolve(sample));
  owed[0]!.reject(new Error("broken off")); // tells nobody, and is no unhandled rejection
  await new Promise((resolve) => setTimeout(resolve));
  assert(memory.stats().currentAllocated <= before);
});

testOnCPU("DataLoader: a pass that Ctrl+C ends elsewhere does not wait either", async () => {
  const { dataset, owed } = slow(3);
  const iterator = new DataLoader(dataset)[Symbol.asyncIterator]();
  const first = iterator.next();
  owed[0]!.resolve([{ data: Int32Array.of(1), shape: [] }]);
  (await first).value!.forEach((tensor) => tensor.dispose());
  await interrupted(async () => {
    assertEquals(await iterator.return!(), { done: true, value: undefined });
  });
});

Deno.test("DataLoader: a program that waits for a dataset ends at Ctrl+C", async () => {
  const code = `
    import { DataLoader, InterruptedError, Tensor, withDevice } from "${
    import.meta.resolve("../../../mod.ts")
  }";
    const get = () => new Promise(() => setTimeout(() => {}, 60_000));
    await withDevice("cpu", async () => {
      Tensor.ones([1]).realize(); // from the first use of a device on, netcl listens for signals
      const iterator = new DataLoader({ length: 9, get })[Symbol.asyncIterator]();
      const wait = iterator.next();
      console.log("waiting");
      await wait.catch((error) => console.log(error instanceof InterruptedError));
    });
    Deno.exit(7);`;
  const args = ["eval", "--quiet", code];
  const child = new Deno.Command(Deno.execPath(), { args, env: plain, stdout: "piped" }).spawn();
  let out = "";
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    out += text;
    if (out === "waiting\n") child.kill("SIGINT");
  }
  assertEquals([out, (await child.status).code], ["waiting\ntrue\n", 7]);
});

testOnCPU("DataLoader: collate makes the fields of a batch", async () => {
  const words: Dataset = {
    length: 3,
    get: (index) => [{ data: new Int32Array(index + 1).fill(7), shape: [index + 1] }],
  };
  const collate: DataLoaderOptions["collate"] = (samples) => {
    const width = Math.max(...samples.map(([field]) => field!.shape[0]!));
    const data = new Int32Array(samples.length * width);
    samples.forEach(([field], row) => data.set(field!.data as Int32Array, row * width));
    return [{ data, shape: [samples.length, width] }];
  };
  const batches = await pass(new DataLoader(words, { batchSize: 2, collate }));
  assertEquals(batches, [[7, 0, 7, 7], [7, 7, 7]]);
  const ragged = new DataLoader(words, { batchSize: 2 });
  await assertRejects(() => pass(ragged), RangeError, "give a collate function");
});

Deno.test("DataLoader refuses sizes and seeds that cannot be", () => {
  const wrong = [["batchSize", 0], ["batchSize", 1.5], ["prefetch", -1], ["seed", -1]] as const;
  for (const [name, value] of wrong) {
    const text = `Cannot make a DataLoader with ${name} ${value}: pass a whole number`;
    assertThrows(() => new DataLoader(numbers(3), { [name]: value }), RangeError, text);
  }
});

testOnBackends("DataLoader goes on in the middle of a pass, and with the next", async () => {
  for (const seed of [undefined, 5]) {
    const options = { batchSize: 4, shuffle: true, ...seed !== undefined && { seed } };
    const make = () => new DataLoader(numbers(10), options);
    manualSeed(3);
    const whole = make(), expected = [...await pass(whole), ...await pass(whole)];
    for (const stop of [1, 3, 4, 6]) {
      manualSeed(3);
      const first = make(), seen: number[][] = [];
      let state = "";
      while (state === "") {
        for await (const [batch] of first) {
          seen.push(Array.from(await batch!.toHost(), Number));
          if (seen.length === stop) {
            state = JSON.stringify(first.stateDict());
            break;
          }
        }
      }
      const resumed = make();
      resumed.loadStateDict(JSON.parse(state));
      assertEquals(resumed.stateDict(), JSON.parse(state));
      seen.push(...await pass(resumed));
      if (stop < 4) seen.push(...await pass(resumed));
      assertEquals(seen, expected);
    }
    // Between two passes.
    manualSeed(3);
    const before = make();
    await pass(before);
    const after = make();
    after.loadStateDict(before.stateDict());
    assertEquals(await pass(after), expected.slice(3));
  }
  const other = new DataLoader(numbers(9), { batchSize: 4 });
  const state = new DataLoader(numbers(10), { batchSize: 4 }).stateDict();
  assertThrows(() => other.loadStateDict(state), RangeError, "10 samples");
  assertThrows(() => other.loadStateDict(null as never), TypeError);
});

testOnBackends("DataLoader: shards are parts of one order, as many batches each", async () => {
  for (const dropLast of [false, true]) {
    const options = { shuffle: true, seed: 8, dropLast };
    const all = await pass(new DataLoader(numbers(17), { batchSize: 6, ...options }));
    const shards = [0, 1, 2].map((rank) =>
      new DataLoader(numbers(17), { batchSize: 2, shard: { rank, size: 3 }, ...options })
    );
    assertEquals(shards.map(({ length }) => length), shards.map(() => all.length));
    const parts = await Promise.all(shards.map((shard) => pass(shard)));
    const joined = all.map((_, k) => parts.flatMap((part) => part[k]!));
    // The last of all batches has 5 samples: the first of the order fills it up.
    const expected = dropLast ? all : [...all.slice(0, -1), [...all.at(-1)!, all[0]![0]!]];
    assertEquals(joined, expected);
  }
  const make = (shard: unknown) => new DataLoader(numbers(4), { shard } as DataLoaderOptions);
  assertThrows(() => make({ rank: 2, size: 2 }), RangeError, "0 to 1");
  assertThrows(() => make({ rank: 0 }), TypeError, "size");
});

testOnCPU("DataLoader names samples and batches that are no fields", async () => {
  // deno-lint-ignore no-explicit-any -- what a caller without types gives
  const any = (value: unknown) => value as any;
  const first = async (loader: DataLoader) => (await loader[Symbol.asyncIterator]().next()).value;
  const dataset = { length: 4, get: (k: number) => [{ data: Float32Array.of(k), shape: [1] }] };
  const of = (sample: unknown) => new DataLoader(any({ length: 4, get: () => sample }));
  const samples = [undefined, 5, [1, 2], [new Float32Array(1)], [{ data: [1], shape: [1] }]];
  for (const sample of samples) {
    await assertRejects(() => first(of(sample)), Error, "Cannot stack with a sample");
  }
  for (const batch of [undefined, 5, [1], [Tensor.ones([1])]]) {
    const loader = new DataLoader(dataset, { collate: () => any(batch) });
    await assertRejects(() => first(loader), Error, "Cannot load a batch with fields");
    const own = any({ ...dataset, getBatch: () => batch });
    await assertRejects(() => first(new DataLoader(own)), Error, "Cannot load a batch with");
  }
});

testOnCPU("DataLoader: a dataset without an end is read in order, and not shuffled", async () => {
  const get = (k: number) => [{ data: Float64Array.of(k), shape: [1] }];
  const endless = { length: Number.MAX_SAFE_INTEGER, get };
  const loader = new DataLoader(endless, { batchSize: 2 })[Symbol.asyncIterator]();
  for (const expected of [[0, 1], [2, 3]]) {
    const [x] = (await loader.next()).value!;
    assertEquals(await x!.toNumbers(), expected);
  }
  await loader.return!(undefined);
  const shuffled = new DataLoader(endless, { shuffle: true })[Symbol.asyncIterator]();
  await assertRejects(() => shuffled.next(), RangeError, "Cannot shuffle 9007199254740991");
});
