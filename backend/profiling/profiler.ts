/**
 * Work of a program on its devices: counters, and traces for Perfetto and chrome://tracing.
 *
 * This folder (`profiling/`) imports `memory/` and `ffi/` only. The backends count and trace into it
 * while they launch; a user reads the counters or gets a file.
 */
import { type BuildObserver, watchBuilds } from "./builds.ts";
import { registeredMemories } from "../../memory/mod.ts";
import { readCounts, resetCounts } from "./counters.ts";
import { saveFileSync } from "../../ffi/host/atomic_file.ts";
import * as takes from "../../ffi/host/option_rules.ts";
import { checkOptions, requireValue } from "../../ffi/host/options.ts";
import { profilerPage } from "./report.ts";
import { type ProfilerRow, profilerRows, profilerTable } from "./table.ts";
import { activeTrace, startTrace } from "./trace.ts";

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
  /** Counters since the last reset. */
  counters(): ProfilerCounters;
  /** Starts again from zero. */
  reset(): void;
  /**
   * Records until it is disposed of: what the host enqueued, built and waited for, when devices ran it,
   * memory, and the user's spans. Kernels of a chain are enqueued one by one meanwhile.
   *
   * @param path Where a trace for ui.perfetto.dev or chrome://tracing is written: a JSON file in the
   * trace event format. Without one, only `table()` and `report()` tell of it.
   */
  trace(path?: string): Disposable;
  /**
   * Gives what happens until it is disposed of a name in the trace; nothing where none is recorded.
   *
   * @param name Such as "forward"; spans may lie in one another.
   *
   * @example
   * ```ts
   * import { profiler, Tensor } from "@netcl/netcl";
   * import { assert } from "@std/assert";
   *
   * {
   *   using _trace = profiler.trace();
   *   using _span = profiler.span("a product");
   *   Tensor.ones([64, 64]).matmul(Tensor.ones([64, 64])).realize();
   * }
   * assert(profiler.table().includes("a product"));
   * ```
   */
  span(name: string): Disposable;
  /**
   * Entries of the last trace, added up by name: calls, total, share, mean, least and most, and
   * the bandwidth; kernels first.
   *
   * @param options `limit`: the most rows of kernels, of host calls, of spans. Default: 30.
   */
  table(options?: { limit?: number }): string;
  /** The rows of {@linkcode profiler.table} as numbers; times in microseconds. */
  rows(): ProfilerRow[];
  /**
   * Tells `observer` how far the driver is with compiling kernels, whenever kernels are to be compiled
   * and when they are, until the result is disposed of. Kernels from the disk cache need no compiling,
   * and those of the built-in backend take a millisecond: neither is told of. The thread may stand
   * still while a driver compiles, so that a status line is best written in the call itself.
   *
   * @param observer Is called with the kernels that had to be compiled since now, and those of them
   * that are.
   *
   * @example A line for people who wait
   * ```ts
   * import { profiler, Tensor } from "@netcl/netcl";
   *
   * using _builds = profiler.onBuild(({ wanted, built }) => {
   *   console.error(`building kernels ${built}/${wanted}`);
   * });
   * await Tensor.rand([100]).exp().sum().item();
   * ```
   */
  onBuild(observer: BuildObserver): Disposable;
  /**
   * Writes the last trace as one HTML page that needs nothing else: a timeline and the table.
   *
   * @param path Where.
   */
  report(path: string): void;
} = {
  counters: () => ({ ...readCounts(), nativeAllocs: nativeAllocs() - nativeBase }),
  reset: () => {
    resetCounts();
    nativeBase = nativeAllocs();
  },
  trace: startTrace,
  span: (name) => {
    requireValue("name a span", "name", name, takes.text);
    const start = performance.now(), trace = activeTrace();
    return { [Symbol.dispose]: () => trace?.span(name, start) };
  },
  table: (options = {}) => {
    checkOptions("make a table", options, { limit: takes.count });
    return profilerTable(options.limit ?? 30);
  },
  rows: profilerRows,
  onBuild: (observer) => {
    requireValue("watch builds", "observer", observer, takes.callback);
    return watchBuilds(observer);
  },
  report: (path) => {
    requireValue("write a report", "path", path, takes.text);
    saveFileSync(path, profilerPage());
  },
};
