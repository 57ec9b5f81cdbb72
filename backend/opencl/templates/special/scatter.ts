/** Scatters: a work-item or a group takes a line of the result along the axis, with all its sources. */
import { opCode } from "../../../graph/index_error.ts";
import { sizeOf, stridesOf } from "../../../graph/shape.ts";
import { loadText, storeText } from "../../codegen/types.ts";
import { generatedSpecial, type Parameters, rowTemplate } from "../parts/row_kernel.ts";
import type { Planned, SpecialTemplate } from "../parts/template.ts";
import { baseText, hasSharedIndices, joinedText, type Scatter } from "./scatter_text.ts";
import type { Target } from "../../../kernel/target.ts";

/** Neighbouring lines of a strip: two cache lines of floats, whose rows the second cache has room for. */
const STRIP = 32;

/**
 * A strip of lines an item of CPU devices, where lines are neighbours: a line along the axis touches a cache
 * line an element (PoCL 3.1, two cores, 500 x 1000 sources to 1000 x 1000: 13 ms, 1.5).
 */
export const stripScatter: SpecialTemplate<Planned<Scatter>> = {
  ...rowTemplate(
    "strip scatter",
    "scatter",
    stripsOf,
    (kernel, p) => scatterLines(kernel, p, true),
  ),
  matches: (kernel, target) =>
    !target.isGpu && kernel.op === "scatter" && kernel.axis < kernel.shape.length - 1 &&
      stripsOf(kernel) >= target.computeUnits
      ? { kernel, target }
      : null,
};

const piecesOf = ({ shape }: Scatter): number => Math.max(1, Math.ceil(shape.at(-1)! / STRIP));

function stripsOf(kernel: Scatter): number {
  const { shape, axis } = kernel;
  return sizeOf(shape.slice(0, -1).filter((_, k) => k !== axis)) * piecesOf(kernel);
}

/**
 * Work-items of a group that takes a line of a GPU, and the places at which they ask who is first. Two targets
 * of one place are taken one after the other.
 */
const GROUP = 256, PLACES = 2048;
/** Sources of a line that are worth a group, targets that few of a group share, and lines that keep a GPU busy by themselves. */
const MIN_SOURCES = 64, MIN_TARGETS = 64, MANY_LINES = 1 << 16;
/** Sources of one line that a group is through with before they could be sorted. */
const MANY_SOURCES = 8192;

/** True where a GPU's groups take the lines of a scatter, each with indices of its own. */
export function isByGroup(kernel: Scatter, { isGpu, computeUnits }: Target): boolean {
  const { shape, sourceShape, axis } = kernel,
    lines = linesOf(kernel),
    sources = sourceShape[axis]!;
  return isGpu && !hasSharedIndices(kernel) && sources >= MIN_SOURCES &&
    shape[axis]! >= MIN_TARGETS && (axis === shape.length - 1 || lines <= MANY_LINES) &&
    (sources <= MANY_SOURCES || lines >= computeUnits);
}

/**
 * A group a line: its work-items take a source each, and of those with one target the first goes first, so
 * that sums are those of a walk along the line. On an H200 2^24 floats by random indices along rows of 4096
 * take an item a line 3.6 ms.
 */
export const groupScatter: SpecialTemplate<Planned<Scatter>> = {
  name: "group scatter",
  matches: (kernel, target) =>
    kernel.op === "scatter" && isByGroup(kernel, target) ? { kernel, target } : null,
  workItems: ({ kernel }) => linesOf(kernel) * GROUP,
  emit: (plan) => [generatedSpecial(
    plan,
    (p) => scatterByGroup(plan.kernel, p),
    Math.max(1, linesOf(plan.kernel)),
    GROUP,
  )],
};

/** One work-item a line. */
export const lineScatter = rowTemplate(
  "line scatter",
  "scatter",
  linesOf,
  (kernel, p) => scatterLines(kernel, p, false),
);

/** Lines along the axis: one for each of the other coordinates of the result. */
function linesOf({ shape, axis }: Scatter): number {
  return shape.reduce((n, size, k) => k === axis ? n : n * size, 1);
}

/** Join of a source with the element that it goes to. */
function joined({ mode, output: { dtype } }: Scatter, target: string, from: string): string {
  const source = loadText("a2", dtype, from);
  return storeText("o0", dtype, target, joinedText(mode, dtype, target, source));
}

/** Declares where a line begins in the result, the sources and the indices, by the axes that are not taken; `skip` where it has none. */
function placeLine(kernel: Scatter, p: Parameters, taken: readonly number[]): string[] {
  const { shape, sourceShape, indexStrides } = kernel;
  const strides = stridesOf(shape), sourceStrides = stridesOf(sourceShape);
  return [
    "  Index base = 0, at = 0, index = 0, skip = 0;",
    ...shape.map((_, k) => k).filter((k) => !taken.includes(k)).toReversed().map((k) => {
      const n = p.index(shape[k]!);
      return `  { const Index i = rest % ${n}; rest /= ${n}; base += i * ${
        p.index(strides[k]!)
      }; at += i * ${p.index(sourceStrides[k]!)}; index += i * ${
        p.index(indexStrides[k]!)
      }; skip |= i >= ${p.index(sourceShape[k]!)}; }`;
    }),
  ];
}

/** The names of what a line's loops need. */
function alongAxis(kernel: Scatter, p: Parameters) {
  const { shape, sourceShape, indexStrides, axis } = kernel;
  const count = p.index(shape[axis]!), code = p.index(opCode(kernel.opName));
  return {
    step: p.index(stridesOf(shape)[axis]!),
    count,
    sourceStep: p.index(stridesOf(sourceShape)[axis]!),
    sourceCount: p.index(sourceShape[axis]!),
    indexStep: p.index(indexStrides[axis]!),
    checked: (at: string) => `checked_index((long)a1[${at}], ${count}, (int)${code}, errors)`,
  };
}

/**
 * A work-item per line along the axis, over all other coordinates of the result, or per strip of neighbouring
 * lines, which reads and writes stretches of memory: it copies the base, then adds its sources in order. No two
 * items write the same element, so sums are deterministic.
 */
function scatterLines(kernel: Scatter, p: Parameters, strip: boolean): string {
  const { shape, sourceShape, indexStrides, axis, mode, output: { dtype } } = kernel;
  const last = shape.length - 1, pieces = strip ? p.index(piecesOf(kernel)) : "";
  const end = (size: number): string => `min(first + ${STRIP}, (Index)${p.index(size)})`;
  const across = (behind: string): string =>
    strip ? `for (Index c = first; c < ${behind}; ++c) ` : "";
  const [c, apart] = strip ? [" + c", ` + c * ${p.index(indexStrides[last]!)}`] : ["", ""];
  const { step, count, sourceStep, sourceCount, indexStep, checked } = alongAxis(kernel, p);
  const target = `base + j * ${step}${c}`, source = baseText(kernel, target);
  return [
    `  if (row >= ${p.index(strip ? stripsOf(kernel) : linesOf(kernel))}) return;`,
    `  Index rest = row${strip ? ` / ${pieces}` : ""};`,
    ...placeLine(kernel, p, strip ? [axis, last] : [axis]),
    ...strip
      ? [`  const Index first = row % ${pieces} * ${STRIP}, end = ${end(shape[last]!)};`]
      : [],
    mode === "write"
      ? ""
      : `  for (Index j = 0; j < ${count}; ++j) ${across("end")}{ ${
        storeText("o0", dtype, target, source)
      } }`,
    "  if (skip) return;",
    `  for (Index s = 0; s < ${sourceCount}; ++s) ${across(strip ? end(sourceShape[last]!) : "")}{`,
    `    const Index j = ${checked(`index + s * ${indexStep}${apart}`)};`,
    `    ${joined(kernel, target, `at + s * ${sourceStep}${c}`)}`,
    "  }",
  ].join("\n");
}

/** One group for a line. */
function scatterByGroup(kernel: Scatter, p: Parameters): string {
  const { axis, output: { dtype } } = kernel;
  const place = placeLine(kernel, p, [axis]);
  const { step, count, sourceStep, sourceCount, indexStep, checked } = alongAxis(kernel, p);
  const target = `base + j * ${step}`, source = baseText(kernel, target);
  const copy = `  for (Index j = item; j < ${count}; j += ${GROUP}) { ${
    storeText("o0", dtype, target, source)
  } }`;
  return `  local int first[${PLACES}], more[2];
  const int item = get_local_id(0);
  Index rest = get_group_id(0);
${place.join("\n")}
${kernel.mode === "write" ? "" : copy}
  if (skip) return;
  for (int k = item; k < ${PLACES}; k += ${GROUP}) first[k] = ${GROUP};
  if (item < 2) more[item] = 0;
  int turn = 0;
  for (Index begin = 0; begin < ${sourceCount}; begin += ${GROUP}) {
    const Index s = begin + item;
    int waits = s < ${sourceCount}, again = 1;
    const Index from = at + s * ${sourceStep};
    const Index j = waits ? ${checked(`index + s * ${indexStep}`)} : 0;
    const int place = (int)(j % ${PLACES});
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    while (again) {
      if (waits) atomic_min(&first[place], item);
      barrier(CLK_LOCAL_MEM_FENCE);
      const int goes = waits && first[place] == item;
      if (goes) { ${joined(kernel, target, "from")} }
      else if (waits) more[turn & 1] = 1;
      if (item == 0) more[(turn + 1) & 1] = 0;
      barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
      again = more[turn & 1];
      if (goes) { first[place] = ${GROUP}; waits = 0; }
      ++turn;
      barrier(CLK_LOCAL_MEM_FENCE);
    }
  }`;
}
