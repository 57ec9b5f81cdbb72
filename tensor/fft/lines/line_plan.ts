/** Plans of Fourier transforms of lines on GPUs: stages, lines of a group, work-items. */
import type { RealType } from "../../ops/custom/matrix_kernel.ts";
import { MAX_BUTTERFLY_PRIME } from "./butterfly.ts";

/** Numbers in memory: both parts in arrays of their own, real parts alone, or pairs of parts, which a signal is, too. */
export type Form = "parts" | "reals" | "pairs";

/**
 * Results that are written. A line that is a real signal, in pairs, has twice as many frequencies: the first
 * half of them and one, or the whole. Frequencies of columns, whose rows were halves: "both", themselves and
 * their conjugates, which are those of the mirrored column.
 */
export type Extent = "line" | "half" | "whole" | "both";

/** Numbers and results of lines. */
export interface Ends {
  /** Neighbouring lines are neighbours in memory, not neighbours of a line: where it reads, where it writes. */
  readonly readsAcross: boolean;
  readonly writesAcross: boolean;
  /** Forms of numbers and of results. */
  readonly from: Form;
  readonly to: Form;
  /** True where numbers are the first half of a real signal's frequencies and one: results are pairs of the signal. */
  readonly readsHalf: boolean;
  readonly extent: Extent;
}

/** A transform of lines that a text is written for. */
export interface LinePlan extends Ends {
  readonly dtype: RealType;
  /** Numbers of a line. */
  readonly n: number;
  /** Lines that a group has. */
  readonly width: number;
  /** Rooms of local memory for their numbers: for both parts, or for one after the other. */
  readonly rooms: 1 | 2;
  /** Result k of line l of a sample is turned by -2 π k l / turn; 0 for none. */
  readonly turn: number;
  /** Work-items that the device lets a group have. */
  readonly maxItems: number;
  /** Registers of 4 bytes that a work-item has. */
  readonly registers: number;
}

/** Numbers of a butterfly: they and what becomes of them stay in registers. */
const MAX_RADIX = 16;

/**
 * Numbers of a butterfly on a device, unless they are a prime number of them: two parts of each take at most
 * three eighths of the registers. What becomes of them, and turns, have the rest.
 */
export function maxRadixOf({ dtype, registers }: Pick<LinePlan, "dtype" | "registers">): number {
  const words = bytesOf[dtype] / 4;
  return Math.min(MAX_RADIX, Math.floor(3 / 8 * registers / (2 * words)));
}

/** Work-items of a group. */
const MIN_ITEMS = 32, MAX_ITEMS = 512;
/** Numbers of a group of short lines. */
const GROUP_NUMBERS = 1024;
/** Bytes that a fetch of neighbours is worth. */
const SECTOR_BYTES = 32;

/** Stages of lengths, which programs repeat; those of a length need those of its factors. */
const known = new Map<string, readonly number[] | null>();
const MAX_KNOWN = 1024;

/**
 * The stages of a transform, the fewest, and then the smallest ones; null where there is a large prime.
 *
 * @param most Numbers of a stage, but for primes.
 */
export function radicesOf(n: number, most = MAX_RADIX): readonly number[] | null {
  if (known.size > MAX_KNOWN) known.clear();
  const key = `${n} ${most}`, before = known.get(key);
  const found = before === undefined ? bestRadices(n, most) : before;
  known.set(key, found);
  return found;
}

function bestRadices(n: number, most: number): readonly number[] | null {
  if (n === 1) return [];
  let best: readonly number[] | null = null;
  for (let radix = 2; radix <= MAX_RADIX; radix++) {
    const prime = largestPrime(radix);
    if (n % radix !== 0 || prime > MAX_BUTTERFLY_PRIME || radix > Math.max(most, prime)) continue;
    const rest = radicesOf(n / radix, most);
    if (rest === null) continue;
    const all = [...rest, radix].sort((a, b) => b - a);
    if (best === null || cost(all) < cost(best)) best = all;
  }
  return best;
}

const cost = (radices: readonly number[]): number =>
  1000 * radices.length + radices.reduce((sum, radix) => sum + radix, 0);

/** The largest prime factor. */
export function largestPrime(n: number): number {
  let rest = n, largest = 1;
  for (let p = 2; p * p <= rest; p++) {
    while (rest % p === 0) {
      rest /= p;
      largest = p;
    }
  }
  return Math.max(largest, rest);
}

/** Elements of local memory that a line takes: a gap every 32 keeps strided neighbours in other banks. */
export function pitchOf(n: number): number {
  return n + (n >> 5) | 1;
}

const bytesOf = { float32: 4, float64: 8 } as const;

/**
 * Lines of a group: short ones fill it, and lines beside each other a fetch, or half of one where else more
 * than half of the device were idle; 0 where none fits.
 */
export function widthOf(
  plan: Omit<LinePlan, "width" | "rooms">,
  lines: number,
  samples: number,
  { localBytes, units }: { localBytes: number; units: number },
): number {
  const { dtype, n, readsAcross, writesAcross, from, to } = plan, bytes = bytesOf[dtype];
  const fetched = (isAcross: boolean, form: Form) =>
    isAcross ? SECTOR_BYTES / (form === "pairs" ? 2 * bytes : bytes) : 1;
  const neighbours = Math.max(fetched(readsAcross, from), fetched(writesAcross, to));
  const hasMirrors = isMirrored(plan), sides = hasMirrors ? 2 : 1;
  const fitting = Math.floor(localBytes / (pitchOf(n) * bytes * sides));
  const wanted = Math.max(neighbours, Math.floor(GROUP_NUMBERS / n));
  const width = Math.min(wanted, fitting, lines);
  const isIdle = neighbours > 1 && 2 * samples * Math.ceil(lines / sides / width) <= units;
  return sides * (isIdle ? Math.ceil(width / 2) : width);
}

/** Rooms that fit. */
export function roomsOf(
  { dtype, n, width }: Pick<LinePlan, "dtype" | "n" | "width">,
  localBytes: number,
): 1 | 2 {
  return 2 * width * pitchOf(n) * bytesOf[dtype] <= localBytes ? 2 : 1;
}

/** True where a group has lines and their mirrored ones: the frequencies of a real signal need both. */
export function isMirrored({ extent, writesAcross }: Ends): boolean {
  return writesAcross && (extent === "half" || extent === "whole");
}

/** Groups of a sample. */
export function groupsOf(plan: LinePlan, lines: number): number {
  return isMirrored(plan)
    ? Math.ceil(((lines >> 1) + 1) / (plan.width / 2))
    : Math.ceil(lines / plan.width);
}

/** Work-items of a group. */
export function itemsOf(plan: LinePlan): number {
  const { n, width, maxItems } = plan, largest = radicesOf(n, maxRadixOf(plan))![0]!;
  const items = Math.ceil(width * n / largest / MIN_ITEMS) * MIN_ITEMS;
  return Math.min(Math.max(items, MIN_ITEMS), MAX_ITEMS, maxItems);
}

/** The largest factor up to the root; 1 for a prime. */
export function balancedFactor(n: number): number {
  let factor = Math.floor(Math.sqrt(n));
  while (n % factor !== 0) factor--;
  return factor;
}
