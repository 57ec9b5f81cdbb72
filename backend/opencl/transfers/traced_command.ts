/** Commands of a queue in a trace, and waits for them. */
import type { CommandQueue, Event, Kernel } from "../../../ffi/mod.ts";
import { activeTrace, type DeviceWork, type Trace } from "../../profiling/trace.ts";

/**
 * Notes a command in a trace: how long the host took to enqueue it, and, when the trace ends, its
 * times on the device.
 *
 * @param event The command's; passes to the trace.
 * @param queue The queue that runs it.
 * @param work What it does.
 */
export function traceCommand(
  trace: Trace,
  event: Event,
  queue: CommandQueue,
  work: Omit<DeviceWork, "times" | "device">,
): void {
  const times = (): { queued: number; start: number; end: number } | null => {
    using done = event;
    done.waitSync();
    const profile = queue.profiling ? done.profile : null;
    return profile && { queued: profile.queued, start: profile.started, end: profile.ended };
  };
  trace.host(`enqueue ${work.name}`, work.enqueuedAt);
  trace.device({ ...work, device: queue.device, times });
}

/** Enqueues a kernel, and notes how long that took the host and how long it takes the device. */
export function enqueueTraced(
  trace: Trace,
  queue: CommandQueue,
  { kernel, global, local }: {
    readonly kernel: Kernel;
    readonly global: BigUint64Array<ArrayBuffer>;
    readonly local: BigUint64Array<ArrayBuffer> | null;
  },
  { name, bytes }: { readonly name: string; readonly bytes: number },
): void {
  const enqueuedAt = performance.now();
  const event = queue.enqueueKernelEvent(kernel, global.length, global, local);
  traceCommand(trace, event, queue, { name, bytes, enqueuedAt });
}

/** Notes the time until it is disposed of as a wait for the device, where a trace is recorded. */
export function tracedWait(): Disposable | null {
  const trace = activeTrace();
  if (trace === null) return null;
  const start = performance.now();
  return { [Symbol.dispose]: () => trace.host("wait for the device", start) };
}
