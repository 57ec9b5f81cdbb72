/**
 * Sorting by merging: keys become whole numbers in the order that is asked for, runs of them are sorted, and
 * runs are merged in pairs until a row is one run. Each work-item writes some elements of a merged run,
 * which it finds by the merge path (O. Green, R. McColl, D. Bader, GPU Merge Path, 2012). Equal keys keep
 * their order. On GPUs groups do the same together (`group_sort.ts`).
 *
 * `templates/sorting/` holds what puts rows in order, whole (on GPUs by merging or by digits) or their first
 * places. It imports `parts/`, `opencl/codegen/`, `kernel/` and `graph/`; scatters of `special/` sort by it.
 */
import { type DType, dtypes, isFloat } from "../../../graph/dtype.ts";
import type { SpecialKernel } from "../../../kernel/kernel.ts";
import type { Generated } from "../../codegen/generated.ts";
import { computeType, loadText } from "../../codegen/types.ts";
import { generatedSpecial, type Parameters } from "../parts/row_kernel.ts";
import type { KernelSequence, Planned, SpecialTemplate } from "../parts/template.ts";
import type { Scratch } from "../../../kernel/template.ts";

export type Argsort = SpecialKernel & { readonly op: "argsort" };

/** Elements of a run that a work-item sorts by insertion. */
const RUN = 16;
/** Elements of a merged run that a work-item writes. */
const SHARE = 1024;

/** Rows of any length. */
export const mergeArgsort: SpecialTemplate<Planned<Argsort>> = {
  name: "merge argsort",
  matches: (kernel, target) => kernel.op === "argsort" ? { kernel, target } : null,
  emit: sequenceOf,
  scratch: ({ kernel }) => scratchOf(kernel),
  workItems: ({ kernel }) => kernel.rows * Math.ceil(kernel.length / RUN),
};

/** The type of keys: unsigned numbers, which lie in buffers of signed ones. */
export const keyTypeOf = ({ inputs }: Argsort): "uint" | "ulong" =>
  dtypes[inputs[0]!].bytes === 8 ? "ulong" : "uint";

/** The type of buffers that hold keys. */
export const keyBuffer = (keyType: "uint" | "ulong"): DType =>
  keyType === "ulong" ? "int64" : "int32";

/** Two buffers of keys, and one of indices beside the output: none where a row is one run. */
function scratchOf(kernel: Argsort): Scratch[] {
  const { rows, length, output } = kernel, key = keyBuffer(keyTypeOf(kernel));
  return length <= RUN
    ? []
    : [key, key, output.dtype].map((dtype) => ({ dtype, size: rows * length }));
}

function sequenceOf(plan: Planned<Argsort>): KernelSequence {
  const { kernel } = plan, { length, rows } = kernel, scratch = scratchOf(kernel);
  const passes: number[] = [];
  for (let width = RUN; width < length; width *= 2) passes.push(width);
  const make = (write: (p: Parameters) => string, share: number): Generated =>
    generatedSpecial(plan, write, rows * Math.ceil(length / share), 1, scratch);
  // The last pass writes to the output: so the first run is there after an even number of passes.
  return [
    make((p) => sortRuns(kernel, p, passes.length), RUN),
    ...passes.map((width, k) =>
      make((p) => merge(kernel, p, width, (passes.length - k) % 2 === 0), SHARE)
    ),
  ];
}

/** Declares `key` of an element: a number in the order that is asked for. */
export function sortKey(kernel: Argsort, at: string): string {
  const dtype = kernel.inputs[0]!, sign = kernel.descending ? "~" : "";
  return `const ${computeType(dtype)} v = ${loadText("a0", dtype, at)};
    const ${keyTypeOf(kernel)} key = ${sign}${keyText(kernel, "v")};`;
}

/** A key as an unsigned number: NaN is the largest, zeros are equal. */
function keyText(kernel: Argsort, value: string): string {
  const dtype = kernel.inputs[0]!, U = keyTypeOf(kernel), isLong = U === "ulong";
  const sign = isLong ? "0x8000000000000000UL" : "0x80000000u";
  if (!isFloat(dtype)) {
    return dtype === "uint8" || dtype === "bool" ? `(uint)${value}` : `((${U})${value} ^ ${sign})`;
  }
  const bits = isLong ? `as_ulong(${value} + 0.0)` : `as_uint(${value} + 0.0f)`;
  const top = isLong ? "0xffffffffffffffffUL" : "0xffffffffu";
  return `(${value} != ${value} ? ${top} : ${value} == 0 ? ${sign} : ${bits} & ${sign} ? ~${bits} : ${bits} | ${sign})`;
}

/** Sorts runs of `RUN` elements. */
function sortRuns(kernel: Argsort, p: Parameters, passes: number): string {
  const U = keyTypeOf(kernel);
  const [rows, length] = [p.index(kernel.rows), p.index(kernel.length)];
  const runs = p.index(Math.ceil(kernel.length / RUN));
  const isEven = passes % 2 === 0;
  const keys = passes === 0 ? "" : `((global ${U}*)${isEven ? "o1" : "o2"})[at + k] = keys[k]; `;
  return `  const Index item = get_global_id(0);
  if (item >= ${rows} * ${runs}) return;
  const Index row = item / ${runs}, from = item % ${runs} * ${RUN};
  const Index start = row * ${length}, at = start + from;
  const int count = (int)min((Index)${RUN}, ${length} - from);
  ${U} keys[${RUN}];
  int places[${RUN}];
  for (int k = 0; k < count; ++k) {
    ${sortKey(kernel, "at + k")}
    int j = k;
    for (; j > 0 && keys[j - 1] > key; --j) { keys[j] = keys[j - 1]; places[j] = places[j - 1]; }
    keys[j] = key;
    places[j] = k;
  }
  for (int k = 0; k < count; ++k) { ${keys}${isEven ? "o0" : "o3"}[at + k] = from + places[k]; }`;
}

/**
 * Merges pairs of runs of `width` elements; results of even passes from the end go to the second buffers,
 * so that the last pass writes the output.
 */
function merge(
  kernel: Argsort,
  p: Parameters,
  width: number,
  readsOutput: boolean,
): string {
  const U = keyTypeOf(kernel);
  const [rows, length, run] = [p.index(kernel.rows), p.index(kernel.length), p.index(width)];
  const shares = p.index(Math.ceil(kernel.length / SHARE));
  const [from, to] = readsOutput ? [["o1", "o0"], ["o2", "o3"]] : [["o2", "o3"], ["o1", "o0"]];
  return `  const Index item = get_global_id(0);
  if (item >= ${rows} * ${shares}) return;
  const Index row = item / ${shares}, begin = item % ${shares} * ${SHARE}, start = row * ${length};
  global const ${U}* keys = (global const ${U}*)${from![0]} + start;
  global ${U}* sorted = (global ${U}*)${to![0]} + start;
  const Index stop = min(begin + ${SHARE}, ${length});
  for (Index next = begin; next < stop;) {
    // The pair of runs [a0, b0) and [b0, end) that the next element is merged from.
    const Index a0 = next / (2 * ${run}) * (2 * ${run});
    const Index b0 = min(a0 + ${run}, ${length}), end = min(b0 + ${run}, ${length});
    const Index taken = next - a0;
    // How many of those before it are of the first run: the merge path's crossing of a diagonal.
    Index low = max(taken - (end - b0), (Index)0), high = min(taken, b0 - a0);
    while (low < high) {
      const Index middle = (low + high) / 2;
      if (keys[a0 + middle] <= keys[b0 + taken - 1 - middle]) low = middle + 1;
      else high = middle;
    }
    Index a = a0 + low, b = b0 + taken - low;
    for (const Index behind = min(stop, end); next < behind; ++next) {
      const int takes_first = b >= end || (a < b0 && keys[a] <= keys[b]);
      const Index source = takes_first ? a++ : b++;
      sorted[next] = keys[source];
      ${to![1]}[start + next] = ${from![1]}[start + source];
    }
  }`;
}
