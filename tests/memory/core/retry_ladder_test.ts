import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import {
  DeviceMemory,
  FaultPool,
  GuardPool,
  HostPool,
  LimitPool,
  memory,
  OutOfMemoryError,
  RetryLadder,
  retryStep,
  Shortage,
  SimulatedSource,
  SlabPool,
} from "../../../memory/mod.ts";

const KiB = 1024;

/** Steps with so many bytes to free each, a part at every run, and an allocation that needs some. */
function world(steps: readonly { parts: number[] }[], needed: number) {
  let freed = 0;
  const left = steps.map(({ parts }) => [...parts]);
  const retrySteps = left.map((parts, i) =>
    retryStep(`step ${i}`, () => {
      const bytes = parts.shift() ?? 0;
      freed += bytes;
      return bytes;
    })
  );
  const shortage = new Shortage(retrySteps, () => {
    throw new Error("no details are needed");
  });
  return { attempt: () => freed >= needed ? "found" : shortage, shortage, left };
}

Deno.test("RetryLadder finds memory exactly where the steps together can free enough", () => {
  const part = fc.integer({ min: 1, max: 9 });
  const step = fc.record({ parts: fc.array(part, { maxLength: 4 }) });
  fc.assert(fc.property(
    fc.array(step, { maxLength: 4 }),
    fc.array(step, { maxLength: 3 }),
    fc.integer({ min: 1, max: 60 }),
    (steps, further, needed) => {
      const { attempt, shortage } = world(steps, needed);
      let others = 0;
      const furtherSteps = further.map(({ parts }, i) =>
        retryStep(`further ${i}`, () => (others += parts.length, 0))
      );
      const ladder = new RetryLadder();
      const result = ladder.retry(shortage, attempt, furtherSteps);
      const total = steps.flatMap(({ parts }) => parts).reduce((sum, bytes) => sum + bytes, 0);
      assertEquals(result, total >= needed ? "found" : shortage);
      // Dearer steps are tried only when the cheap ones help no more, and each once.
      const all = further.reduce((sum, { parts }) => sum + parts.length, 0);
      assertEquals(others, total >= needed ? 0 : all);
      assertEquals(new Set(ladder.rungs.map(({ name }) => name)).size, ladder.rungs.length);
    },
  ));
});

Deno.test("RetryLadder: a step that helped is followed by the cheaper ones again", () => {
  const order: string[] = [];
  let freed = 0;
  const cheap = retryStep("cheap", () => (order.push("cheap"), 0));
  const dear = retryStep("dear", () => (order.push("dear"), freed++ < 2 ? 1 : 0));
  const shortage = new Shortage([cheap, dear], () => {
    throw new Error("no details are needed");
  });
  const ladder = new RetryLadder();
  assertEquals(ladder.retry(shortage, () => shortage), shortage);
  assertEquals(order, ["cheap", "dear", "cheap", "dear", "cheap", "dear"]);
  assertEquals([...ladder.helped], [["dear", 2]]);
});

Deno.test("RetryLadder: pool, wrapper, device and program contribute to one ladder, and one failure is counted", () => {
  const pool = GuardPool.forHost(new HostPool({ segmentBytes: 64 * KiB }));
  const card = new DeviceMemory(new LimitPool(pool, 2 ** 40), { name: "card" });
  card.setLimit(64 * KiB);
  card.allocate(40 * KiB);
  using _reclaimer = card.addReclaimer({ name: "a cache", reclaim: () => {} });
  using _pressure = memory.onPressure(() => false);
  const error = assertThrows(() => card.allocate(40 * KiB), OutOfMemoryError);
  assertEquals(error.rungs.map(({ name }) => name), [
    "blocks of other queues",
    "wait for the oldest work",
    "cached segments",
    "released blocks that are watched",
    "a cache",
    "onPressure callback",
  ]);
  assertEquals([card.stats.numOoms, card.stats.numRetries], [1, 0]);
});

Deno.test("RetryLadder: tryAllocate counts nothing and throws no OutOfMemoryError, whatever wraps the pool", () => {
  const source = () => new SimulatedSource({ totalBytes: KiB });
  for (
    const pool of [
      new SlabPool(source()),
      new FaultPool(new SlabPool(source())),
      new LimitPool(new SlabPool(source()), 512),
    ]
  ) {
    const result = pool.tryAllocate(4 * KiB);
    assert(result instanceof Shortage, pool.constructor.name);
    assertEquals([pool.stats.numOoms, pool.stats.numRetries, pool.stats.numAllocs], [0, 0, 0]);
  }
});

Deno.test("RetryLadder: the cause of an error is what the driver said to this allocation, not to an earlier one", () => {
  const source = new SimulatedSource();
  const pool = new SlabPool(source, { segmentBytes: 4 * KiB });
  pool.allocate(12 * KiB).release();
  source.failCreation(1);
  source.failCreation(2);
  pool.allocate(20 * KiB); // refused at first, then found
  pool.limitBytes = 30 * KiB;
  const error = assertThrows(() => pool.allocate(40 * KiB), OutOfMemoryError);
  assertEquals(error.cause, undefined, "the limit refused it, no driver was asked");
});
