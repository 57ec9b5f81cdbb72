/**
 * Running results by blocks: a row is cut into chunks, whose totals come first; then each chunk starts from
 * what is joined before it. On a GPU a work-group takes a chunk, on a CPU device a work-item does. Chunks
 * depend on the length alone, so results are the same every time.
 */
import { isFloat } from "../../../graph/dtype.ts";
import { combinerOf, identityOf } from "../../../graph/reductions.ts";
import type { SpecialKernel } from "../../../kernel/kernel.ts";
import type { Target } from "../../../kernel/target.ts";
import type { Generated } from "../../codegen/generated.ts";
import { renderScalar } from "../../codegen/scalar_primitives.ts";
import { computeType, literal, loadText, storeText } from "../../codegen/types.ts";
import { generatedSpecial, type Parameters } from "../parts/row_kernel.ts";
import type { KernelSequence, Planned, SpecialTemplate } from "../parts/template.ts";
import type { Scratch } from "../../../kernel/template.ts";

type Scan = SpecialKernel & { readonly op: "scan" };

/** Rows of a GPU that are shorter are walked by a work-item each. */
const MIN_LENGTH = 64;
/** Work-items of a group, and elements that each of them takes side by side. */
const GROUP = 256, ITEM_ELEMENTS = 4;
/** Elements that a group takes side by side, and how often at a time. */
const TILE = GROUP * ITEM_ELEMENTS, MAX_TILES = 4;
/** A chunk has so many elements at least, and a row so many chunks at most: each adds up all before it. */
const MIN_CHUNK = MAX_TILES * TILE, MAX_CHUNKS = 512;
/** Elements of a CPU device's chunk. */
const CPU_CHUNK = 1 << 14;

/** Cuts of a row. */
interface ScanPlan extends Planned<Scan> {
  /** Elements of a chunk, and chunks of a row. */
  readonly chunk: number;
  readonly chunks: number;
}

/** Long rows, or few of them. */
export const blockScan: SpecialTemplate<ScanPlan> = {
  name: "block scan",
  matches: (kernel, target) => kernel.op === "scan" ? planOf(kernel, target) : null,
  emit: sequenceOf,
  scratch: scratchOf,
  workItems: ({ kernel, target, chunks }) => kernel.rows * chunks * (target.isGpu ? GROUP : 1),
};

/** Totals of chunks; on a GPU, beside each, what its additions have rounded off. */
function scratchOf({ kernel, target, chunks }: ScanPlan): Scratch[] {
  const numbers = target.isGpu && isCompensated(kernel) ? 2 : 1;
  return chunks === 1 ? [] : [{ dtype: accumulator(kernel), size: kernel.rows * chunks * numbers }];
}

function planOf(kernel: Scan, target: Target): ScanPlan | null {
  const { rows, length, fn, output } = kernel;
  if (target.isGpu) {
    if (length < MIN_LENGTH) return null;
    const chunk = Math.max(MIN_CHUNK, Math.ceil(length / MAX_CHUNKS));
    return { kernel, target, chunk, chunks: Math.ceil(length / chunk) };
  }
  // A product of few factors may leave the range of floats where the running product does not.
  if (fn === "prod" && isFloat(output.dtype)) return null;
  if (rows >= 2 * target.computeUnits || length < 2 * CPU_CHUNK) return null;
  const chunk = Math.max(CPU_CHUNK, Math.ceil(length / MAX_CHUNKS));
  return { kernel, target, chunk, chunks: Math.ceil(length / chunk) };
}

function sequenceOf(plan: ScanPlan): KernelSequence {
  const { target, chunks } = plan;
  const [first, results] = target.isGpu ? [groupTotals, groupResults] : [itemTotals, itemResults];
  const last = kernelOf(plan, results);
  return chunks === 1 ? [last] : [kernelOf(plan, first), last];
}

/** The type of totals: half types are added up in single precision. */
function accumulator({ output: { dtype } }: Scan): Scan["output"]["dtype"] {
  return dtype === "float16" || dtype === "bfloat16" ? "float32" : dtype;
}

function kernelOf(plan: ScanPlan, body: (plan: ScanPlan, p: Parameters) => string): Generated {
  const { kernel, target, chunk, chunks } = plan;
  const piece = target.isGpu ? "get_group_id(0)" : "get_global_id(0)";
  const write = (p: Parameters): string => {
    const length = p.index(kernel.length), share = p.index(chunk), count = p.index(chunks);
    return `  const Index piece = ${piece}, row = piece / ${count}, part = piece % ${count};
  const Index start = row * ${length} + part * ${share};
  const Index end = min(start + ${share}, (row + 1) * ${length});
${body(plan, p)}`;
  };
  return generatedSpecial(
    plan,
    write,
    kernel.rows * chunks,
    target.isGpu ? GROUP : 1,
    scratchOf(plan),
  );
}

/** Words that scans are written with: the type, the identity, the join of two results. */
function words({ fn, output: { dtype }, inputs }: Scan) {
  return {
    T: computeType(dtype),
    identity: literal(identityOf(fn, dtype), dtype),
    join: (a: string, b: string): string => renderScalar(combinerOf(fn), [a, b], dtype, dtype),
    load: (index: string): string => loadText("a0", inputs[0]!, index),
    store: (index: string, value: string): string => storeText("o0", dtype, index, value),
  };
}

/**
 * Joins `carry` of each work-item, and what its additions have rounded off; all of them then have the
 * results in `joined[0]` and `lost[0]`.
 */
function joinGroup(kernel: Scan): string {
  const isLong = isCompensated(kernel),
    put = `joined[lid] = carry;${isLong ? " lost[lid] = rest;" : ""}`;
  return `${put}
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int h = ${GROUP / 2}; h > 0; h >>= 1) {
    if (lid < h) {
      ${carryOn(kernel, "joined[lid + h]")}${isLong ? " rest += lost[lid + h];" : ""}
      ${put}
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }`;
}

/** Declares what a group joins in local memory, and the work-item's `carry`. */
function openGroup(kernel: Scan): string {
  const { T, identity } = words(kernel), isLong = isCompensated(kernel);
  return `  const int lid = get_local_id(0);
  local ${T} joined[${GROUP}]${isLong ? `, lost[${GROUP}]` : ""};
  ${T} carry = ${identity}${isLong ? ", rest = 0" : ""};`;
}

function groupTotals({ kernel }: ScanPlan): string {
  const { load } = words(kernel);
  return `${openGroup(kernel)}
  #pragma unroll 8
  for (Index i = start + lid; i < end; i += ${GROUP}) { ${carryOn(kernel, load("i"))} }
  ${joinGroup(kernel)}
  if (lid == 0) { ${
    isCompensated(kernel)
      ? "o1[2 * piece] = joined[0]; o1[2 * piece + 1] = lost[0];"
      : "o1[piece] = joined[0];"
  } }`;
}

/** Joins the totals of the chunks before. */
function joinBefore(kernel: Scan): string {
  const isLong = isCompensated(kernel);
  const add = isLong
    ? `${carryOn(kernel, "o1[2 * t]")} rest += o1[2 * t + 1];`
    : carryOn(kernel, "o1[t]");
  return `
  for (Index t = piece - part + lid; t < piece; t += ${GROUP}) { ${add} }
  ${joinGroup(kernel)}
  carry = joined[0];${isLong ? " rest = lost[0];" : ""}
  barrier(CLK_LOCAL_MEM_FENCE);`;
}

/**
 * A group takes some tiles at a time, so that what work-items join of all of them waits together: items have
 * neighbours of each tile, and sum them up, then what items have is summed up in local memory.
 */
function groupResults({ kernel, chunk, chunks }: ScanPlan): string {
  const { T, identity, join, load, store } = words(kernel), isLong = isCompensated(kernel);
  const tiles = Math.min(MAX_TILES, Math.ceil(Math.min(chunk, kernel.length) / TILE));
  // What is small is added up first: the result is rounded once, where it is large.
  const value = isLong
    ? join("carry", join("rest", join("low", "x[u][k]")))
    : join("carry", join("low", "x[u][k]"));
  const each = (body: string): string =>
    `for (int u = 0; u < ${tiles}; ++u) {
      ${body}
    }`;
  return `${openGroup(kernel)}${chunks === 1 ? "" : joinBefore(kernel)}
  local ${T} sums[2][${tiles * GROUP}];
  for (Index base = start + lid * ${ITEM_ELEMENTS}; base - lid * ${ITEM_ELEMENTS} < end; base += ${
    tiles * TILE
  }) {
    ${T} x[${tiles}][${ITEM_ELEMENTS}], so[${tiles}];
    #pragma unroll
    ${
    each(`so[u] = ${identity};
      #pragma unroll
      for (int k = 0; k < ${ITEM_ELEMENTS}; ++k) {
        const Index i = base + u * ${TILE} + k;
        x[u][k] = i < end ? ${load("i")} : ${identity};
      }`)
  }
    #pragma unroll
    ${
    each(`#pragma unroll
      for (int k = 0; k < ${ITEM_ELEMENTS}; ++k) {
        if (base + u * ${TILE} + k < end) so[u] = ${join("so[u]", "x[u][k]")};
        x[u][k] = so[u];
      }
      sums[0][u * ${GROUP} + lid] = so[u];`)
  }
    int from = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int h = 1; h < ${GROUP}; h <<= 1) {
      #pragma unroll
      ${
    each(`if (lid >= h) so[u] = ${join(`sums[from][u * ${GROUP} + lid - h]`, "so[u]")};
      sums[1 - from][u * ${GROUP} + lid] = so[u];`)
  }
      from = 1 - from;
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    #pragma unroll
    ${
    each(`const ${T} low = lid > 0 ? sums[from][u * ${GROUP} + lid - 1] : ${identity};
      #pragma unroll
      for (int k = 0; k < ${ITEM_ELEMENTS}; ++k) {
        const Index i = base + u * ${TILE} + k;
        if (i < end) { ${store("i", value)} }
      }
      ${carryOn(kernel, `sums[from][u * ${GROUP} + ${GROUP - 1}]`)}`)
  }
    barrier(CLK_LOCAL_MEM_FENCE);
  }`;
}

/** True for sums of floats: what an addition rounds off is kept. */
const isCompensated = ({ fn, output }: Scan): boolean => fn === "sum" && isFloat(output.dtype);

/** Joins `carry` with a value; `rest` is what the additions so far have rounded off (D. Knuth's TwoSum). */
function carryOn(kernel: Scan, value: string): string {
  const { T, join } = words(kernel);
  if (!isCompensated(kernel)) return `carry = ${join("carry", value)};`;
  return `{ const ${T} v = ${value}, next = carry + v, added = next - carry;
      const ${T} lost = (carry - (next - added)) + (v - added);
      rest += lost == lost ? lost : 0; carry = next; }`;
}

/** Walks a chunk from `carry`; `visit` gets each result. */
function walk({ kernel }: ScanPlan, visit: string): string {
  const { load } = words(kernel);
  return `  for (Index i = start; i < end; ++i) { ${carryOn(kernel, load("i"))} ${visit} }`;
}

function itemTotals(plan: ScanPlan): string {
  const { T, identity } = words(plan.kernel);
  const isLong = isCompensated(plan.kernel);
  return `  ${T} carry = ${identity}${isLong ? ", rest = 0" : ""};
${walk(plan, "")}
  o1[piece] = carry${isLong ? " + rest" : ""};`;
}

function itemResults(plan: ScanPlan): string {
  const { T, identity, store } = words(plan.kernel);
  const isLong = isCompensated(plan.kernel);
  return `  ${T} carry = ${identity}${isLong ? ", rest = 0" : ""};
  for (Index t = piece - part; t < piece; ++t) { ${carryOn(plan.kernel, "o1[t]")} }
${walk(plan, store("i", isLong ? "carry + rest" : "carry"))}`;
}
