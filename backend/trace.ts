/**
 * Traces in the trace event format (Google, "Trace Event Format"): what the host enqueued and, where
 * the driver tells it, when the device ran it. Times are microseconds.
 */

/** One slice of a trace. */
interface Slice {
  readonly name: string;
  readonly ph: "X";
  readonly pid: number;
  readonly tid: number;
  readonly ts: number;
  readonly dur: number;
  readonly args: Readonly<Record<string, number | string>>;
}

/** A launch whose times on the device are known once its event is complete. */
export interface DeviceWork {
  readonly name: string;
  readonly bytes: number;
  /** The host's clock when it was enqueued, in milliseconds. */
  readonly enqueuedAt: number;
  /** Queued, start and end by the device's clock, in nanoseconds; waits for the end. */
  times(): { queued: number; start: number; end: number } | null;
}

/** A trace that is being recorded. */
export interface Trace {
  /** Notes what the host did from `start` to now (milliseconds of `performance.now()`). */
  host(name: string, start: number, args?: Record<string, number | string>): void;
  /** Notes work of a device; its times are asked for when the trace ends. */
  device(work: DeviceWork): void;
}

let active: Trace | null = null;

/** The trace that is being recorded, if one is. */
export function activeTrace(): Trace | null {
  return active;
}

/** Starts a trace; disposing of the result writes it to `path`. */
export function startTrace(path: string): Disposable {
  if (active) {
    throw new Error("Cannot start a trace while another is recorded: dispose of that first");
  }
  const slices: Slice[] = [], pending: DeviceWork[] = [];
  const origin = performance.now();
  const slice = (tid: number, name: string, ts: number, dur: number, args: Slice["args"]): void => {
    slices.push({ name, ph: "X", pid: 1, tid, ts, dur: Math.max(dur, 0.01), args });
  };
  active = {
    host: (name, start, args = {}) => {
      slice(1, name, (start - origin) * 1000, (performance.now() - start) * 1000, args);
    },
    device: (work) => pending.push(work),
  };
  let isOpen = true;
  return {
    [Symbol.dispose]: () => {
      if (!isOpen) return;
      isOpen = false;
      active = null;
      for (const work of pending) {
        const times = work.times();
        if (!times) continue;
        // The device's clock is set to the host's where the launch was queued.
        const shift = (work.enqueuedAt - origin) * 1000 - times.queued / 1000;
        const duration = (times.end - times.start) / 1000;
        const rate = duration > 0 ? work.bytes / duration / 1000 : 0;
        slice(2, work.name, times.start / 1000 + shift, duration, {
          bytes: work.bytes,
          "GB/s": Math.round(rate * 10) / 10,
        });
      }
      Deno.writeTextFileSync(path, JSON.stringify({ traceEvents: [...names(), ...slices] }));
    },
  };
}

function names(): object[] {
  const lane = (tid: number, name: string) => ({
    name: "thread_name",
    ph: "M",
    pid: 1,
    tid,
    args: { name },
  });
  return [
    { name: "process_name", ph: "M", pid: 1, args: { name: "netcl" } },
    lane(1, "host"),
    lane(2, "device"),
  ];
}
