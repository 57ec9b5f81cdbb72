import { formatBytes } from "../core/bytes.ts";
import { type MemorySource, NoMemoryError } from "./source.ts";
import { checkOptions, requireValue, type Rules } from "../../ffi/host/options.ts";
import * as takes from "../../ffi/host/option_rules.ts";

/** A piece of a simulated device's memory: an address range with nothing behind it. */
export class SimulatedBuffer {
  /** Its offset. */
  readonly address: number;
  /** Its bytes. */
  readonly nbytes: number;
  /** True when it was destroyed. */
  released = false;

  /**
   * Sources make buffers.
   *
   * @param address Where it begins.
   * @param nbytes Its bytes.
   */
  constructor(address: number, nbytes: number) {
    this.address = address;
    this.nbytes = nbytes;
  }
}

/** Options of a simulated device. */
export interface SimulatedSourceOptions {
  /** Bytes of the device. Default: unlimited. */
  readonly totalBytes?: number;
  /** The alignment of parts of a piece. Default: 128. */
  readonly alignment?: number;
  /** The most that one piece may have. Default: all. */
  readonly maxAllocationBytes?: number;
  /** True when parts of a piece may overlap. Default: true. */
  readonly subBuffersMayOverlap?: boolean;
}

const rules: Rules<SimulatedSourceOptions> = {
  totalBytes: takes.byteLimit,
  alignment: takes.count,
  maxAllocationBytes: takes.byteLimit,
  subBuffersMayOverlap: takes.bool,
};

/**
 * A device that only counts: for replaying traces, and for tests that need a device to run out of
 * memory (PoCL aborts the process instead, and a GPU takes its time).
 */
export class SimulatedSource implements MemorySource<SimulatedBuffer> {
  /** Its name in errors. */
  readonly name = "simulated device";
  /** The alignment of parts of a piece. */
  readonly alignment: number;
  /** The most that one piece may have. */
  readonly maxAllocationBytes: number;
  /** True when parts of a piece may overlap. */
  readonly subBuffersMayOverlap: boolean;
  /** Nothing stands for zero bytes. */
  readonly empty = null;
  /** Bytes of the device; may be changed at any time. */
  totalBytes: number;
  /** Bytes that are given out. */
  usedBytes = 0;
  /** Pieces that are given out, parts of them included. */
  liveBuffers = 0;
  #failures = new Map<number, unknown>();
  #created = 0;
  #nextAddress = 0;

  /**
   * Makes a device whose memory is all free.
   *
   * @param options The device.
   */
  constructor(options: SimulatedSourceOptions = {}) {
    checkOptions("make a SimulatedSource", options, rules);
    this.totalBytes = options.totalBytes ?? Infinity;
    this.alignment = options.alignment ?? 128;
    this.subBuffersMayOverlap = options.subBuffersMayOverlap ?? true;
    this.maxAllocationBytes = options.maxAllocationBytes ?? Number.MAX_SAFE_INTEGER;
  }

  /**
   * Lets the `nth` next creation fail.
   *
   * @param nth 1 is the next one.
   * @param error What it throws. Default: that the device is out of memory.
   */
  failCreation(nth = 1, error: unknown = new NoMemoryError("An injected failure")): void {
    requireValue("let an allocation fail", "nth", nth, takes.count);
    this.#failures.set(this.#created + nth, error);
  }

  /** Takes a range of the device's memory. */
  create(nbytes: number): SimulatedBuffer {
    const failure = this.#failures.get(++this.#created);
    if (failure !== undefined) throw failure;
    if (this.usedBytes + nbytes > this.totalBytes) {
      const left = formatBytes(this.totalBytes - this.usedBytes);
      throw new NoMemoryError(`The device has ${left} left, ${formatBytes(nbytes)} are needed`);
    }
    this.usedBytes += nbytes;
    this.liveBuffers++;
    const address = this.#nextAddress;
    this.#nextAddress += nbytes;
    return new SimulatedBuffer(address, nbytes);
  }

  /** Part of a range; its offset must be aligned, as on a real device. */
  createSubBuffer(parent: SimulatedBuffer, offset: number, nbytes: number): SimulatedBuffer {
    if (offset % this.alignment !== 0) {
      throw new RangeError(
        `Cannot make a sub-buffer at ${offset}: multiples of ${this.alignment} are allowed`,
      );
    }
    if (offset + nbytes > parent.nbytes) {
      throw new RangeError(
        `Cannot make a sub-buffer of ${nbytes} bytes at ${offset} of ${parent.nbytes}`,
      );
    }
    this.liveBuffers++;
    return new SimulatedSubBuffer(parent.address + offset, nbytes);
  }

  /** Gives a range back; a second time is an error. */
  destroy(buffer: SimulatedBuffer): void {
    if (buffer.released) throw new RangeError("The buffer was destroyed already");
    buffer.released = true;
    this.liveBuffers--;
    if (!(buffer instanceof SimulatedSubBuffer)) this.usedBytes -= buffer.nbytes;
  }
}

class SimulatedSubBuffer extends SimulatedBuffer {}
