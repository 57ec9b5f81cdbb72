/** The lines of a recording. */
import { type Frame, placeOf } from "../core/call_stack.ts";

/** An event of a device's memory. */
export type MemoryAction = "alloc" | "free" | "segment_alloc" | "segment_free" | "oom";

/** One line of a recording. */
export interface MemoryEvent {
  /** Milliseconds since the recording began; 0 for what was there already. */
  readonly time: number;
  /** The kind of event. */
  readonly action: MemoryAction;
  /** The device. */
  readonly device: string;
  /** Bytes: those that were asked for, or those of the segment. */
  readonly nbytes: number;
  /** The allocation; its `alloc` and its `free` have the same. */
  readonly id?: number;
  /** The same bytes after rounding. */
  readonly bucketSize?: number;
  /** The segment that it lies in. */
  readonly segment?: number;
  /** The offset there. */
  readonly offset?: number;
  /**
   * The queue that the block was allocated for, by number: the same number is the same queue, also in
   * recordings of other devices. Absent for segments, and in memory of the host.
   */
  readonly queue?: number;
  /** Of a `free`: the other queues that the block waits for, as `recordQueue` said. */
  readonly users?: readonly number[];
  /** Its purpose. */
  readonly label?: string;
  /** The user's calls that led to it, innermost first, where the recording takes stacks. */
  readonly frames?: readonly Frame[];
}

/** The origin of an allocation: its label and the user's line, as far as they are known. */
export function originOf(event: Pick<MemoryEvent, "label" | "frames">): string {
  const place = event.frames?.[0] ? placeOf(event.frames[0]) : undefined;
  if (event.label && place) return `${event.label} at ${place}`;
  return event.label ?? place ?? "unlabelled";
}
