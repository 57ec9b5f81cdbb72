/**
 * What the methods of a queue can be told.
 *
 * @module
 */
import type { Event } from "../objects/event.ts";
import type { KernelArg } from "../objects/kernel.ts";
import type { RectLayout, Triple } from "../memory/rect.ts";
import type { CopyOptions } from "./transfers.ts";
import * as takes from "../host/option_rules.ts";
import type { Rules } from "../host/options.ts";

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

/** Which bytes a fill covers. */
export interface FillOptions {
  /** Where they begin. */
  readonly offset?: number;
  /** How many; by default the rest. */
  readonly nbytes?: number;
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

/** What part of a buffer to map, and for what. */
export interface MapOptions {
  /** Whether the host will read it; true by default. */
  readonly read?: boolean;
  /** Whether the host will write it; true by default. */
  readonly write?: boolean;
  /** Whether to drop the former content, which saves a copy on discrete devices. */
  readonly discard?: boolean;
  /** Where it begins, in bytes. */
  readonly offset?: number;
  /** How many bytes; by default the rest. */
  readonly nbytes?: number;
  /** Whether to wait until it may be touched; true by default. */
  readonly blocking?: boolean;
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

/** What {@linkcode CopyOptions} may hold. */
export const copyRules: Rules<CopyOptions> = {
  blocking: takes.bool,
  borrow: takes.bool,
  wait: takes.list,
};

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

/** What {@linkcode FillOptions} may hold. */
export const fillRules: Rules<FillOptions> = {
  offset: takes.whole,
  nbytes: takes.whole,
  wait: takes.list,
};

/** What {@linkcode MigrateOptions} may hold. */
export const migrateRules: Rules<MigrateOptions> = {
  toHost: takes.bool,
  contentUndefined: takes.bool,
  wait: takes.list,
};

/** What {@linkcode MapOptions} may hold. */
export const mapRules: Rules<MapOptions> = {
  read: takes.bool,
  write: takes.bool,
  discard: takes.bool,
  offset: takes.whole,
  nbytes: takes.whole,
  blocking: takes.bool,
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
