/**
 * What the methods of a queue can be told.
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

/** How a queue is made. */
export interface QueueOptions {
  /** Whether events carry time stamps. */
  readonly profiling?: boolean;
  /**
   * Whether commands may overtake each other; order then comes from wait lists and barriers only.
   */
  readonly outOfOrder?: boolean;
}

/** How bytes move between a buffer and an array. */
export interface TransferOptions extends CopyOptions {
  /** Where they begin in the buffer, in bytes. */
  readonly offset?: number;
}

/** Which bytes a copy between buffers moves. */
export interface BufferCopyOptions {
  /** Where they begin in the source. */
  readonly sourceOffset?: number;
  /** Where they go in the destination. */
  readonly destinationOffset?: number;
  /** How many; by default the rest of the source. */
  readonly nbytes?: number;
  /** What to wait for. */
  readonly wait?: readonly Event[];
}

/** How a box of bytes moves between a buffer and an array. */
export interface RectOptions extends CopyOptions {
  /** The box: width in bytes, height in rows, depth in slices. */
  readonly region: Triple;
  /** Where it lies in the buffer. */
  readonly buffer?: RectLayout;
  /** Where it lies in the array. */
  readonly host?: RectLayout;
}

/** How a box of bytes moves between buffers. */
export interface RectCopyOptions {
  /** The box: width in bytes, height in rows, depth in slices. */
  readonly region: Triple;
  /** Where it lies in the source. */
  readonly source?: RectLayout;
  /** Where it goes in the destination. */
  readonly destination?: RectLayout;
  /** What to wait for. */
  readonly wait?: readonly Event[];
}

/** Where buffers move to. */
export interface MigrateOptions {
  /** To the host instead of the device. */
  readonly toHost?: boolean;
  /** Without their content, which is undefined afterwards. */
  readonly contentUndefined?: boolean;
  /** What to wait for. */
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
  /** Where the global ids begin. */
  readonly offset?: readonly number[];
  /** What to wait for. */
  readonly wait?: readonly Event[];
}

const triple = takes.wholeNumbers;
const layout = takes.object("an object of { origin, rowPitch, slicePitch }");

/** What {@linkcode QueueOptions} may hold. */
export const queueRules: Rules<QueueOptions> = { profiling: takes.bool, outOfOrder: takes.bool };

/** What {@linkcode TransferOptions} may hold. */
export const transferRules: Rules<TransferOptions> = { offset: takes.whole, ...copyRules };

/** What {@linkcode BufferCopyOptions} may hold. */
export const bufferCopyRules: Rules<BufferCopyOptions> = {
  sourceOffset: takes.whole,
  destinationOffset: takes.whole,
  nbytes: takes.whole,
  wait: takes.list,
};

/** What {@linkcode RectOptions} may hold. */
export const rectRules: Rules<RectOptions> = {
  region: triple,
  buffer: layout,
  host: layout,
  ...copyRules,
};

/** What {@linkcode RectCopyOptions} may hold. */
export const rectCopyRules: Rules<RectCopyOptions> = {
  region: triple,
  source: layout,
  destination: layout,
  wait: takes.list,
};

/** What {@linkcode MigrateOptions} may hold. */
export const migrateRules: Rules<MigrateOptions> = {
  toHost: takes.bool,
  contentUndefined: takes.bool,
  wait: takes.list,
};

/** What {@linkcode LaunchOptions} may hold. */
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
