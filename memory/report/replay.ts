import type { BufferHandle, Pool } from "../core/pool.ts";
import type { MemoryEvent } from "./memory_event.ts";

/** The part of an event that a replay reads. */
export type ReplayEvent = Pick<MemoryEvent, "action" | "nbytes"> & {
  /** The allocation. */
  readonly id?: number;
  /** The device; allocations of different devices may have the same id. */
  readonly device?: string;
};

/** The result of a pool on a trace. */
export interface ReplayResult {
  /** Allocations and releases. */
  readonly events: number;
  /** The most bytes that the trace had live. */
  readonly peakRequestedBytes: number;
  /** The most bytes that the pool held from the driver. */
  readonly peakReservedBytes: number;
  /** `peakReservedBytes / peakRequestedBytes`: 1 is no waste. */
  readonly overhead: number;
  /** Memory objects that were asked of the driver. */
  readonly nativeAllocs: number;
  /** Sub-buffers that were made. */
  readonly subBuffers: number;
  /** Nanoseconds an event. */
  readonly nanosecondsPerEvent: number;
}

/** Reads what {@linkcode Recorder.toJSONLines} wrote. */
export function parseJSONLines(text: string): ReplayEvent[] {
  return text.split("\n").filter((line) => line !== "").map((line, i) => {
    const event = JSON.parse(line);
    if (typeof event?.action !== "string" || typeof event.nbytes !== "number") {
      throw new SyntaxError(`Line ${i + 1} is no event of a recording: ${line.slice(0, 80)}`);
    }
    return event;
  });
}

/**
 * Runs the allocations and releases of a recording against a pool, such as one on a
 * `SimulatedSource`.
 *
 * @param events The recording; what it leaves live is released at the end.
 * @param pool A fresh pool of any kind.
 * @throws {RangeError} When a release names an allocation that is not live.
 */
export function replay<B>(events: readonly ReplayEvent[], pool: Pool<B>): ReplayResult {
  const live = new Map<string, BufferHandle<B>>();
  let count = 0;
  const began = performance.now();
  for (const { action, nbytes, id, device = "" } of events) {
    if (action !== "alloc" && action !== "free") continue;
    count++;
    const key = `${device} ${id}`;
    if (action === "alloc") {
      const handle = pool.allocate(nbytes);
      // A pool that divides makes a sub-buffer at this first look.
      if (nbytes > 0) void handle.buffer;
      live.set(key, handle);
    } else {
      const handle = live.get(key);
      if (handle === undefined) {
        throw new RangeError(`Cannot replay: allocation ${key.trim()} is released but not live`);
      }
      handle.release();
      live.delete(key);
    }
  }
  const elapsed = performance.now() - began;
  for (const handle of live.values()) handle.release();
  const { peakRequestedBytes, peakReservedBytes, nativeAllocs, subBuffers } = pool.stats;
  return {
    events: count,
    peakRequestedBytes,
    peakReservedBytes,
    overhead: peakRequestedBytes === 0 ? 1 : peakReservedBytes / peakRequestedBytes,
    nativeAllocs,
    subBuffers,
    nanosecondsPerEvent: count === 0 ? 0 : elapsed * 1e6 / count,
  };
}
