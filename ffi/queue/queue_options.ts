/**
 * Options of the methods of a queue.
 *
 * @module
 */
import type { Event } from "../events/event.ts";
import type { KernelArg } from "../kernels/kernel.ts";
import type { RectLayout, Triple } from "../memory/rect.ts";
import { type CopyOptions, copyRules } from "../events/copy_options.ts";
import * as takes from "../host/option_rules.ts";
import type { Rules } from "../host/options.ts";
import { checkRange } from "../host/size.ts";

/** Options of a new queue. */
export interface QueueOptions {
  /** True when events carry time stamps; false by default. */
  readonly profiling?: boolean;
  /**
   * True when commands may overtake each other; order then comes from wait lists and barriers only.
   * False by default.
   */
  readonly outOfOrder?: boolean;
}

/** Options of a transfer between a buffer and an array. */
export interface TransferOptions extends CopyOptions {
  /** The offset in the buffer, in bytes; 0 by default. */
  readonly offset?: number;
}

/** The bytes that a copy between buffers moves. */
export interface BufferCopyOptions {
  /** The offset in the source, in bytes; 0 by default. */
  readonly sourceOffset?: number;
  /** The offset in the destination, in bytes; 0 by default. */
  readonly destinationOffset?: number;
  /** Their number; by default the rest of the source. */
  readonly nbytes?: number;
  /** Events to wait for. */
  readonly wait?: readonly Event[];
}

/** Options of a box of bytes that moves between a buffer and an array. */
export interface RectOptions extends CopyOptions {
  /** The box: width in bytes, height in rows, depth in slices. */
  readonly region: Triple;
  /** Its place in the buffer. */
  readonly buffer?: RectLayout;
  /** Its place in the array. */
  readonly host?: RectLayout;
}

/** Options of a box of bytes that moves between buffers. */
export interface RectCopyOptions {
  /** The box: width in bytes, height in rows, depth in slices. */
  readonly region: Triple;
  /** Its place in the source. */
  readonly source?: RectLayout;
  /** Its place in the destination. */
  readonly destination?: RectLayout;
  /** Events to wait for. */
  readonly wait?: readonly Event[];
}

/** The target of a migration. */
export interface MigrateOptions {
  /** True to move to the host; by default to the device of the queue. */
  readonly toHost?: boolean;
  /** Without their content, which is undefined afterwards. */
  readonly contentUndefined?: boolean;
  /** Events to wait for. */
  readonly wait?: readonly Event[];
}

/** A launch. */
export interface LaunchOptions {
  /** Work-items, in 1 to 3 dimensions. */
  readonly global: readonly number[];
  /** Work-items of a work-group; the driver chooses where it is left out. */
  readonly local?: readonly number[];
  /** All arguments; without them those that are set hold. */
  readonly args?: readonly KernelArg[];
  /** The first global ids. */
  readonly offset?: readonly number[];
  /** Events to wait for. */
  readonly wait?: readonly Event[];
}

const triple = takes.wholeNumbers;
const layout = takes.object("an object of { origin, rowPitch, slicePitch }");

/** Rules for the values of {@linkcode QueueOptions}. */
export const queueRules: Rules<QueueOptions> = { profiling: takes.bool, outOfOrder: takes.bool };

/** Rules for the values of {@linkcode TransferOptions}. */
export const transferRules: Rules<TransferOptions> = { offset: takes.whole, ...copyRules };

/** Rules for the values of {@linkcode BufferCopyOptions}. */
export const bufferCopyRules: Rules<BufferCopyOptions> = {
  sourceOffset: takes.whole,
  destinationOffset: takes.whole,
  nbytes: takes.whole,
  wait: takes.list,
};

/** Rules for the values of {@linkcode RectOptions}. */
export const rectRules: Rules<RectOptions> = {
  region: triple,
  buffer: layout,
  host: layout,
  ...copyRules,
};

/** Rules for the values of {@linkcode RectCopyOptions}. */
export const rectCopyRules: Rules<RectCopyOptions> = {
  region: triple,
  source: layout,
  destination: layout,
  wait: takes.list,
};

/** Rules for the values of {@linkcode MigrateOptions}. */
export const migrateRules: Rules<MigrateOptions> = {
  toHost: takes.bool,
  contentUndefined: takes.bool,
  wait: takes.list,
};

/** Rules for the values of {@linkcode LaunchOptions}. */
export const launchRules: Rules<LaunchOptions> = {
  global: takes.wholeNumbers,
  local: takes.wholeNumbers,
  args: takes.list,
  offset: takes.wholeNumbers,
  wait: takes.list,
};

/**
 * The parts that a copy between buffers means: all behind the offset in the source unless it says
 * how much.
 *
 * @param available Bytes of the source.
 * @param room Bytes of the destination.
 * @throws {RangeError} Unless the parts lie within them.
 */
export function copiedParts(
  options: Omit<BufferCopyOptions, "wait">,
  available: number,
  room: number,
): { readonly from: number; readonly to: number; readonly nbytes: number } {
  const { sourceOffset: from = 0, destinationOffset: to = 0, nbytes = available - from } = options;
  checkRange(from, nbytes, available, "the source");
  checkRange(to, nbytes, room, "the destination");
  return { from, to, nbytes };
}
