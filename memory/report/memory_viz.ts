import type { Frame } from "../core/call_stack.ts";
import type { MemoryEvent } from "./memory_event.ts";

// The format of torch.cuda.memory._snapshot(), which PyTorch's viewer reads as a pickle or as JSON.
// Source: torch/utils/viz/MemoryViz.js and the documentation of torch.cuda.memory.

/** One event of a device's trace. */
interface Trace {
  action: "alloc" | "free_requested" | "free_completed" | "segment_alloc" | "segment_free" | "oom";
  addr: number;
  size: number;
  stream: number;
  time_us: number;
  device_free?: number;
  frames: readonly Frame[];
}

interface Block {
  address: number;
  size: number;
  requested_size: number;
  state: "active_allocated" | "inactive";
  frames: readonly Frame[];
}

/** A snapshot as PyTorch's memory viewer reads it. */
export interface MemoryVizSnapshot {
  /** Blocks held at the end. */
  segments: {
    device: number;
    address: number;
    total_size: number;
    stream: number;
    segment_type: string;
    segment_pool_id: [number, number];
    allocated_size: number;
    active_size: number;
    requested_size: number;
    is_expandable: boolean;
    frames: readonly Frame[];
    blocks: Block[];
  }[];
  /** Events on each device. */
  device_traces: Trace[][];
  /** Shown as they are. */
  allocator_settings: Record<string, unknown>;
}

// Segments have no addresses in OpenCL: each gets a range of its own, with room before the next.
const FIRST_ADDRESS = 2 ** 32;
const ADDRESS_GAP = 2 ** 21;

/** State of one segment while the events are read. */
interface OpenSegment {
  readonly address: number;
  readonly size: number;
  readonly blocks: Map<number, MemoryEvent>;
}

/** Turns a recording into the snapshot that PyTorch's memory viewer reads. */
export function toMemoryViz(events: readonly MemoryEvent[]): MemoryVizSnapshot {
  const devices = [...new Set(events.map((event) => event.device))];
  const traces = devices.map((device) =>
    traceDevice(events.filter((event) => event.device === device))
  );
  return {
    segments: traces.flatMap(({ open }, device) =>
      [...open.values()].map((segment) => describeSegment(device, segment))
    ),
    device_traces: traces.map(({ trace }) => trace),
    allocator_settings: { library: "netcl", devices },
  };
}

function traceDevice(
  events: readonly MemoryEvent[],
): { trace: Trace[]; open: Map<number, OpenSegment> } {
  const open = new Map<number, OpenSegment>();
  const trace: Trace[] = [];
  let nextAddress = FIRST_ADDRESS;
  for (const event of events) {
    const { action, nbytes, segment = -1, offset = 0 } = event;
    const add = (
      action: Trace["action"],
      addr: number,
      size: number,
      frames = event.frames ?? [],
    ) =>
      trace.push({
        ...{ action, addr, size, stream: event.queue ?? 0, frames },
        time_us: Math.round(event.time * 1000),
      });
    if (action === "segment_alloc") {
      const address = nextAddress;
      nextAddress += Math.ceil(nbytes / ADDRESS_GAP) * ADDRESS_GAP + ADDRESS_GAP;
      open.set(segment, { address, size: nbytes, blocks: new Map() });
      add(action, address, nbytes);
      continue;
    }
    const place = open.get(segment);
    if (action === "oom") {
      add("oom", 0, nbytes);
      trace.at(-1)!.device_free = 0;
    } else if (place === undefined) {
      continue; // an allocation of no bytes lies nowhere
    } else if (action === "segment_free") {
      add(action, place.address, nbytes);
      open.delete(segment);
    } else if (action === "alloc") {
      place.blocks.set(offset, event);
      add("alloc", place.address + offset, nbytes, labelled(event));
    } else {
      place.blocks.delete(offset);
      add("free_requested", place.address + offset, nbytes);
      add("free_completed", place.address + offset, nbytes);
    }
  }
  return { trace, open };
}

/** The label as the innermost frame, since the viewer shows frames only. */
function labelled({ label, frames = [] }: MemoryEvent): readonly Frame[] {
  return label === undefined ? frames : [{ name: label, filename: "netcl", line: 0 }, ...frames];
}

function describeSegment(
  device: number,
  { address, size, blocks }: OpenSegment,
): MemoryVizSnapshot["segments"][number] {
  const live = [...blocks.values()].sort((a, b) => a.offset! - b.offset!);
  const sum = (of: (event: MemoryEvent) => number) => live.reduce((total, e) => total + of(e), 0);
  return {
    device,
    address,
    total_size: size,
    stream: 0,
    segment_type: "large",
    segment_pool_id: [0, 0],
    allocated_size: sum((event) => event.bucketSize!),
    active_size: sum((event) => event.bucketSize!),
    requested_size: sum((event) => event.nbytes),
    is_expandable: false,
    frames: [],
    blocks: fillGaps(address, size, live),
  };
}

/** The live blocks with the free ones between them: the viewer takes sizes for positions. */
function fillGaps(address: number, size: number, live: readonly MemoryEvent[]): Block[] {
  const blocks: Block[] = [];
  let end = 0;
  const addFree = (until: number) => {
    if (until === end) return;
    const gap = until - end;
    blocks.push({
      address: address + end,
      size: gap,
      requested_size: gap,
      state: "inactive",
      frames: [],
    });
  };
  for (const event of live) {
    addFree(event.offset!);
    blocks.push({
      address: address + event.offset!,
      size: event.bucketSize!,
      requested_size: event.nbytes,
      state: "active_allocated",
      frames: labelled(event),
    });
    end = event.offset! + event.bucketSize!;
  }
  addFree(size);
  return blocks;
}
