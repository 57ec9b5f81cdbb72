// Suite: no device; the queues are simulated.
/**
 * A block in use on any queue is never handed out without a fence: random programs of several
 * queues against every kind of pool and wrapper, judged by vector clocks. A use of a block must
 * happen before the first command that its next holder can enqueue.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  type BufferHandle,
  BufferPool,
  DeviceMemory,
  FaultPool,
  GuardPool,
  LimitPool,
  type MemorySource,
  OutOfMemoryError,
  PersistentBufferPool,
  type Pool,
  recordQueue,
  type SimulatedBuffer,
  SimulatedSource,
  SlabPool,
} from "../../../memory/mod.ts";
import { type ClockedQueue, World } from "./clocked_queue.ts";

const PAGE = 256, QUEUES = 3;

type SimulatedPool = Pool<SimulatedBuffer>;
type Lend = Pick<SimulatedPool, "allocate">;

type Device = MemorySource<SimulatedBuffer>;

const deviceOf = (home: ClockedQueue | null): Device =>
  Object.assign(new SimulatedSource(), home && { defaultQueue: home });

const small = { segmentBytes: 4096 };
const slab = (source: Device) => new SlabPool<SimulatedBuffer>(source, small);

/** Guard words and poison as somebody wrote them who never writes elsewhere. */
const intact = {
  fill: () => {},
  read: (buffer: SimulatedBuffer, offset: number, nbytes: number) =>
    new Uint8Array(nbytes).fill(offset + nbytes > buffer.nbytes - 1 || nbytes === 64 ? 0xa5 : 0xff),
};

const pools: { [name: string]: (source: Device) => SimulatedPool } = {
  "SlabPool": slab,
  "SlabPool of whole buffers": (source) => new SlabPool(source, { ...small, subBuffers: false }),
  "BufferPool": (source) => new BufferPool(source),
  "PersistentBufferPool": (source) =>
    new PersistentBufferPool(source, { maxCachedBytes: 4096, maxBuffersPerBucket: 2 }),
  "LimitPool": (source) => new LimitPool(slab(source), 8192),
  "FaultPool": (source) => new FaultPool(slab(source)),
  "GuardPool": (source) => new GuardPool(slab(source), intact, { quarantineBytes: 1024 }),
};

interface Held {
  readonly handle: BufferHandle<SimulatedBuffer>;
  readonly address: number;
  readonly users: ClockedQueue[];
}

interface Use {
  readonly queue: ClockedQueue;
  readonly position: number;
}

/** Actions of a random program besides allocating and releasing. */
interface Habits {
  readonly records: boolean;
  readonly releasesQueues: boolean;
  readonly fails: boolean;
  readonly hasDefaultQueue: boolean;
}

/** One random program; what it found wrong. */
class Program {
  readonly world = new World(QUEUES);
  readonly faults: string[] = [];
  readonly pool: SimulatedPool;
  readonly #lend: Lend;
  readonly #held: Held[] = [];
  readonly #uses = new Map<number, Use[]>();

  constructor(
    make: (source: Device) => SimulatedPool,
    readonly habits: Habits,
    readonly random: (below: number) => number,
    throughDevice: boolean,
  ) {
    this.pool = make(deviceOf(habits.hasDefaultQueue ? this.world.queues[0]! : null));
    this.#lend = throughDevice ? new DeviceMemory(this.pool, { name: "card" }) : this.pool;
    this.pool.limitBytes = 3 * 4096;
    if (habits.fails) this.world.nextFails = () => this.random(10) === 0;
  }

  step(): void {
    const action = this.random(100);
    if (action < 40) this.allocate();
    else if (action < 75) this.release();
    else if (action < 85 && this.habits.records) this.record();
    else if (action < 87 && this.habits.releasesQueues) this.releaseQueue();
    else if (action < 88) this.pool.trim(this.random(8192));
    else if (action < 89) this.pool.clear();
    else this.world.all[this.random(this.world.all.length)]!.advance(this.random(6));
  }

  #anyQueue(): ClockedQueue {
    return this.world.queues[this.random(QUEUES)]!;
  }

  allocate(): void {
    const queue = this.#anyQueue();
    let handle: BufferHandle<SimulatedBuffer>;
    try {
      const isHome = this.habits.hasDefaultQueue && queue === this.world.all[0];
      const options = isHome && this.random(2) === 0 ? undefined : { queue };
      handle = this.#lend.allocate(PAGE * (1 + this.random(8)), options);
    } catch (error) {
      if (error instanceof OutOfMemoryError) return;
      throw error;
    }
    const { address } = handle.buffer;
    for (const page of pagesOf(address, handle.bucketSize)) {
      for (const use of this.#uses.get(page) ?? []) this.#judge(use, queue, page);
      this.#uses.delete(page);
    }
    this.#held.push({ handle, address, users: [queue] });
  }

  #judge({ queue, position }: Use, taker: ClockedQueue, page: number): void {
    if (queue === taker || queue.done >= position) return;
    if ((taker.clock.get(queue) ?? 0) >= position) return;
    const { all } = this.world;
    this.faults.push(`page ${page} of queue ${all.indexOf(queue)} for ${all.indexOf(taker)}`);
  }

  /** A queue has one more command that uses a block. */
  #use({ handle, address }: Held, queue: ClockedQueue): void {
    const position = queue.work();
    for (const page of pagesOf(address, handle.bucketSize)) {
      this.#uses.set(page, [...this.#uses.get(page) ?? [], { queue, position }]);
    }
  }

  release(): void {
    if (this.#held.length === 0) return;
    const [held] = this.#held.splice(this.random(this.#held.length), 1) as [Held];
    for (const queue of held.users) if (!queue.released) this.#use(held, queue);
    held.handle.release();
  }

  record(): void {
    const held = this.#held[this.random(this.#held.length)], queue = this.#anyQueue();
    if (held === undefined || held.users.includes(queue)) return;
    recordQueue(held.handle, queue);
    held.users.push(queue);
  }

  /** Its last commands, which use what it holds, are still to come. */
  releaseQueue(): void {
    const index = this.random(QUEUES), queue = this.world.queues[index]!;
    for (const held of this.#held) if (held.users.includes(queue)) this.#use(held, queue);
    this.world.replace(index);
  }

  end(): void {
    this.pool.destroy();
    assertEquals(this.pool.stats.reservedBytes, 0, "the end gives everything back");
    assertEquals(this.pool.stats.bytesAllocated, 0);
  }
}

function pagesOf(address: number, nbytes: number): number[] {
  const first = Math.floor(address / PAGE), last = Math.ceil((address + nbytes) / PAGE);
  return Array.from({ length: last - first }, (_, i) => first + i);
}

/** Numbers from a seed (mulberry32). */
function generator(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = state + 0x6d2b79f5 | 0;
    let t = Math.imul(state ^ state >>> 15, 1 | state);
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t;
    return ((t ^ t >>> 14) >>> 0) % below;
  };
}

const habits: fc.Arbitrary<Habits> = fc.record({
  records: fc.boolean(),
  releasesQueues: fc.boolean(),
  fails: fc.boolean(),
  hasDefaultQueue: fc.boolean(),
});

for (const [name, make] of Object.entries(pools)) {
  Deno.test(`${name}: no block in use is handed out without a fence`, () => {
    fc.assert(
      fc.property(fc.nat(), habits, fc.boolean(), (seed, habits, throughDevice) => {
        const program = new Program(make, habits, generator(seed), throughDevice);
        for (let step = 0; step < 150; step++) program.step();
        assertEquals(program.faults, []);
        program.end();
        const left = program.world.events.filter(({ released }) => !released);
        assert(left.length === 0, `${left.length} events were not let go`);
      }),
      // The guards take a stack for each block.
      { numRuns: name === "GuardPool" ? 40 : 300, seed: 20 },
    );
  });
}

Deno.test("the judge sees a block that is handed out too early", () => {
  let found = 0;
  for (let seed = 0; seed < 50 && found === 0; seed++) {
    const program = new Program(slab, allHabits(), generator(seed), false);
    (program.pool as unknown as { orderAfter: () => void }).orderAfter = () => {};
    for (let step = 0; step < 150; step++) program.step();
    found += program.faults.length;
  }
  assert(found > 0);
});

function allHabits(): Habits {
  return { records: true, releasesQueues: false, fails: false, hasDefaultQueue: true };
}
