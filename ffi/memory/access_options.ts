/**
 * Options of filling and mapping, of a buffer and of shared virtual memory alike.
 *
 * @module
 */
import type { Event } from "../events/event.ts";
import * as takes from "../host/option_rules.ts";
import type { Rules } from "../host/options.ts";
import { checkPattern, checkRange } from "../host/size.ts";

/** The bytes that a fill covers. */
export interface FillOptions {
  /** The offset of the first one; 0 by default. */
  readonly offset?: number;
  /** Their number; by default the rest. */
  readonly nbytes?: number;
  /** Events to wait for. */
  readonly wait?: readonly Event[];
}

/** The part of a buffer to map, and its use. */
export interface MapOptions {
  /** True when the host will read it; true by default. */
  readonly read?: boolean;
  /** True when the host will write it; true by default. */
  readonly write?: boolean;
  /** True to drop the former content, which saves a copy on discrete devices; false by default. */
  readonly discard?: boolean;
  /** The offset in bytes; 0 by default. */
  readonly offset?: number;
  /** The number of bytes; by default the rest. */
  readonly nbytes?: number;
  /** True to wait until it may be touched; true by default. */
  readonly blocking?: boolean;
  /** Events to wait for. */
  readonly wait?: readonly Event[];
}

/** Rules for the values of {@linkcode FillOptions}. */
export const fillRules: Rules<FillOptions> = {
  offset: takes.whole,
  nbytes: takes.whole,
  wait: takes.list,
};

/** Rules for the values of {@linkcode MapOptions}. */
export const mapRules: Rules<MapOptions> = {
  read: takes.bool,
  write: takes.bool,
  discard: takes.bool,
  offset: takes.whole,
  nbytes: takes.whole,
  blocking: takes.bool,
  wait: takes.list,
};

/** A part of some memory, in bytes. */
interface Part {
  readonly offset: number;
  readonly nbytes: number;
}

/**
 * The part that options mean: all behind the offset unless they say how much.
 *
 * @param total Bytes of the memory.
 * @param what The memory, for the error.
 * @throws {RangeError} Unless the part lies within the memory.
 */
export function partOf(options: Partial<Part>, total: number, what: string): Part {
  const { offset = 0, nbytes = total - offset } = options;
  checkRange(offset, nbytes, total, what);
  return { offset, nbytes };
}

/** The part that a fill means; the size of the pattern must divide both of its numbers. */
export function filledPart(
  options: Partial<Part>,
  pattern: ArrayBufferView,
  total: number,
  what: string,
): Part {
  const part = partOf(options, total, what);
  checkPattern(pattern, part.offset, part.nbytes);
  return part;
}
