import type { LiveAllocation } from "../core/errors.ts";
import { largestByOrigin } from "../core/live_allocations.ts";
import { type MemoryEvent, originOf } from "./memory_event.ts";

/** A block of the timeline that is drawn by itself. */
export interface DrawnBlock {
  readonly origin: string;
  readonly nbytes: number;
  readonly bucketSize: number;
  /** Milliseconds of the recording. */
  readonly from: number;
  /** Milliseconds of the recording; `null` when it was live at the end. */
  until: number | null;
  /** Its place: from each column on, that many bytes are below it. */
  readonly steps: [column: number, below: number][];
  /** The column in which it ends. */
  end: number;
}

/** Blocks that lived at the peak. */
export interface Peak {
  /** Requested bytes. */
  readonly nbytes: number;
  readonly column: number;
  /** Milliseconds of the recording. */
  readonly time: number;
  /** By origin, largest first. */
  readonly origins: readonly LiveAllocation[];
}

/**
 * A recording, laid out in columns: a column is some events, not some time, as most time is idle.
 */
export interface Timeline {
  readonly columns: number;
  /** Milliseconds of the recording at which each column begins. */
  readonly times: readonly number[];
  /** The blocks that are drawn by themselves, in the order of their allocation. */
  readonly blocks: readonly DrawnBlock[];
  /** Bytes of the blocks that are drawn by themselves, by column. */
  readonly drawn: readonly number[];
  /** Bytes of all others, by column; they lie on top. */
  readonly others: readonly number[];
  /** Bytes held from the driver, by column. */
  readonly reserved: readonly number[];
  readonly peak: Peak;
}

interface Lifetime {
  readonly event: MemoryEvent;
  /** Indices of the events that begin and end it. */
  readonly first: number;
  last: number;
}

/**
 * Lays a recording out.
 *
 * @param events Of one device.
 * @param columns The most columns.
 * @param mostBlocks The most blocks to draw one by one; the others are summed up.
 */
export function layOut(
  events: readonly MemoryEvent[],
  columns = 2200,
  mostBlocks = 500,
): Timeline {
  const width = Math.max(1, Math.min(columns, events.length));
  const columnOf = (index: number) => Math.floor(index * width / Math.max(1, events.length));
  const chosen = chooseBlocks(lifetimesOf(events), mostBlocks);
  const times = new Array<number>(width).fill(0);
  const drawnBytes = new Array<number>(width).fill(0);
  const others = new Array<number>(width).fill(0);
  const reserved = new Array<number>(width).fill(0);
  const stack: DrawnBlock[] = [];
  const blocks: DrawnBlock[] = [];
  const drawn = new Map<number, DrawnBlock>();
  let [inDrawn, inOthers, held] = [0, 0, 0];
  events.forEach((event, index) => {
    const column = columnOf(index);
    if (event.action === "segment_alloc") held += event.nbytes;
    if (event.action === "segment_free") held -= event.nbytes;
    if (event.action === "alloc" && chosen.has(event.id!)) {
      const block = startBlock(event, column, inDrawn);
      stack.push(block);
      blocks.push(block);
      drawn.set(event.id!, block);
      inDrawn += event.nbytes;
    } else if (event.action === "alloc") inOthers += event.nbytes;
    else if (event.action === "free" && drawn.has(event.id!)) {
      removeBlock(stack, drawn.get(event.id!)!, column, event.time);
      inDrawn -= event.nbytes;
    } else if (event.action === "free") inOthers -= event.nbytes;
    if (columnOf(index - 1) !== column || index === 0) times[column] = event.time;
    drawnBytes[column] = inDrawn;
    others[column] = Math.max(others[column]!, inOthers);
    reserved[column] = Math.max(reserved[column]!, held);
  });
  for (const block of stack) block.end = width;
  const peak = findPeak(events, columnOf);
  return { columns: width, times, blocks, drawn: drawnBytes, others, reserved, peak };
}

function lifetimesOf(events: readonly MemoryEvent[]): Lifetime[] {
  const lifetimes = new Map<number, Lifetime>();
  events.forEach((event, index) => {
    if (event.action === "alloc") {
      lifetimes.set(event.id!, { event, first: index, last: events.length });
    } else if (event.action === "free") lifetimes.get(event.id!)!.last = index;
  });
  return [...lifetimes.values()];
}

/** Those that cover the largest area. */
function chooseBlocks(lifetimes: Lifetime[], most: number): Set<number> {
  const area = ({ event, first, last }: Lifetime) => event.nbytes * (last - first);
  const largest = lifetimes.toSorted((a, b) => area(b) - area(a)).slice(0, most);
  return new Set(largest.map(({ event }) => event.id!));
}

function startBlock(event: MemoryEvent, column: number, below: number): DrawnBlock {
  return {
    origin: originOf(event),
    nbytes: event.nbytes,
    bucketSize: event.bucketSize ?? event.nbytes,
    from: event.time,
    until: null,
    steps: [[column, below]],
    end: column,
  };
}

/** Takes a block out of the stack; those above it come down. */
function removeBlock(stack: DrawnBlock[], block: DrawnBlock, column: number, time: number): void {
  const at = stack.lastIndexOf(block);
  stack.splice(at, 1);
  block.end = column;
  block.until = time;
  for (const above of stack.slice(at)) {
    const last = above.steps.at(-1)!;
    const below = last[1] - block.nbytes;
    if (last[0] === column) last[1] = below;
    else above.steps.push([column, below]);
  }
}

function findPeak(events: readonly MemoryEvent[], columnOf: (index: number) => number): Peak {
  let [live, most, at] = [0, 0, -1];
  events.forEach(({ action, nbytes }, index) => {
    if (action === "alloc") live += nbytes;
    if (action === "free") live -= nbytes;
    if (live > most) [most, at] = [live, index];
  });
  const living = new Map<number, MemoryEvent>();
  for (const event of events.slice(0, at + 1)) {
    if (event.action === "alloc") living.set(event.id!, event);
    if (event.action === "free") living.delete(event.id!);
  }
  return {
    nbytes: most,
    column: at < 0 ? 0 : columnOf(at),
    time: events[at]?.time ?? 0,
    origins: largestByOrigin(living.values(), originOf, Infinity),
  };
}
