/**
 * Sorting by digits on devices with warps, the least significant first. One kernel counts all digits of all
 * keys; then each pass reads keys and places once and writes them in the order of one digit. A work-group
 * takes a tile of a row: warps rank equal digits by votes, so that equal keys keep their order, and the tile
 * finds how many of each digit lie before it by looking back at the tiles before, which say either what they
 * have themselves or what there is up to them (A. Adinets, D. Merrill, Onesweep, 2022). Tiles are numbered as
 * groups begin, so that a tile waits only for groups that run.
 *
 * A million keys of 32 bits with their places take 74 us on an H200, by merging (`group_sort.ts`) 190 us.
 */
import type { Generated } from "../../codegen/generated.ts";
import type { Parameters } from "../parts/row_kernel.ts";
import type { MakeKernel, SortedRows } from "./group_sort.ts";

/** Work-items of a group, keys of each, and of a tile. */
const GROUP = 512, SHARE = 8, TILE = GROUP * SHARE;
const WARP = 32, WARPS = GROUP / WARP;
/** Bits of a digit, at most: a group has a work-item for each digit. */
const MAX_BITS = 8;
/** Words that a kernel clears with a work-item. */
const CLEARED = 4;
/** Tiles that a look-back reads at once. */
const LOOK_BACK = 8;
/** The two highest bits of a tile's count: it is that of the tile, or of all up to it. Else it is not there. */
const OF_TILE = "0x40000000u", UP_TO_TILE = "0x80000000u", COUNT = "0x3fffffffu";

/** Rows with keys of 32 bits, of which the lower `bits` differ, and a buffer of ints for counts. */
export interface RadixSorted extends SortedRows {
  readonly bits: number;
  readonly state: string;
}

/** Digits of keys, and tiles of rows. */
interface Digits {
  readonly bits: number;
  readonly passes: number;
  readonly radix: number;
  readonly tiles: number;
}

function digitsOf({ rows, length, bits }: Pick<RadixSorted, "rows" | "length" | "bits">): Digits {
  const passes = Math.ceil(bits / MAX_BITS), each = Math.ceil(bits / passes);
  return { bits: each, passes, radix: 1 << each, tiles: rows * Math.ceil(length / TILE) };
}

/** Ints of the state: counts of all digits of each row, a ticket a pass, counts of each tile and pass. */
export function stateSize(sorted: Pick<RadixSorted, "rows" | "length" | "bits">): number {
  const { passes, radix, tiles } = digitsOf(sorted);
  return sorted.rows * passes * radix + passes + passes * tiles * radix;
}

/** Clears the state, in groups of 256 work-items: an earlier kernel may do it besides. */
export function clearState(
  sorted: RadixSorted,
): { readonly groups: number; readonly text: (p: Parameters) => string } {
  const words = stateSize(sorted);
  return {
    groups: Math.ceil(words / (256 * CLEARED)),
    text: (p) => clear(sorted, p, words),
  };
}

/**
 * The kernels that sort, in order.
 *
 * @param isClear Whether the state was cleared before.
 */
export function radixSortKernels(
  sorted: RadixSorted,
  make: MakeKernel,
  isClear = false,
): Generated[] {
  const digits = digitsOf(sorted), { passes, tiles } = digits;
  const { text, groups } = clearState(sorted);
  return [
    ...isClear ? [] : [make(text, groups, 256)],
    make((p) => countDigits(sorted, p, digits), tiles, GROUP),
    ...Array.from(
      { length: passes },
      (_, pass) => make((p) => sortDigit(sorted, p, digits, pass), tiles, GROUP),
    ),
  ];
}

function clear({ state }: RadixSorted, p: Parameters, words: number): string {
  return `  const int first = get_group_id(0) * ${256 * CLEARED} + (int)get_local_id(0);
  #pragma unroll
  for (int k = 0; k < ${CLEARED}; ++k) if (first + k * 256 < ${
    p.index(words)
  }) ${state}[first + k * 256] = 0;`;
}

/** Declares where the tile lies: its row, the row's first element, and where the tile begins in it. */
function openTile({ length }: RadixSorted, p: Parameters, tile: string): string {
  const perRow = p.index(Math.ceil(length / TILE));
  return `  const int tile = ${tile}, row = tile / ${perRow}, length = ${p.index(length)};
  const int start = row * length, from = (tile - row * ${perRow}) * ${TILE};
  const int count = min(${TILE}, length - from);`;
}

function digit(key: string, shift: string, { radix }: Digits): string {
  return `(${key} >> ${shift}) & ${radix - 1}u`;
}

/** Counts all digits of all keys: a group those of a tile in local memory, then of its row. */
function countDigits(sorted: RadixSorted, p: Parameters, digits: Digits): string {
  const { passes, radix, bits } = digits, words = passes * radix;
  const counts = Array.from(
    { length: passes },
    (_, k) => `atomic_inc(counts + ${k * radix} + (int)(${digit("key", `${k * bits}`, digits)}));`,
  );
  return `  local int counts[${words}];
  const int lid = get_local_id(0);
${openTile(sorted, p, "get_group_id(0)")}
  for (int d = lid; d < ${words}; d += ${GROUP}) counts[d] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  #pragma unroll
  for (int e = 0; e < ${SHARE}; ++e) {
    const int j = lid + e * ${GROUP};
    if (j < count) {
      const Index i = start + from + j;
      ${sorted.key(p)}
      ${counts.join("\n      ")}
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int d = lid; d < ${words}; d += ${GROUP}) {
    if (counts[d] != 0) atomic_add(${sorted.state} + row * ${words} + d, counts[d]);
  }`;
}

/** Buffers that a pass reads and writes: the last writes the first buffers. */
function buffersOf(pass: number, passes: number): { readonly from: 0 | 1; readonly to: 0 | 1 } {
  const to = (passes - 1 - pass) % 2 === 0 ? 0 : 1;
  return { from: to === 0 ? 1 : 0, to };
}

/** A pass: a tile's keys and places go to their places in the order of a digit. */
function sortDigit(sorted: RadixSorted, p: Parameters, digits: Digits, pass: number): string {
  const { keys, places, state, rows } = sorted, { passes, radix, tiles, bits } = digits;
  const { from, to } = buffersOf(pass, passes), shift = p.index(pass * bits);
  const isFirst = pass === 0, isLast = pass === passes - 1;
  const tickets = rows * passes * radix;
  const key = (at: string): string => `((global uint*)${at})`;
  const read = isFirst
    ? `const Index i = start + from + j;
      ${sorted.key(p)}
      k[e] = key;`
    : `k[e] = ${key(keys[from])}[start + from + j];`;
  return `  local uint held[${TILE}];
  local int ranks[${WARPS * radix}], offsets[${radix}], begins[${radix}], sums[${2 * WARPS}];
  local int ticket;
  const int lid = get_local_id(0), lane = lid & ${WARP - 1}, warp = lid / ${WARP};
  global volatile int* said = ${state} + ${p.index(tickets + passes + pass * tiles * radix)};
  if (lid == 0) ticket = atomic_inc(${state} + ${p.index(tickets + pass)});
  for (int d = lid; d < ${WARPS * radix}; d += ${GROUP}) ranks[d] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
${openTile(sorted, p, "ticket")}
  const int first = warp * ${WARP * SHARE} + lane;
  // What is behind the end has the last digit, and comes behind elements that have it too.
  uint k[${SHARE}];
  #pragma unroll
  for (int e = 0; e < ${SHARE}; ++e) {
    const int j = first + e * ${WARP};
    k[e] = 0xffffffffu;
    if (j < count) {
      ${read}
    }
  }
${rankDigits(digits, shift)}
${placeDigits(sorted, p, digits, pass)}
  #pragma unroll
  for (int e = 0; e < ${SHARE}; ++e) {
    const int d = ${digit("k[e]", shift, digits)};
    rank[e] += begins[d] + mine[d];
    held[rank[e]] = k[e];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  int goal[${SHARE}];
  #pragma unroll
  for (int e = 0; e < ${SHARE}; ++e) {
    const int j = lid + e * ${GROUP};
    if (j < count) {
      goal[e] = start + offsets[${digit("held[j]", shift, digits)}] + j;
      ${isLast && !sorted.keepsKeys ? "" : `${key(keys[to])}[goal[e]] = held[j];`}
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  #pragma unroll
  for (int e = 0; e < ${SHARE}; ++e) {
    const int j = first + e * ${WARP};
    if (j < count) held[rank[e]] = ${
    isFirst ? "from + j" : `(uint)${places[from]}[start + from + j]`
  };
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  #pragma unroll
  for (int e = 0; e < ${SHARE}; ++e) {
    const int j = lid + e * ${GROUP};
    if (j < count) ${places[to]}[goal[e]] = (int)held[j];
  }`;
}

/** Ranks each key among those of its digit in its warp's part of the tile, in their order. */
function rankDigits(digits: Digits, shift: string): string {
  return `  local int* mine = ranks + warp * ${digits.radix};
  int rank[${SHARE}];
  #pragma unroll
  for (int e = 0; e < ${SHARE}; ++e) {
    const int d = ${digit("k[e]", shift, digits)};
    uint same = 0xffffffffu;
    #pragma unroll
    for (int b = 0; b < ${digits.bits}; ++b) {
      const uint bit = ((uint)d >> b) & 1u;
      uint votes;
      WARP_VOTE(votes, bit);
      same &= bit ? votes : ~votes;
    }
    const int before = mine[d], below = popcount(same & ((1u << lane) - 1u));
    rank[e] = before + below;
    WARP_SYNC();
    if (below == 0) mine[d] = before + popcount(same);
    WARP_SYNC();
  }
  barrier(CLK_LOCAL_MEM_FENCE);`;
}

/**
 * Finds where the digits of a tile begin: in the tile, and in the row. A work-item a digit adds up what the
 * warps have, says it, and looks back.
 */
function placeDigits(sorted: RadixSorted, p: Parameters, digits: Digits, pass: number): string {
  const { passes, radix } = digits, counts = `row * ${passes * radix} + ${pass * radix} + lid`;
  const firstTile = p.index(Math.ceil(sorted.length / TILE));
  return `  const int first_tile = row * ${firstTile};
  int own = 0, all = 0;
  if (lid < ${radix}) {
    for (int w = 0; w < ${WARPS}; ++w) {
      const int t = ranks[w * ${radix} + lid];
      ranks[w * ${radix} + lid] = own;
      own += t;
    }
    said[tile * ${radix} + lid] = (int)((tile == first_tile ? ${UP_TO_TILE} : ${OF_TILE}) | (uint)own);
    all = ${sorted.state}[${counts}];
  }
  // How many keys of the tile, and of the row, have lower digits.
  uint lower = own, lower_all = all;
  #pragma unroll
  for (int h = 1; h < ${WARP}; h <<= 1) {
    uint a, b;
    WARP_UP(a, lower, h);
    WARP_UP(b, lower_all, h);
    if (lane >= h) { lower += a; lower_all += b; }
  }
  if (lane == ${WARP - 1}) { sums[warp] = lower; sums[${WARPS} + warp] = lower_all; }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int w = 0; w < warp; ++w) { lower += sums[w]; lower_all += sums[${WARPS} + w]; }
  lower -= own; lower_all -= all;
  if (lid < ${radix}) {
    uint before = 0;
    for (int t = tile - 1; t >= first_tile;) {
      uint s[${LOOK_BACK}];
      #pragma unroll
      for (int b = 0; b < ${LOOK_BACK}; ++b) {
        s[b] = t - b >= first_tile ? (uint)said[(t - b) * ${radix} + lid] : ${UP_TO_TILE};
      }
      int is_over = 0;
      #pragma unroll
      for (int b = 0; b < ${LOOK_BACK}; ++b) {
        if (is_over) continue;
        if (s[b] < ${OF_TILE}) is_over = 1;
        else {
          before += s[b] & ${COUNT};
          --t;
          if (s[b] >= ${UP_TO_TILE}) { is_over = 1; t = -1; }
        }
      }
    }
    if (tile > first_tile) said[tile * ${radix} + lid] = (int)(${UP_TO_TILE} | (before + (uint)own));
    begins[lid] = (int)lower;
    offsets[lid] = (int)(lower_all + before - lower);
  }
  barrier(CLK_LOCAL_MEM_FENCE);`;
}
