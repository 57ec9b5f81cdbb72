/** Commands of a queue in a trace. */
import type { CommandQueue, Event } from "../../../ffi/mod.ts";
import type { DeviceWork, Trace } from "../../profiling/trace.ts";

/**
 * Notes a command in a trace, which asks for its times when it ends.
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
  trace.device({ ...work, device: queue.device, times });
}
