/**
 * The timeline of one step: the user's spans, copies beside the kernels, and when the device has
 * no kernel to run.
 */
import { profiler } from "../../mod.ts";
import { COPIES, DEVICE, lastSlices, type Slice, SPANS } from "../../backend/profiling/trace.ts";

/** Pauses of a device below this are between any two kernels, in microseconds. */
const MIN_PAUSE_US = 30;

const WAIT = "wait for others";

/** Traces `run`; returns a line for each span, copy and run of kernels, by their begin. */
export async function timelineOf(run: () => Promise<void>): Promise<string[]> {
  {
    using _trace = profiler.trace();
    await run();
  }
  const slices = lastSlices().filter(({ tid }) => tid !== DEVICE);
  const kernels = lastSlices().filter(({ tid }) => tid === DEVICE).sort((a, b) => a.ts - b.ts);
  const named = slices.filter(({ tid }) => tid === SPANS || tid === COPIES);
  // Kernels that wait for other devices.
  const waits = kernels.filter(({ name }) => name === WAIT);
  return [...named, ...waits, ...runsOf(kernels.filter(({ name }) => name !== WAIT))].sort((a, b) =>
    a.ts - b.ts
  ).map(lineOf);
}

function lineOf({ name, ts, dur, args }: Slice): string {
  const at = (ts / 1000).toFixed(3).padStart(9), end = ((ts + dur) / 1000).toFixed(3).padStart(9);
  const bytes = args.bytes === undefined ? "" : `  ${args.bytes} bytes`;
  return `${at} to ${end} ms  ${name}${bytes}`;
}

/** Kernels one right after the other, as one slice. */
function runsOf(kernels: readonly Slice[]): Slice[] {
  const runs: { slice: Slice; end: number; count: number }[] = [];
  for (const slice of kernels) {
    const last = runs.at(-1), end = slice.ts + slice.dur;
    if (last && slice.ts - last.end < MIN_PAUSE_US) {
      last.end = Math.max(last.end, end);
      last.count++;
    } else runs.push({ slice, end, count: 1 });
  }
  return runs.map(({ slice, end, count }) => ({
    ...slice,
    name: `device: ${count} kernels`,
    dur: end - slice.ts,
    args: {},
  }));
}
