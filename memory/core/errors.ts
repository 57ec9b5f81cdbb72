import { formatBytes } from "./bytes.ts";

/** One step that was tried before an allocation was given up. */
export interface RetryRecord {
  /** The step, for example "cached segments". */
  readonly name: string;
  /** Bytes that became free by it. */
  readonly freedBytes: number;
}

/** Live allocations of one origin, added up. */
export interface LiveAllocation {
  /** The label, or the place where they were made where that was recorded. */
  readonly origin: string;
  /** Their number. */
  readonly count: number;
  /** Their bytes in all. */
  readonly nbytes: number;
}

/** The figures of an {@linkcode OutOfMemoryError}. */
export interface OutOfMemoryDetails {
  /** Bytes that were asked for. */
  readonly requestedBytes: number;
  /** Bytes that are free in the pool, in whatever pieces. */
  readonly freeBytes: number;
  /** The largest piece of them. */
  readonly largestFreeBytes: number;
  /** Bytes held from the driver. */
  readonly reservedBytes: number;
  /** The most that may be held; `Infinity` when only the driver limits it. */
  readonly limitBytes: number;
  /** The largest block that the device makes in one piece; `Infinity` when nothing limits it. */
  readonly maxAllocationBytes: number;
  /** The steps that were tried, in order. */
  readonly rungs: readonly RetryRecord[];
  /** The device, or what else the pool draws from. */
  readonly deviceName: string;
  /** The largest live allocations, added up by where they were made. */
  readonly liveAllocations: readonly LiveAllocation[];
  /** The driver's error, where it was the driver that refused. */
  readonly cause?: unknown;
}

/**
 * Free bytes that a request of the size of the largest free piece cannot use: 0 is none, 1 is all.
 */
export function fragmentation(freeBytes: number, largestFreeBytes: number): number {
  return freeBytes === 0 ? 0 : 1 - largestFreeBytes / freeBytes;
}

function explain(d: OutOfMemoryDetails): string {
  const inUse = d.reservedBytes - d.freeBytes;
  const limit = Number.isFinite(d.limitBytes)
    ? `the limit is ${formatBytes(d.limitBytes)}`
    : "no limit is set, the driver refused";
  const lines = [
    `Cannot allocate ${formatBytes(d.requestedBytes)} on ${d.deviceName}: ` +
    `${formatBytes(inUse)} are in use and ${limit}`,
    `  reserved ${formatBytes(d.reservedBytes)}, free in it ${formatBytes(d.freeBytes)}, ` +
    `largest free block ${formatBytes(d.largestFreeBytes)} ` +
    `(${(100 * fragmentation(d.freeBytes, d.largestFreeBytes)).toFixed(0)} % fragmented)`,
  ];
  if (isTooLargeForOne(d)) {
    const largest = formatBytes(d.maxAllocationBytes);
    lines.push(`  the device makes ${largest} at most in one piece (MAX_MEM_ALLOC_SIZE)`);
  }
  if (d.rungs.length > 0) {
    const tried = d.rungs.map((r) => `${r.name} (${formatBytes(r.freedBytes)})`);
    lines.push(`  tried: ${tried.join(", ")}`);
  }
  for (const { origin, count, nbytes } of d.liveAllocations) {
    lines.push(`  live: ${formatBytes(nbytes)} in ${count} of ${origin}`);
  }
  lines.push(`  remedy: ${remedy(d)}`);
  return lines.join("\n");
}

/** True when one block would be larger than the device makes, however much memory is free. */
function isTooLargeForOne(d: OutOfMemoryDetails): boolean {
  return d.requestedBytes > d.maxAllocationBytes;
}

function remedy(d: OutOfMemoryDetails): string {
  if (isTooLargeForOne(d)) {
    return 'compute the tensor in parts that fit, or take another device, such as "cpu": neither ' +
      "free memory nor memory.setLimit() changes what the device makes in one piece";
  }
  if (d.requestedBytes > d.limitBytes) {
    return "the request alone is over the limit: split it, or raise the limit with memory.setLimit()";
  }
  return "dispose() tensors that are no longer needed (`using` does it by itself), take smaller " +
    "batches, or raise the limit with memory.setLimit(); let a loop await now and then, since the " +
    "collector finds forgotten tensors only then; memory.report() shows who holds what";
}

/**
 * No memory could be found, whatever was tried. The figures are numbers and texts only: the error
 * keeps no tensor and no buffer alive, and all that lived before it is intact.
 */
export class OutOfMemoryError extends Error implements OutOfMemoryDetails {
  /** The class's name. */
  override readonly name = "OutOfMemoryError";
  /** All the figures. */
  readonly details: OutOfMemoryDetails;

  /**
   * Makes the message of the figures.
   *
   * @param details The figures; the message is made of them.
   */
  constructor(details: OutOfMemoryDetails) {
    super(explain(details), details.cause === undefined ? undefined : { cause: details.cause });
    this.details = details;
  }

  /** Bytes that were asked for. */
  get requestedBytes(): number {
    return this.details.requestedBytes;
  }

  /** Bytes that are free in the pool, in whatever pieces. */
  get freeBytes(): number {
    return this.details.freeBytes;
  }

  /** The largest piece of them. */
  get largestFreeBytes(): number {
    return this.details.largestFreeBytes;
  }

  /** Bytes held from the driver. */
  get reservedBytes(): number {
    return this.details.reservedBytes;
  }

  /** The most that may be held; `Infinity` when only the driver limits it. */
  get limitBytes(): number {
    return this.details.limitBytes;
  }

  /** The largest block that the device makes in one piece; `Infinity` when nothing limits it. */
  get maxAllocationBytes(): number {
    return this.details.maxAllocationBytes;
  }

  /** The steps that were tried, in order. */
  get rungs(): readonly RetryRecord[] {
    return this.details.rungs;
  }

  /** The device, or what else the pool draws from. */
  get deviceName(): string {
    return this.details.deviceName;
  }

  /** The largest live allocations, added up by where they were made. */
  get liveAllocations(): readonly LiveAllocation[] {
    return this.details.liveAllocations;
  }

  /** Free bytes that are in pieces smaller than the largest: 0 is none, towards 1 is nearly all. */
  get fragmentation(): number {
    return fragmentation(this.freeBytes, this.largestFreeBytes);
  }
}
