/**
 * Traces in the trace event format (Google, "Trace Event Format"): what the host enqueued and, where
 * the driver tells it, when the device ran it. Times are microseconds.
 */
import { saveFileSync } from "../../ffi/host/atomic_file.ts";
import { runAll } from "../../ffi/host/run_all.ts";
import { requireValue } from "../../ffi/host/options.ts";
import * as takes from "../../ffi/host/option_rules.ts";
import { registeredMemories } from "../../memory/mod.ts";

/** The lanes of a trace. */
export const HOST = 1, DEVICE = 2, COPIES = 3, SPANS = 4;

/** One slice of a trace. */
export interface Slice {
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
  /** True when it copies bytes of the host, beside the kernels; it has a lane of its own then. */
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
  /** Notes what the user's program calls the time from `start` to now. */
  span(name: string, start: number): void;
  /** Notes a kernel that the host itself has run from `start` to now. */
  kernel(name: string, start: number, bytes: number): void;
  /** Notes work of a device; its times are asked for when the trace ends. */
  device(work: DeviceWork): void;
}

let active: Trace | null = null;

/** The trace that is being recorded, if one is. */
export const activeTrace = (): Trace | null => active;

let finished: readonly Slice[] = [];

/** The slices of the trace that ended last, in the order of their lanes' clocks. */
export const lastSlices = (): readonly Slice[] => finished;

/** Starts a trace; disposing of the result writes it to `path`, if there is one. */
export function startTrace(path?: string): Disposable {
  if (path !== undefined) requireValue("start a trace", "path", path, takes.text);
  if (active) {
    throw new Error("Cannot start a trace while another is recorded: dispose of that first");
  }
  return active = new TraceFile(path);
}

class TraceFile implements Trace, Disposable {
  readonly #path: string | undefined;
  readonly #origin = performance.now();
  readonly #slices: Slice[] = [];
  readonly #others: object[] = [];
  readonly #pending: DeviceWork[] = [];

  constructor(path: string | undefined) {
    this.#path = path;
  }

  host(name: string, start: number, args: Slice["args"] = {}): void {
    const duration = (performance.now() - start) * 1000;
    this.#add(HOST, name, (start - this.#origin) * 1000, duration, args);
  }

  span(name: string, start: number): void {
    this.#add(SPANS, name, (start - this.#origin) * 1000, (performance.now() - start) * 1000, {});
  }

  kernel(name: string, start: number, bytes: number): void {
    const duration = (performance.now() - start) * 1000;
    this.#add(DEVICE, name, (start - this.#origin) * 1000, duration, rateOf(bytes, duration));
    this.#countMemory();
  }

  device(work: DeviceWork): void {
    this.#pending.push(work);
    this.#countMemory();
  }

  /** Counts bytes allocated on all devices now, as a track of its own. */
  #countMemory(): void {
    const ts = (performance.now() - this.#origin) * 1000;
    const bytes = registeredMemories().reduce((sum, { stats }) => sum + stats.currentAllocated, 0);
    this.#others.push({ name: "memory", ph: "C", pid: 1, ts, args: { "allocated bytes": bytes } });
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
   * A command is queued a little after the host's clock was read. The smallest of these delays is
   * taken for zero: that aligns the device's clock with the host's, for all queues of the device.
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
    const { name, bytes, enqueuedAt, isCopy = false } = work;
    const duration = (end - start) / 1000, ts = start / 1000 + shift;
    const tid = isCopy ? COPIES : DEVICE, id = this.#others.length;
    this.#add(tid, name, ts, duration, rateOf(bytes, duration));
    // An arrow from the call to what it made the device do.
    const arrow = { name: "enqueued", cat: "enqueue", pid: 1, id };
    const call = (enqueuedAt - this.#origin) * 1000;
    this.#others.push({ ...arrow, ph: "s", tid: HOST, ts: call });
    this.#others.push({ ...arrow, ph: "f", bp: "e", tid, ts });
  }

  #add(tid: number, name: string, ts: number, dur: number, args: Slice["args"]): void {
    this.#slices.push({ name, ph: "X", pid: 1, tid, ts, dur: Math.max(dur, 0.01), args });
  }

  #write(): void {
    finished = this.#slices;
    if (this.#path === undefined) return;
    const traceEvents = [...names(), ...this.#slices, ...this.#others];
    saveFileSync(this.#path, JSON.stringify({ traceEvents }));
  }
}

function rateOf(bytes: number, microseconds: number): Slice["args"] {
  const rate = microseconds > 0 ? bytes / microseconds / 1000 : 0;
  return { bytes, "GB/s": Math.round(rate * 10) / 10 };
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
    lane(COPIES, "copies beside the kernels"),
    lane(SPANS, "spans"),
  ];
}
