/**
 * Scatters on GPUs of many sources into one line, or a few: sources are sorted by where they go, in the order
 * that they have (`group_sort.ts`), and each run of equal targets is added up, so the result is the same every
 * time. Groups take chunks of the sorted sources: a run that begins and ends in a chunk goes to its target; of
 * others each chunk keeps its part, and the chunk in which a run ends joins them in order.
 *
 * A million numbers into 37 took a work-item 97 ms one after the other, into as many 250 ms (H100); sorted
 * by merging they take 0.24 and 0.25 ms (H200), of which the sort is 0.2.
 */
import { sizeOf, stridesOf } from "../../../graph/shape.ts";
import { needsWideIndices } from "../../../kernel/index_range.ts";
import type { PreparedOperand } from "../../../kernel/kernel.ts";
import type { Scratch } from "../../../kernel/template.ts";
import type { Generated } from "../../codegen/generated.ts";
import { computeType, loadText, storeText } from "../../codegen/types.ts";
import { generatedSpecial, type Parameters } from "../parts/row_kernel.ts";
import type { KernelSequence, Planned, SpecialTemplate } from "../parts/template.ts";
import {
  isOneBlock,
  type MakeKernel,
  type SortedRows,
  sortKernels,
} from "../sorting/group_sort.ts";
import { clearState, radixSortKernels, stateSize } from "../sorting/radix_sort.ts";
import {
  addsOrSets,
  type BesideCopy,
  checkedText,
  columnPlace,
  copyBase,
  elementText,
  hasSharedIndices,
  linesOf,
  type Scatter,
  scatterAccumulator,
} from "./scatter_text.ts";

/** Work-items of a group; sorted sources that each of them adds up, where rows have few columns. */
const GROUP = 128, SHARE = 8;
/** Rows of so many columns are added up by a work-item a column. */
const MIN_COLUMNS = 32;
/**
 * Sorted sources of a chunk of such rows: as many as there are chunks, or fewer where a compute unit would have
 * fewer groups than these, within bounds. 200,000 rows of 128 took 132 us with 390 groups (H200).
 */
const MIN_CHUNK = 32, MAX_CHUNK = 1024, BUSY_GROUPS = 8;
/** Fewer rows, of so many columns, are found by a search in all of them: `shared_scatter.ts`. */
const MIN_SHARED = 3072, MIN_SHARED_COLUMNS = 8;
/** Sources that a line's work-item walks while they are sorted: at least, and per thousand. */
const MIN_WALK = 400, WALK_PER_THOUSAND = 1.25;

interface SortedScatter extends Planned<Scatter> {
  /** Sorted items: rows of sources where lines share indices, else single sources. */
  readonly count: number;
  /** Elements of a row. */
  readonly columns: number;
  /** Sorted sources of a chunk. */
  readonly chunk: number;
  /** Bits of targets, where sources are sorted by their digits. */
  readonly bits: number | null;
}

/** Many sources for a target, or for few lines. */
export const sortedScatter: SpecialTemplate<SortedScatter> = {
  name: "sorted scatter",
  matches: (kernel, target) =>
    target.isGpu && kernel.op === "scatter" && addsOrSets(kernel) &&
      !needsWideIndices(kernel, target.narrowEnd) &&
      isWorthSorting(kernel)
      ? planOf(kernel, target)
      : null,
  emit: sequenceOf,
  scratch: scratchOf,
  workItems: ({ count, columns }) => count * columns,
};

function isWorthSorting(kernel: Scatter): boolean {
  const { sourceShape, shape, axis } = kernel;
  const sources = sizeOf(sourceShape), rows = sourceShape[axis]!;
  if (sources === 0) return false;
  if (hasSharedIndices(kernel) && linesOf(kernel) >= MIN_SHARED_COLUMNS) return rows > MIN_SHARED;
  return rows + shape[axis]! > MIN_WALK + sources / 1000 * WALK_PER_THOUSAND;
}

function planOf(kernel: Scatter, target: Planned<Scatter>["target"]): SortedScatter {
  const { sourceShape, axis } = kernel, isShared = hasSharedIndices(kernel);
  const count = isShared ? sourceShape[axis]! : sizeOf(sourceShape);
  const columns = isShared ? linesOf(kernel) : 1;
  let chunk = GROUP * SHARE;
  if (columns >= MIN_COLUMNS) {
    chunk = MIN_CHUNK;
    const rows = count * Math.ceil(columns / GROUP);
    const enough = rows / (BUSY_GROUPS * target.computeUnits);
    while (chunk < MAX_CHUNK && chunk * chunk < count && 2 * chunk <= enough) chunk *= 2;
  }
  const targets = isShared ? kernel.shape[axis]! : sizeOf(kernel.shape);
  const bits = target.warps && !isOneBlock(count) ? bitsOf(targets) : null;
  return { kernel, target, count, columns, chunk, bits };
}

/** Bits of the numbers below a count. */
const bitsOf = (count: number): number => Math.max(32 - Math.clz32(count - 1), 1);

const chunksOf = ({ count, chunk }: SortedScatter): number => Math.ceil(count / chunk);

/**
 * Parts of runs that begin, or end, in another chunk; targets and places, twice each for sorting. Scatters by
 * the same indices, as a graph's layers and their gradients have, are sorted once.
 */
function scratchOf(plan: SortedScatter): Scratch[] {
  const { kernel, count, bits } = plan;
  const part = { dtype: scatterAccumulator(kernel), size: chunksOf(plan) * plan.columns };
  const parts = kernel.mode === "set" ? [] : [part, part];
  if (kernel.prepared) return parts;
  const int = { dtype: "int32", size: count } as const;
  const sorted = (name: PreparedOperand["name"]): Scratch => ({
    ...int,
    content: { name, input: 1, key: `${name} ${sortKey(plan)}`, isLasting: true },
  });
  const size = bits === null ? 0 : stateSize({ rows: 1, length: count, bits });
  const state = size === 0 ? [] : [{ dtype: "int32", size } as const];
  return [...parts, sorted("keys"), int, sorted("places"), int, ...state];
}

/** A text that is the same for scatters whose sources have one order. */
function sortKey({ kernel, count, bits }: SortedScatter): string {
  const { shape, sourceShape, indexStrides, axis } = kernel;
  return hasSharedIndices(kernel)
    ? `${count} ${bits} ${shape[axis]} ${indexStrides[axis]}`
    : `${bits} ${[shape, sourceShape, indexStrides].join(" ")} ${axis}`;
}

/** The names of buffers in the kernels. */
interface Names {
  /** Sorted targets, and the places that their sources had. */
  readonly keys: string;
  readonly places: string;
  /** Parts that chunks have of a run that began before them, and of one that goes on behind them. */
  readonly heads: string;
  readonly tails: string;
}

function namesOf({ kernel: { mode, prepared = [] } }: SortedScatter): Names {
  const input = (name: PreparedOperand["name"]): string | undefined => {
    const found = prepared.find((operand) => operand.name === name);
    return found && `a${found.input}`;
  };
  const first = mode === "set" ? 1 : 3;
  const keys = input("keys") ?? `o${first}`, places = input("places") ?? `o${first + 2}`;
  return { keys, places, heads: "o1", tails: "o2" };
}

function sequenceOf(plan: SortedScatter): KernelSequence {
  const { kernel } = plan;
  const make: MakeKernel = (...all) => generatedSpecial(plan, ...all, scratchOf(plan));
  const made = (body: (plan: SortedScatter, p: Parameters) => string, groups: number): Generated =>
    make((p) => body(plan, p), groups, GROUP);
  const sort = kernel.prepared ? null : sortOf(plan, make);
  const base = copyBase(kernel, make, sort?.clear);
  const before = [base, ...sort?.kernels ?? []];
  if (kernel.mode === "set") {
    const items = plan.count * plan.columns;
    return [...before, made(setLast, Math.ceil(items / GROUP))];
  }
  const byColumn = plan.columns >= MIN_COLUMNS;
  const chunks = chunksOf(plan);
  const groups = chunks * (byColumn ? Math.ceil(plan.columns / GROUP) : plan.columns);
  return [
    ...before,
    made(byColumn ? addColumns : addRuns, groups),
    ...chunks > 1 ? [made(joinRuns, Math.ceil(chunks * plan.columns / GROUP))] : [],
  ];
}

/** The kernels that sort, and what must be cleared before them. */
function sortOf(
  plan: SortedScatter,
  make: MakeKernel,
): { readonly kernels: readonly Generated[]; readonly clear?: BesideCopy } {
  const first = plan.kernel.mode === "set" ? 1 : 3, { keys, places } = namesOf(plan);
  const sorted: SortedRows = {
    rows: 1,
    length: plan.count,
    keyType: "uint",
    key: (p) => keyText(plan, p),
    keys: [keys, `o${first + 1}`],
    places: [places, `o${first + 3}`],
    keepsKeys: true,
  };
  if (plan.bits === null) return { kernels: sortKernels(sorted, make) };
  const digits = { ...sorted, bits: plan.bits, state: `o${first + 4}` };
  return { kernels: radixSortKernels(digits, make, true), clear: clearState(digits) };
}

/** Destination of source `i`: a row of the result, or an element of it. */
function keyText({ kernel, columns }: SortedScatter, p: Parameters): string {
  const { indexStrides, axis } = kernel;
  if (columns === 1 && !hasSharedIndices(kernel)) return elementText(kernel, p);
  return `const uint key = (uint)${checkedText(kernel, p, `i * ${p.index(indexStrides[axis]!)}`)};`;
}

/** Addresses of sources and targets in a kernel: a sorted place or key, in a column. */
function addresses({ kernel, columns }: SortedScatter, p: Parameters): {
  /** Declares where the column begins in sources (`at`) and targets (`base`). */
  readonly open: string;
  readonly source: (place: string) => string;
  readonly target: (key: string) => string;
} {
  const { shape, sourceShape, axis } = kernel;
  if (columns === 1 && !hasSharedIndices(kernel)) {
    return { open: "", source: (place) => place, target: (key) => `(int)${key}` };
  }
  const step = p.index(stridesOf(shape)[axis]!),
    sourceStep = p.index(stridesOf(sourceShape)[axis]!);
  return {
    open: columnPlace(kernel, p, "column"),
    source: (place) => `at + ${place} * ${sourceStep}`,
    target: (key) => `base + (int)${key} * ${step}`,
  };
}

/** The last source of each run is what its target is set to. */
function setLast(plan: SortedScatter, p: Parameters): string {
  const { dtype } = plan.kernel.output;
  const count = p.index(plan.count), columns = p.index(plan.columns);
  const { open, source, target } = addresses(plan, p), { keys, places } = namesOf(plan);
  return `  const int item = get_global_id(0);
  if (item >= ${count} * ${columns}) return;
  const int t = item / ${columns}, column = item % ${columns};
  if (t + 1 < ${count} && ${keys}[t + 1] == ${keys}[t]) return;
${open}
  ${storeText("o0", dtype, target(`${keys}[t]`), loadText("a2", dtype, source(`${places}[t]`)))}`;
}

/** Adds the sum of a run to its target, or keeps it for the chunk in which the run ends. */
function endRun(
  plan: SortedScatter,
  target: (key: string) => string,
  part: string,
): string {
  const { dtype } = plan.kernel.output, { heads } = namesOf(plan);
  return `if (key == first && is_behind) ${heads}[${part}] = total;
      else { const int goal = ${target("key")}; ${
    storeText("o0", dtype, "goal", `${loadText("o0", dtype, "goal")} + total`)
  } }`;
}

/** A group adds up a chunk of one column: a work-item its share, then shares by a segmented scan. */
function addRuns(plan: SortedScatter, p: Parameters): string {
  const { dtype } = plan.kernel.output;
  const T = computeType(scatterAccumulator(plan.kernel));
  const count = p.index(plan.count), columns = p.index(plan.columns);
  const { open, source, target } = addresses(plan, p), { keys, places, tails } = namesOf(plan);
  const part = `chunk * ${columns} + column`;
  return `  local ${T} sums[${GROUP}];
  local int heads[${GROUP}], lasts[${GROUP}];
  const int lid = get_local_id(0);
  const int chunk = get_group_id(0) / ${columns}, column = get_group_id(0) % ${columns};
  const int start = chunk * ${plan.chunk}, from = start + lid * ${SHARE};
  const int end = min(start + ${plan.chunk}, ${count}), behind = min(from + ${SHARE}, end);
${open}
  const int first = ${keys}[start];
  const int is_behind = start > 0 && ${keys}[start - 1] == first;
  ${T} v[${SHARE}];
  int keys[${SHARE}];
  #pragma unroll
  for (int e = 0; e < ${SHARE}; ++e) {
    keys[e] = -1; v[e] = 0;
    if (from + e < end) { keys[e] = ${keys}[from + e]; const int place = ${places}[from + e]; v[e] = ${
    loadText("a2", dtype, source("place"))
  }; }
  }
  // The sum of the work-item's last run; whether that began within its share.
  ${T} tail = 0;
  int breaks = 0;
  #pragma unroll
  for (int e = 0; e < ${SHARE}; ++e) {
    if (e > 0 && keys[e] != keys[e - 1]) { tail = 0; breaks = 1; }
    tail += v[e];
  }
  lasts[lid] = keys[${SHARE - 1}];
  barrier(CLK_LOCAL_MEM_FENCE);
  const int follows = lid > 0 && lasts[lid - 1] == keys[0];
  sums[lid] = tail; heads[lid] = breaks || !follows;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int h = 1; h < ${GROUP}; h <<= 1) {
    const ${T} other = lid >= h ? sums[lid - h] : 0;
    const int is_head = heads[lid], is_other = lid >= h ? heads[lid - h] : 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!is_head) { sums[lid] = other + sums[lid]; heads[lid] = is_other; }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  ${T} total = follows ? sums[lid - 1] : 0;
  #pragma unroll
  for (int e = 0; e < ${SHARE}; ++e) {
    const int t = from + e, key = keys[e];
    if (t >= end) continue;
    total += v[e];
    const int is_last = t + 1 == ${count} || (e + 1 < ${SHARE} && t + 1 < end ? keys[min(e + 1, ${
    SHARE - 1
  })] : ${keys}[t + 1]) != key;
    if (is_last) {
      ${endRun(plan, target, part)}
      total = 0;
    } else if (t + 1 == end) ${tails}[${part}] = total;
  }`;
}

/** A work-item adds up a chunk of a column, one source after the other. */
function addColumns(plan: SortedScatter, p: Parameters): string {
  const { dtype } = plan.kernel.output;
  const T = computeType(scatterAccumulator(plan.kernel));
  const count = p.index(plan.count), columns = p.index(plan.columns);
  const across = p.index(Math.ceil(plan.columns / GROUP)), chunkSize = p.index(plan.chunk);
  const { open, source, target } = addresses(plan, p), { keys, places, tails } = namesOf(plan);
  const part = `chunk * ${columns} + column`;
  return `  const int chunk = get_group_id(0) / ${across};
  const int column = get_group_id(0) % ${across} * ${GROUP} + (int)get_local_id(0);
  if (column >= ${columns}) return;
  const int start = chunk * ${chunkSize}, end = min(start + ${chunkSize}, ${count});
${open}
  const int first = ${keys}[start];
  const int is_behind = start > 0 && ${keys}[start - 1] == first;
  ${T} total = 0;
  for (int t0 = start; t0 < end; t0 += ${SHARE}) {
    ${T} v[${SHARE}];
    #pragma unroll
    for (int e = 0; e < ${SHARE}; ++e) { const int place = ${places}[min(t0 + e, end - 1)]; v[e] = ${
    loadText("a2", dtype, source("place"))
  }; }
    #pragma unroll
    for (int e = 0; e < ${SHARE}; ++e) {
      const int t = t0 + e;
      if (t >= end) continue;
      const int key = ${keys}[t];
      total += v[e];
      if (t + 1 == ${count} || ${keys}[t + 1] != key) {
      ${endRun(plan, target, part)}
        total = 0;
      }
    }
  }
  if (end < ${count} && ${keys}[end] == ${keys}[end - 1]) ${tails}[${part}] = total;`;
}

/** Joins the parts of a run that ends in another chunk than it began in, in order. */
function joinRuns(plan: SortedScatter, p: Parameters): string {
  const { dtype } = plan.kernel.output;
  const T = computeType(scatterAccumulator(plan.kernel));
  const count = p.index(plan.count), columns = p.index(plan.columns);
  const chunks = p.index(chunksOf(plan)), chunkSize = p.index(plan.chunk);
  const { open, target } = addresses(plan, p), { keys, heads, tails } = namesOf(plan);
  return `  const int item = get_global_id(0);
  if (item >= ${chunks} * ${columns}) return;
  const int chunk = item / ${columns}, column = item % ${columns};
  const int start = chunk * ${chunkSize}, end = min(start + ${chunkSize}, ${count});
  const int key = ${keys}[start];
  if (start == 0 || ${keys}[start - 1] != key || (end < ${count} && ${keys}[end] == key)) return;
${open}
  // The first chunk that ends with the run: it began there.
  int low = 0, high = chunk - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if ((uint)${keys}[(middle + 1) * ${chunkSize} - 1] < (uint)key) low = middle + 1;
    else high = middle;
  }
  ${T} total = 0;
  #pragma unroll 8
  for (int c = low; c < chunk; ++c) total += ${tails}[c * ${columns} + column];
  total += ${heads}[item];
  const int goal = ${target("key")};
  ${storeText("o0", dtype, "goal", `${loadText("o0", dtype, "goal")} + total`)}`;
}
