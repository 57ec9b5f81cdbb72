/**
 * What the program did on its devices: counters, and traces that Perfetto and chrome://tracing open.
 *
 * This folder (`profiling/`) imports `memory/` and `ffi/` only. The backends count and trace into it
 * while they launch; a user reads the counters or gets a file.
 */
import { registeredMemories } from "../../memory/mod.ts";
import { readCounts, resetCounts } from "./counters.ts";
import { startTrace } from "./trace.ts";

/** Counts since the last `profiler.reset()`, over all devices. */
export interface ProfilerCounters {
  /** Kernels launched. */
  readonly kernels: number;
  /** Bytes that kernels and transfers had to move. */
  readonly bytesMoved: number;
  /** Blocks of memory asked of the drivers. */
  readonly nativeAllocs: number;
  /** Programs compiled from source. */
  readonly programsBuilt: number;
  /** Programs taken from the disk cache. */
  readonly cacheHits: number;
}

let nativeBase = 0;

function nativeAllocs(): number {
  return registeredMemories().reduce((sum, memory) => sum + memory.stats.nativeAllocs, 0);
}

/**
 * Counters and traces.
 *
 * @example How many kernels a chain takes
 * ```ts
 * import { profiler, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const x = Tensor.ones([1000]).realize();
 * profiler.reset();
 * x.mul(2).add(1).relu().realize();
 * assertEquals(profiler.counters().kernels, 1);
 * ```
 */
export const profiler: {
  /** What was counted since the last reset. */
  counters(): ProfilerCounters;
  /** Starts again from zero. */
  reset(): void;
  /**
   * Records a trace until it is disposed, then writes it.
   *
   * @param path Where: a JSON file in the trace event format.
   */
  trace(path: string): Disposable;
} = {
  counters: () => ({ ...readCounts(), nativeAllocs: nativeAllocs() - nativeBase }),
  reset: () => {
    resetCounts();
    nativeBase = nativeAllocs();
  },
  trace: startTrace,
};
