/**
 * Replays allocation traces against netcl's pools and against models of other allocators, on a simulated
 * device: how much each holds for what is asked of it, and how often it has to ask the driver.
 *
 *     deno run bench/allocator_replay.ts                      # a transformer in training
 *     deno run --allow-read bench/allocator_replay.ts a.jsonl # what memory.record() recorded
 */
import {
  BucketPool,
  BufferPool,
  parseJSONLines,
  PersistentBufferPool,
  replay,
  type ReplayEvent,
  type ReplayResult,
  type SimulatedBuffer,
  SimulatedSource,
  SlabPool,
} from "../memory/mod.ts";
import { roundUp } from "../memory/core/bytes.ts";
import { sequenceLengths, transformerTrace } from "../tests/memory/transformer_trace.ts";
import { argumentsOrExit, filesOrExit } from "./arguments.ts";

const MiB = 2 ** 20;

/** A model of a pool that rounds to a size and keeps everything. */
class SizeClasses extends BucketPool<SimulatedBuffer> {
  readonly #sizeOf: (nbytes: number) => number;

  constructor(sizeOf: (nbytes: number) => number) {
    super(new SimulatedSource());
    this.#sizeOf = sizeOf;
  }

  protected override bucketSize(nbytes: number): number {
    return this.#sizeOf(nbytes);
  }
}

/** pyopencl's bins: the largest size with the same four leading bits. */
function fourLeadingBits(nbytes: number): number {
  const unit = 2 ** Math.max(0, Math.floor(Math.log2(nbytes)) - 4);
  return (Math.floor(nbytes / unit) + 1) * unit - 1;
}

/** A model of PyTorch's caching allocator: a 2 MiB pool for small blocks, a 20 MiB one for others. */
function pytorchLike(): PoolPair {
  const small = new SlabPool(new SimulatedSource(), { segmentBytes: 2 * MiB });
  const large = new SlabPool(new SimulatedSource(), { segmentBytes: 20 * MiB });
  return new PoolPair(small, large);
}

type SimulatedPool = SlabPool<SimulatedBuffer>;

/** Two pools that count as one. */
class PoolPair {
  #live = 0;
  #peakLive = 0;
  #peakReserved = 0;

  constructor(readonly small: SimulatedPool, readonly large: SimulatedPool) {}

  replay(events: readonly ReplayEvent[]): ReplayResult {
    const handles = new Map<string, { nbytes: number; release(): void }>();
    const began = performance.now();
    for (const { action, id, device, nbytes } of events) {
      const key = `${device} ${id}`;
      if (action === "alloc") {
        const pool = nbytes <= MiB ? this.small : this.large;
        handles.set(key, pool.allocate(roundUp(nbytes, 512)));
        this.#live += nbytes;
      } else if (action === "free") {
        this.#live -= nbytes;
        handles.get(key)!.release();
      }
      this.#peakLive = Math.max(this.#peakLive, this.#live);
      const reserved = this.small.stats.reservedBytes + this.large.stats.reservedBytes;
      this.#peakReserved = Math.max(this.#peakReserved, reserved);
    }
    return {
      events: events.length,
      peakRequestedBytes: this.#peakLive,
      peakReservedBytes: this.#peakReserved,
      overhead: this.#peakReserved / this.#peakLive,
      nativeAllocs: this.small.stats.nativeAllocs + this.large.stats.nativeAllocs,
      subBuffers: 0,
      nanosecondsPerEvent: (performance.now() - began) * 1e6 / events.length,
    };
  }
}

const contenders: Record<string, (events: readonly ReplayEvent[]) => ReplayResult> = {
  "SlabPool (the default)": (events) => replay(events, new SlabPool(new SimulatedSource())),
  "SlabPool of whole buffers": (events) =>
    replay(events, new SlabPool(new SimulatedSource(), { subBuffers: false })),
  "BufferPool (powers of two)": (events) => replay(events, new BufferPool(new SimulatedSource())),
  "PersistentBufferPool (fixed ladder)": (events) =>
    replay(events, new PersistentBufferPool(new SimulatedSource())),
  "model: exact sizes (tinygrad, tfjs)": (events) =>
    replay(events, new SizeClasses((nbytes) => roundUp(nbytes, 4))),
  "model: four leading bits (pyopencl)": (events) =>
    replay(events, new SizeClasses(fourLeadingBits)),
  "model: 2 and 20 MiB segments (PyTorch)": (events) => pytorchLike().replay(events),
};

/** Prints how every contender does on a trace. */
export function printReplay(title: string, events: readonly ReplayEvent[]): void {
  let table = "";
  for (const [name, run] of Object.entries(contenders)) {
    run(events); // so that what is timed is compiled
    const { overhead, nativeAllocs, nanosecondsPerEvent } = run(events);
    table += `  ${name.padEnd(52)} ${overhead.toFixed(2).padStart(8)}×${
      String(nativeAllocs).padStart(10)
    }${nanosecondsPerEvent.toFixed(0).padStart(10)}\n`;
  }
  const { peakRequestedBytes } = replay(events, new SlabPool(new SimulatedSource()));
  console.log(
    `\n${title}: ${events.length} events, peak ${(peakRequestedBytes / MiB).toFixed(0)} MiB\n` +
      `  ${"".padEnd(52)} reserved/requested   native  ns/event\n${table}`,
  );
}

/** The traces of a transformer in training. */
export function transformerEvents(lengths: string, steps = 40, seed = 1): ReplayEvent[] {
  return transformerTrace(steps, sequenceLengths[lengths]!, seed).events
    .map(([sign, id, nbytes]) => ({ action: sign > 0 ? "alloc" : "free", id, nbytes }));
}

/** @throws TypeError for a file that cannot be read or is no recording. */
function eventsOf(path: string): ReplayEvent[] {
  try {
    return parseJSONLines(Deno.readTextFileSync(path));
  } catch (error) {
    throw new TypeError(`Cannot replay ${path}: ${(error as Error).message}`, { cause: error });
  }
}

if (import.meta.main) {
  const paths = filesOrExit(
    "deno run --allow-read bench/allocator_replay.ts [recording.jsonl ...]",
  );
  if (paths.length === 0) {
    for (const lengths of Object.keys(sequenceLengths)) {
      printReplay(`A transformer in training, ${lengths}`, transformerEvents(lengths));
    }
  }
  for (const path of paths) printReplay(path, argumentsOrExit(() => eventsOf(path)));
}
