/**
 * Sorting on GPUs: a work-group sorts a block of a row in local memory, then blocks are merged in pairs until
 * a row is one run. A group finds its share of a merged run by the merge path (O. Green, R. McColl, D. Bader,
 * GPU Merge Path, 2012), brings both pieces to local memory, and merges them there. Equal keys keep their order.
 */
import type { Generated } from "../../codegen/generated.ts";
import type { Parameters } from "../parts/row_kernel.ts";

/** Elements that a work-item sorts in registers, and that it writes of each merged run. */
const SHARE = 8;
/** Elements of a block: those of a group of 256 at most. */
const MAX_BLOCK = 256 * SHARE, MIN_BLOCK = 8 * SHARE;

/** Rows to sort, in the words of a kernel. */
export interface SortedRows {
  readonly rows: number;
  readonly length: number;
  /** Keys are unsigned numbers of 32 or 64 bits; they lie in buffers of signed ones. */
  readonly keyType: "uint" | "ulong";
  /** Statements that declare `key`, the key of element `i` of all rows. */
  readonly key: (p: Parameters) => string;
  /** Two buffers of keys and two of places in a row; results are in the first of each. */
  readonly keys: readonly [string, string];
  readonly places: readonly [string, string];
  /** True when the sorted keys are asked for. */
  readonly keepsKeys: boolean;
}

/** Makes a kernel, for so many groups of `local` work-items. */
export type MakeKernel = (
  write: (p: Parameters) => string,
  groups: number,
  local: number,
) => Generated;

/** True where a group sorts a row by itself: there is nothing to merge. */
export const isOneBlock = (length: number): boolean => length <= MAX_BLOCK;

/** The kernels that sort, in order. */
export function sortKernels(sorted: SortedRows, make: MakeKernel): Generated[] {
  const { rows, length } = sorted;
  const block = blockOf(length), blocks = rows * Math.ceil(length / block);
  const widths: number[] = [];
  for (let width = block; width < length; width *= 2) widths.push(width);
  const made = (write: (p: Parameters) => string): Generated => make(write, blocks, block / SHARE);
  // The last pass writes the first buffers; each before it the others than the next.
  const target = (pass: number): 0 | 1 => (widths.length - pass) % 2 === 0 ? 0 : 1;
  return [
    made((p) => sortBlock(sorted, p, block, target(0), widths.length === 0)),
    ...widths.map((width, k) =>
      made((p) => mergePair(sorted, p, block, width, target(k + 1), k === widths.length - 1))
    ),
  ];
}

function blockOf(length: number): number {
  let block = MIN_BLOCK;
  while (block < Math.min(length, MAX_BLOCK)) block *= 2;
  return block;
}

/** Row and block that a group has. */
function openBlock({ length }: SortedRows, p: Parameters, block: number): string {
  const blocks = p.index(Math.ceil(length / block));
  return `  const int lid = get_local_id(0);
  const Index piece = get_group_id(0), length = ${p.index(length)};
  const Index start = piece / ${blocks} * length, from = piece % ${blocks} * ${block};
  const int count = (int)min((Index)${block}, length - from);`;
}

/** Writes what lies in local memory to a block of the buffers. */
function storeBlock(
  { keyType, keys, places, keepsKeys }: SortedRows,
  to: 0 | 1,
  items: number,
  isLast: boolean,
  place: string,
): string {
  const key = isLast && !keepsKeys
    ? ""
    : `((global ${keyType}*)${keys[to]})[start + from + j] = keys[j]; `;
  return `  for (int j = lid; j < count; j += ${items}) { ${key}${
    places[to]
  }[start + from + j] = ${place}; }`;
}

/** The pairs that odd-even transposition compares: neighbours only, so that equal keys stay in order. */
function neighbours(): number[] {
  return Array.from({ length: SHARE }, (_, round) => round).flatMap((round) =>
    Array.from({ length: SHARE >> 1 }, (_, k) => 2 * k + round % 2).filter((e) => e + 1 < SHARE)
  );
}

/** Sorts a block: a work-item its elements, then pairs of runs in local memory. */
function sortBlock(
  sorted: SortedRows,
  p: Parameters,
  block: number,
  to: 0 | 1,
  isLast: boolean,
): string {
  const U = sorted.keyType;
  const swaps = neighbours().map((e) =>
    `  if (k[${e}] > k[${e + 1}]) { const ${U} t = k[${e}]; k[${e}] = k[${e + 1}]; k[${
      e + 1
    }] = t; const int u = at[${e}]; at[${e}] = at[${e + 1}]; at[${e + 1}] = u; }`
  ).join("\n");
  // What is behind the end of a row has the largest key, and comes behind elements that have it too.
  return `${openBlock(sorted, p, block)}
  local ${U} keys[${block}];
  local int spots[${block}];
  ${U} k[${SHARE}];
  int at[${SHARE}];
  #pragma unroll
  for (int e = 0; e < ${SHARE}; ++e) {
    at[e] = lid * ${SHARE} + e;
    k[e] = (${U})-1;
    if (at[e] < count) {
      const Index i = start + from + at[e];
      ${sorted.key(p)}
      k[e] = key;
    }
  }
${swaps}
  #pragma unroll
  for (int e = 0; e < ${SHARE}; ++e) { keys[lid * ${SHARE} + e] = k[e]; spots[lid * ${SHARE} + e] = at[e]; }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int width = ${SHARE}; width < ${block}; width *= 2) {
    const int run_a = lid * ${SHARE} / (2 * width) * (2 * width), run_b = run_a + width;
    const int taken = lid * ${SHARE} - run_a;
${mergeShare("run_a", "run_b", "width", "width", "taken")}
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (int e = 0; e < ${SHARE}; ++e) { keys[lid * ${SHARE} + e] = k[e]; spots[lid * ${SHARE} + e] = at[e]; }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
${storeBlock(sorted, to, block / SHARE, isLast, "from + spots[j]")}`;
}

/**
 * Merges a work-item's share of two runs in local memory into registers: those from `taken` on of the runs
 * that begin at `a` and `b`.
 */
function mergeShare(
  a: string,
  b: string,
  countA: string,
  countB: string,
  taken: string,
): string {
  return `    int low = max(${taken} - ${countB}, 0), high = min(${taken}, ${countA});
    while (low < high) {
      const int middle = (low + high) / 2;
      if (keys[${a} + middle] <= keys[${b} + ${taken} - 1 - middle]) low = middle + 1;
      else high = middle;
    }
    int next_a = ${a} + low, next_b = ${b} + ${taken} - low;
    const int end_a = ${a} + ${countA}, end_b = ${b} + ${countB};
    #pragma unroll
    for (int e = 0; e < ${SHARE}; ++e) {
      if (next_a >= end_a && next_b >= end_b) continue;
      const int is_first = next_b >= end_b || (next_a < end_a && keys[next_a] <= keys[next_b]);
      const int source = is_first ? next_a++ : next_b++;
      k[e] = keys[source];
      at[e] = spots[source];
    }`;
}

/** Merges pairs of runs of `width` elements; a group writes a block of a pair. */
function mergePair(
  sorted: SortedRows,
  p: Parameters,
  block: number,
  width: number,
  to: 0 | 1,
  isLast: boolean,
): string {
  const U = sorted.keyType, items = block / SHARE, from = to === 0 ? 1 : 0;
  const run = p.index(width);
  return `${openBlock(sorted, p, block)}
  local ${U} keys[${block}];
  local Index spots[${block}];
  local Index split[2];
  global const ${U}* runs = (global const ${U}*)${sorted.keys[from]} + start;
  const Index run_a = from / (2 * ${run}) * (2 * ${run});
  const Index run_b = min(run_a + ${run}, length), end = min(run_b + ${run}, length);
  if (lid < 2) {
    // How many elements of the first run lie before the block's begin and end.
    const Index before = from - run_a + (lid == 0 ? 0 : count);
    Index low = max(before - (end - run_b), (Index)0), high = min(before, run_b - run_a);
    while (low < high) {
      const Index middle = (low + high) / 2;
      if (runs[run_a + middle] <= runs[run_b + before - 1 - middle]) low = middle + 1;
      else high = middle;
    }
    split[lid] = low;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const Index first_a = run_a + split[0], first_b = run_b + (from - run_a - split[0]);
  const int count_a = (int)(split[1] - split[0]), count_b = count - count_a;
  for (int j = lid; j < count; j += ${items}) {
    const Index source = j < count_a ? first_a + j : first_b + (j - count_a);
    keys[j] = runs[source];
    spots[j] = ${sorted.places[from]}[start + source];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  ${U} k[${SHARE}];
  Index at[${SHARE}];
  const int taken = min(lid * ${SHARE}, count);
  {
${mergeShare("0", "count_a", "count_a", "count_b", "taken")}
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  #pragma unroll
  for (int e = 0; e < ${SHARE}; ++e) {
    if (taken + e < count) { keys[taken + e] = k[e]; spots[taken + e] = at[e]; }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
${storeBlock(sorted, to, items, isLast, "spots[j]")}`;
}
