/**
 * Scatters on GPUs whose indices are the same for all lines (an embedding's gradient, `indexAdd`): a
 * work-group for every source row. The first row of an index (or the last one, where values are set) owns
 * the target row, and sums all rows of that index in order, so the result is the same every time. The
 * other groups find an earlier row of their index, and end.
 *
 * The search is quadratic in the rows, so many rows are taken in pieces, one launch after the other.
 * Against one work-item a line, on an H100: 16,384 rows into 65 of 384 elements 3.5 ms before, 8,192 rows
 * into 200,000 of 128 elements 73 ms before.
 */
import { opCode } from "../../../graph/index_error.ts";
import { stridesOf } from "../../../graph/shape.ts";
import { computeType, loadText, storeText } from "../../codegen/types.ts";
import type { Generated } from "../../codegen/generated.ts";
import { generatedSpecial, type Parameters } from "../parts/row_kernel.ts";
import type { Planned, SpecialTemplate } from "../parts/template.ts";
import {
  addsOrSets,
  columnPlace,
  copyBase,
  hasSharedIndices,
  linesOf,
  type Scatter,
} from "./scatter_text.ts";

/** Work-items of a group; rows that it looks at in a turn; rows of one launch. */
const GROUP = 128, TURN = 1024, PIECE = 16384;

/** One work-group a source row and a piece of its columns. */
export const sharedScatter: SpecialTemplate<Planned<Scatter>> = {
  name: "shared-index scatter",
  matches: (kernel, target) =>
    target.isGpu && kernel.op === "scatter" && addsOrSets(kernel) && kernel.shape.length > 1 &&
      hasSharedIndices(kernel)
      ? { kernel, target }
      : null,
  emit: kernelsOf,
  workItems: ({ kernel }) => kernel.sourceShape[kernel.axis]! * columnGroups(kernel),
};

/** Work-groups that share a source row. */
const columnGroups = (kernel: Scatter): number => Math.ceil(linesOf(kernel) / GROUP);

/** The kernels in the order in which they run, all of the same buffers. */
function kernelsOf(plan: Planned<Scatter>): Generated[] {
  const { kernel } = plan, count = kernel.sourceShape[kernel.axis]!;
  const pieces = Array.from({ length: Math.ceil(count / PIECE) }, (_, k) => k * PIECE);
  return [
    copyBase(kernel, (...all) => generatedSpecial(plan, ...all)),
    ...pieces.map((first) => {
      const end = Math.min(first + PIECE, count), groups = (end - first) * columnGroups(kernel);
      return generatedSpecial(plan, (p) => scatterPiece(kernel, p, first, end), groups, GROUP);
    }),
  ];
}

/** Adds (or sets) the source rows from `first` to before `end`. */
function scatterPiece(kernel: Scatter, p: Parameters, first: number, end: number): string {
  const { shape, sourceShape, axis, indexStrides, mode, opName } = kernel;
  const { dtype } = kernel.output;
  const strides = stridesOf(shape), sourceStrides = stridesOf(sourceShape);
  const columns = columnGroups(kernel);
  const [from, behind, across] = [p.index(first), p.index(end), p.index(columns)];
  const step = p.index(indexStrides[axis]!), count = p.index(shape[axis]!);
  const sourceStep = p.index(sourceStrides[axis]!);
  const isAdd = mode === "add";
  const body = `  local int found; local uint mask[${TURN / 32}];
  const int lid = get_local_id(0);
  const Index mine = ${from} + (Index)get_group_id(0) / ${across};
  const Index line = (Index)get_group_id(0) % ${across} * ${GROUP} + lid;
  const Index index = checked_index((long)a1[mine * ${step}], ${count}, (int)${
    p.index(opCode(opName))
  }, errors);
  if (lid == 0) found = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  // Another row owns the target where it comes before this one, or after it where values are set.
  const Index low = ${isAdd ? from : "mine + 1"}, high = ${isAdd ? "mine" : behind};
  for (Index t0 = low; t0 < high; t0 += ${TURN}) {
    int same = 0;
    for (Index t = t0 + lid; t < min(t0 + ${TURN}, high); t += ${GROUP}) same |= a1[t * ${step}] == index;
    if (same) found = 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    const int some = found;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (some) return;
  }
${columnPlace(kernel, p, "line")}
  const int has = line < ${p.index(linesOf(kernel))};
  const Index target = base + index * ${p.index(strides[axis]!)};
`;
  const set = `  if (has) { ${
    storeText("o0", dtype, "target", loadText("a2", dtype, `at + mine * ${sourceStep}`))
  } }`;
  const add = `  ${computeType(dtype)} sum = has ? ${loadText("o0", dtype, "target")} : 0;
  if (lid < ${TURN / 32}) mask[lid] = 0;
  if (lid == 0) found = 0;
  for (Index t0 = mine; t0 < ${behind}; t0 += ${TURN}) {
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int u = lid; u < ${TURN}; u += ${GROUP}) {
      if (t0 + u < ${behind} && a1[(t0 + u) * ${step}] == index) {
        atomic_or(&mask[u >> 5], 1u << (u & 31));
        found = 1;
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int some = found;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!some) continue;
    for (int w = 0; w < ${TURN / 32}; ++w) {
      for (uint bits = mask[w]; bits != 0; bits &= bits - 1) {
        const Index t = t0 + w * 32 + 31 - (int)clz(bits & -bits);
        if (has) sum += ${loadText("a2", dtype, `at + t * ${sourceStep}`)};
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid < ${TURN / 32}) mask[lid] = 0;
    if (lid == 0) found = 0;
  }
  if (has) { ${storeText("o0", dtype, "target", "sum")} }`;
  return body + (isAdd ? add : set);
}
