import { assert, assertEquals } from "@std/assert";
import {
  type BufferHandle,
  HostPool,
  replay,
  type ReplayEvent,
  type SimulatedBuffer,
  SimulatedSource,
  SlabPool,
} from "../../../memory/mod.ts";
import { randomNumbers, sequenceLengths, transformerTrace } from "../transformer_trace.ts";
import { churn } from "../churn.ts";

const MiB = 2 ** 20;
const simulated = () => new SlabPool(new SimulatedSource({ alignment: 512 }));

function traceEvents(
  steps: number,
  lengths: keyof typeof sequenceLengths,
  seed?: number,
): ReplayEvent[] {
  return transformerTrace(steps, sequenceLengths[lengths]!, seed).events
    .map(([sign, id, nbytes]) => ({ action: sign > 0 ? "alloc" : "free", id, nbytes }));
}

for (const lengths of Object.keys(sequenceLengths)) {
  Deno.test(`SlabPool holds at most 1.10 times what a transformer needs, ${lengths}`, () => {
    for (const seed of [1, 2, 3]) {
      const { overhead, nativeAllocs } = replay(traceEvents(40, lengths, seed), simulated());
      assert(overhead <= 1.1, `reserved over requested: ${overhead}`);
      assert(nativeAllocs <= 15, `native allocations: ${nativeAllocs}`);
    }
  });
}

Deno.test("SlabPool asks the driver for nothing in a steady training step, not even for sub-buffers", () => {
  const { events, stepEnds } = transformerTrace(8, () => 256);
  const pool = simulated();
  const live = new Map<number, BufferHandle<SimulatedBuffer>>();
  const counts: number[][] = [];
  events.forEach(([sign, id, nbytes], i) => {
    if (sign > 0) {
      live.set(id, pool.allocate(nbytes));
      assert(!live.get(id)!.buffer.released);
    } else live.get(id)![Symbol.dispose]();
    if (stepEnds.includes(i + 1)) counts.push([pool.stats.nativeAllocs, pool.stats.subBuffers]);
  });
  assertEquals(counts.slice(2), counts.slice(2).map(() => counts[2]!));
});

Deno.test("SlabPool coalesces neighbours on release", () => {
  const pool = simulated();
  const handles = Array.from({ length: 64 }, () => pool.allocate(MiB));
  assertEquals(pool.stats.nativeAllocs, 1);
  for (
    const handle of handles.toSorted((a, b) => (a.offset * 7919) % 1009 - (b.offset * 7919) % 1009)
  ) {
    handle.release();
  }
  assertEquals(pool.largestFreeBytes, 64 * MiB);
  assertEquals(pool.segments().map(({ blocks }) => blocks.length), [1]);
});

Deno.test("SlabPool gives the same places to the same requests", () => {
  const places = () => {
    const pool = simulated(), all: string[] = [];
    const allocate = (nbytes: number) => {
      const handle = pool.allocate(nbytes), { segment, offset } = pool.liveBlocks().at(-1)!;
      all.push(`${segment}:${offset}`);
      return handle;
    };
    const size = (random: number): number => Math.floor(2 ** (8 + 14 * random));
    churn(allocate, { seed: 5, steps: 2000, live: 50, share: 0.5, size });
    return all;
  };
  assertEquals(places(), places());
});

Deno.test("SlabPool gives large requests a segment of their own and reuses it for smaller ones", () => {
  const pool = simulated();
  const large = pool.allocate(100 * MiB + 1);
  assertEquals(pool.segments().map(({ nbytes }) => nbytes), [102 * MiB]);
  large.release();
  pool.allocate(90 * MiB);
  pool.allocate(10 * MiB);
  assertEquals(pool.stats.nativeAllocs, 1);
});

Deno.test("SlabPool obeys the largest buffer and the alignment of a device", () => {
  const source = new SimulatedSource({ alignment: 4096, maxAllocationBytes: 8 * MiB });
  const pool = new SlabPool(source);
  assertEquals(pool.segmentBytes, 8 * MiB);
  for (let i = 1; i < 40; i++) assertEquals(pool.allocate(1000 * i).offset % 4096, 0);
  pool.allocate(8 * MiB);
  assert(pool.segments().every(({ nbytes }) => nbytes <= 8 * MiB));
});

Deno.test("SlabPool keeps its sub-buffer objects within bounds when sizes never settle", () => {
  const source = new SimulatedSource();
  const pool = new SlabPool(source);
  const kept = pool.allocate(4096);
  const random = randomNumbers(3);
  for (let i = 0; i < 20_000; i++) {
    using handle = pool.allocate(1 + Math.floor(random() * 8 * MiB));
    assert(!handle.buffer.released);
  }
  assert(source.liveBuffers <= 256 + 2, `${source.liveBuffers} objects`);
  assertEquals(kept.state, "live");
  assert(!kept.buffer.released, "what is held is never dropped");
  pool.destroy();
  assertEquals(source.liveBuffers, 0);
});

Deno.test("SlabPool never lets two sub-buffers overlap where the driver cannot bear it", () => {
  class Watched extends SimulatedSource {
    readonly parts = new Set<SimulatedBuffer>();

    override createSubBuffer(
      parent: SimulatedBuffer,
      offset: number,
      nbytes: number,
    ): SimulatedBuffer {
      const made = super.createSubBuffer(parent, offset, nbytes);
      for (const { address, nbytes: size } of this.parts) {
        assert(made.address + nbytes <= address || address + size <= made.address, "no overlap");
      }
      this.parts.add(made);
      return made;
    }

    override destroy(buffer: SimulatedBuffer): void {
      super.destroy(buffer);
      this.parts.delete(buffer);
    }
  }
  const source = new Watched({ subBuffersMayOverlap: false });
  const pool = new SlabPool(source);
  const allocate = (nbytes: number) => {
    const handle = pool.allocate(nbytes);
    assert(!handle.buffer.released);
    return handle;
  };
  const size = (random: number): number => 1 + Math.floor(2 ** (21 * random));
  const live = churn(allocate, { seed: 13, steps: 5000, live: 40, share: 0.55, size });
  for (const handle of live) assert(!handle.buffer.released, "what is held stays");
  pool.destroy();
  assertEquals(source.liveBuffers, 0);
});

type Counted = { release(): void; nbytes: number; bucketSize: number };

Deno.test("SlabPool: A million random calls on four pools leave no counter adrift", () => {
  const pools = [
    simulated(),
    new SlabPool(new SimulatedSource(), { subBuffers: false }),
    new SlabPool(new SimulatedSource(), { segmentBytes: MiB }),
    new HostPool({ segmentBytes: 4 * MiB }),
  ];
  for (const pool of pools) {
    const size = (random: number): number => 1 + Math.floor(2 ** (17 * random));
    const allocate = (nbytes: number): Counted => pool.allocate(nbytes);
    const live = churn(allocate, { seed: 17, steps: 250_000, live: 100, share: 0.52, size });
    const sum = (of: (handle: Counted) => number) =>
      live.reduce((total, handle) => total + of(handle), 0);
    const { stats } = pool;
    assertEquals(stats.requestedBytes, sum(({ nbytes }) => nbytes));
    assertEquals(stats.bytesAllocated, sum(({ bucketSize }) => bucketSize));
    assertEquals(stats.numAllocs - stats.numFrees, live.length);
    assertEquals(stats.hits + stats.misses, stats.numAllocs);
    for (const handle of live) handle.release();
    pool.trim();
    const { requestedBytes, bytesAllocated, bytesCached, reservedBytes } = stats;
    assertEquals([requestedBytes, bytesAllocated, bytesCached, reservedBytes], [0, 0, 0, 0]);
    assertEquals(stats.nativeAllocs, stats.nativeFrees);
  }
});
