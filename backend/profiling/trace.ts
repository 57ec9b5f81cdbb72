/**
 * Traces in the trace event format (Google, "Trace Event Format"): what the host enqueued and, where
 * the driver tells it, when the device ran it. Times are microseconds.
 */
import { saveFileSync } from "../../ffi/host/atomic_file.ts";
import { runAll } from "../../ffi/host/run_all.ts";
import { requireValue } from "../../ffi/host/options.ts";
import * as takes from "../../ffi/host/option_rules.ts";

/** The lanes of a trace. */
const HOST = 1, DEVICE = 2, COPIES = 3;

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

/** A command whose times on the device are known once its event is complete. */
export interface DeviceWork {
  readonly name: string;
  /** Whether it copies bytes of the host, beside the kernels; it has a lane of its own then. */
  readonly isCopy?: boolean;
  readonly bytes: number;
  /** The device whose clock `times` are of. */
  readonly device: object;
  /** The host's clock when it was enqueued, in milliseconds. */
  readonly enqueuedAt: number;
  /** Queued, start and end by the device's clock, in nanoseconds; waits for the end. */
  times(): { queued: number; start: number; end: number } | null;
}

/** A command and its times. */
interface Timed {
  readonly work: DeviceWork;
  readonly times: { readonly queued: number; readonly start: number; readonly end: number };
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
  requireValue("start a trace", "path", path, takes.text);
  if (active) {
    throw new Error("Cannot start a trace while another is recorded: dispose of that first");
  }
  return active = new TraceFile(path);
}

class TraceFile implements Trace, Disposable {
  readonly #path: string;
  readonly #origin = performance.now();
  readonly #slices: Slice[] = [];
  readonly #pending: DeviceWork[] = [];

  constructor(path: string) {
    this.#path = path;
  }

  host(name: string, start: number, args: Slice["args"] = {}): void {
    const duration = (performance.now() - start) * 1000;
    this.#add(HOST, name, (start - this.#origin) * 1000, duration, args);
  }

  device(work: DeviceWork): void {
    this.#pending.push(work);
  }

  /** Work of a device that failed has no times: the rest is written all the same. */
  [Symbol.dispose](): void {
    if (active !== this) return;
    active = null;
    const done: Timed[] = [];
    runAll([
      ...this.#pending.map((work) => () => {
        const times = work.times();
        if (times) done.push({ work, times });
      }),
      () => this.#placeAll(done),
      () => this.#write(),
    ]);
  }

  /**
   * A command is queued a little after the host's clock was read. The least of these delays is about
   * none, and sets a device's clock to the host's, for all its queues alike.
   */
  #placeAll(done: readonly Timed[]): void {
    const shifts = new Map<object, number>();
    for (const { work: { device, enqueuedAt }, times: { queued } } of done) {
      const shift = (enqueuedAt - this.#origin) * 1000 - queued / 1000;
      shifts.set(device, Math.max(shift, shifts.get(device) ?? -Infinity));
    }
    for (const timed of done) this.#place(timed, shifts.get(timed.work.device)!);
  }

  #place({ work, times: { start, end } }: Timed, shift: number): void {
    const { name, bytes, isCopy = false } = work;
    const duration = (end - start) / 1000;
    const rate = duration > 0 ? bytes / duration / 1000 : 0;
    const args = { bytes, "GB/s": Math.round(rate * 10) / 10 };
    this.#add(isCopy ? COPIES : DEVICE, name, start / 1000 + shift, duration, args);
  }

  #add(tid: number, name: string, ts: number, dur: number, args: Slice["args"]): void {
    this.#slices.push({ name, ph: "X", pid: 1, tid, ts, dur: Math.max(dur, 0.01), args });
  }

  #write(): void {
    const traceEvents = [...names(), ...this.#slices];
    saveFileSync(this.#path, JSON.stringify({ traceEvents }));
  }
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
    lane(HOST, "host"),
    lane(DEVICE, "device"),
    lane(COPIES, "copies to the device"),
  ];
}
