/**
 * Static memory planning: where blocks lie whose lifetimes are known beforehand. Those that are not in
 * use at the same time may have the same place.
 */

/** The lifetime of a block, and its size. */
export interface Lifetime {
  /** The first step that uses it. */
  readonly first: number;
  /** The last one; within it the block is still in use. */
  readonly last: number;
  /** A positive number. */
  readonly nbytes: number;
}

/** The place of a block. */
export interface Place {
  /** Counts the segments of the placement. */
  readonly segment: number;
  /** Bytes from the beginning of the segment. */
  readonly offset: number;
}

/** The places of all blocks. */
export interface Placement {
  /** One for each lifetime. */
  readonly places: readonly Place[];
  /** Bytes of each segment. */
  readonly segments: readonly number[];
}

/** Constraints of a placement. */
export interface PlacementRules {
  /** Blocks begin at multiples of this. */
  readonly alignment: number;
  /**
   * Bytes that a segment may have, to choose from: of those with which all take the least memory, the first. A
   * segment that holds a larger block may have that block's.
   */
  readonly segmentBytes: readonly number[];
}

/** A block that has its place. */
interface Placed extends Lifetime {
  readonly offset: number;
}

/** A segment while blocks are given their places. */
interface OpenSegment {
  /** By offset. */
  readonly placed: Placed[];
  readonly maxBytes: number;
  nbytes: number;
}

/** A gap for a block, and how good it is: bytes left over in it, else bytes that the segment grows by. */
interface Gap {
  readonly segment: number;
  readonly offset: number;
  readonly leftOver: number;
  readonly growth: number;
}

/** A block in the order in which blocks get their places. */
interface Turn {
  readonly at: number;
  readonly life: Lifetime;
  readonly steps: number;
  /** The most bytes that are in use in one of its steps. */
  readonly pressure: number;
}

/**
 * Orders of blocks, in which each goes into the gap that it fills best. The largest first: small ones fill what
 * large ones leave. Those first that are there while most is in use, of them the largest, or those that stay
 * longest. By their beginning: what a step forward keeps for the way back piles up, and what is needed for a
 * moment comes and goes on top. By the room that they take in time.
 */
const orders: readonly ((a: Turn, b: Turn) => number)[] = [
  ({ life: a }, { life: b }) => b.nbytes - a.nbytes || a.first - b.first,
  (a, b) => b.pressure - a.pressure || b.life.nbytes - a.life.nbytes,
  (a, b) => b.pressure - a.pressure || b.steps - a.steps || b.life.nbytes - a.life.nbytes,
  ({ life: a }, { life: b }) => a.first - b.first || b.last - a.last,
  (a, b) => b.life.nbytes * b.steps - a.life.nbytes * a.steps,
];

/**
 * Places blocks greedily, in the order that takes the least memory. Training steps need 1.00 to 1.04 times the
 * most bytes that are in use at a time.
 *
 * @param lifetimes The blocks.
 * @param rules Alignment and sizes of segments.
 */
export function placeLifetimes(
  lifetimes: readonly Lifetime[],
  { alignment, segmentBytes }: PlacementRules,
): Placement {
  const aligned = lifetimes.map(({ first, last, nbytes }): Lifetime => (
    { first, last, nbytes: Math.ceil(nbytes / alignment) * alignment }
  ));
  const turns = turnsOf(aligned), least = turns.reduce((most, t) => Math.max(most, t.pressure), 0);
  let best: Placement | null = null, bytes = Infinity;
  for (const maxBytes of segmentBytes) {
    for (const order of orders) {
      const found = placeInOrder(turns.toSorted((a, b) => order(a, b) || a.at - b.at), maxBytes);
      const taken = found.segments.reduce((sum, nbytes) => sum + nbytes, 0);
      if (taken < bytes) [best, bytes] = [found, taken];
      if (bytes <= least) return best!;
    }
  }
  return best!;
}

function turnsOf(lifetimes: readonly Lifetime[]): Turn[] {
  const inUse: number[] = [];
  for (const { first, last, nbytes } of lifetimes) {
    for (let step = first; step <= last; step++) inUse[step] = (inUse[step] ?? 0) + nbytes;
  }
  return lifetimes.map((life, at) => {
    let pressure = 0;
    for (let step = life.first; step <= life.last; step++) {
      pressure = Math.max(pressure, inUse[step]!);
    }
    return { at, life, steps: life.last - life.first + 1, pressure };
  });
}

function placeInOrder(turns: readonly Turn[], segmentBytes: number): Placement {
  const segments: OpenSegment[] = [], places: Place[] = new Array(turns.length);
  for (const { at, life } of turns) {
    const { segment, offset } = bestGap(segments, life) ?? newSegment(segments, life, segmentBytes);
    places[at] = { segment, offset };
    place(segments[segment]!, { ...life, offset });
  }
  return { places, segments: segments.map(({ nbytes }) => nbytes) };
}

function newSegment(segments: OpenSegment[], { nbytes }: Lifetime, segmentBytes: number): Place {
  const maxBytes = Math.max(nbytes, segmentBytes);
  return { segment: segments.push({ placed: [], maxBytes, nbytes: 0 }) - 1, offset: 0 };
}

function place(segment: OpenSegment, block: Placed): void {
  const { placed } = segment;
  const at = placed.findIndex(({ offset }) => offset > block.offset);
  placed.splice(at < 0 ? placed.length : at, 0, block);
  segment.nbytes = Math.max(segment.nbytes, block.offset + block.nbytes);
}

function bestGap(segments: readonly OpenSegment[], life: Lifetime): Gap | null {
  let best: Gap | null = null;
  for (let segment = 0; segment < segments.length; segment++) {
    const gap = gapIn(segments[segment]!, segment, life);
    if (gap !== null && (best === null || isBetter(gap, best))) best = gap;
    if (best?.leftOver === 0) break;
  }
  return best;
}

function isBetter(gap: Gap, than: Gap): boolean {
  return gap.growth < than.growth || gap.growth === than.growth && gap.leftOver < than.leftOver;
}

/** The best gap for a block between those that are in use while it is, or behind them. */
function gapIn(
  { placed, maxBytes, nbytes }: OpenSegment,
  segment: number,
  life: Lifetime,
): Gap | null {
  let offset = -1, leftOver = Infinity, end = 0;
  const consider = (from: number, to: number): void => {
    const left = to - from - life.nbytes;
    if (left < 0 || left >= leftOver) return;
    offset = from;
    leftOver = left;
  };
  for (const other of placed) {
    if (other.first > life.last || other.last < life.first) continue;
    consider(end, other.offset);
    end = Math.max(end, other.offset + other.nbytes);
  }
  consider(end, nbytes);
  if (offset >= 0) return { segment, offset, leftOver, growth: 0 };
  const growth = end + life.nbytes - nbytes;
  if (end + life.nbytes > maxBytes) return null;
  return { segment, offset: end, leftOver: 0, growth };
}
