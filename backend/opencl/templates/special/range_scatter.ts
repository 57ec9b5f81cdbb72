/**
 * Scatters on processors whose indices are the same for all lines (an embedding's gradient, `indexAdd`,
 * `bincount`): a work-item takes a range of the target's rows. It copies them from the base, then goes
 * through all indices and adds the sources of its own rows in order, so the result is the same every time.
 *
 * Rows lie side by side in memory, so an item reads and writes whole stretches of it; a line along the axis
 * would touch a cache line an element. Against one item a line, 1,024 rows into 20,000 of 128 elements on
 * two cores with PoCL 3.1: a ninth of the processor time.
 */
import { opCode } from "../../../graph/index_error.ts";
import { sizeOf } from "../../../graph/shape.ts";
import { loadText, storeText } from "../../codegen/types.ts";
import { generatedSpecial, type Parameters } from "../parts/row_kernel.ts";
import type { Planned, SpecialTemplate } from "../parts/template.ts";
import { joinedText, type Scatter } from "./scatter_text.ts";

/** Elements that are worth a work-item. */
const MIN_ELEMENTS = 4096;
/** Ranges for each core where rows are long: the cores end at about the same time. */
const RANGES_PER_CORE = 4;
/** Shorter rows get at most a range a core: looking at the indices costs as much as adding. */
const LONG_ROW = 16;

/** One work-item a range of target rows. */
export const rangeScatter: SpecialTemplate<Planned<Scatter>> = {
  name: "range scatter",
  matches: (kernel, target) =>
    !target.isGpu && kernel.op === "scatter" && kernel.mode !== "write" && hasWholeRows(kernel)
      ? { kernel, target }
      : null,
  emit: (plan) => [generatedSpecial(plan, (p) => bodyOf(plan, p), Math.max(1, itemsOf(plan)), 1)],
  workItems: itemsOf,
};

/** True where an index says where a whole row of the source goes. */
function hasWholeRows({ indexStrides, shape, sourceShape, axis }: Scatter): boolean {
  return shape.every((size, k) => k === axis || indexStrides[k] === 0 && sourceShape[k] === size);
}

/** Coordinates before the axis, elements of a row behind it, and the ranges that the axis is cut into. */
interface Parts {
  readonly outer: number;
  readonly inner: number;
  readonly ranges: number;
}

function itemsOf(plan: Planned<Scatter>): number {
  return partsOf(plan).outer * partsOf(plan).ranges;
}

function partsOf({ kernel: { shape, axis }, target }: Planned<Scatter>): Parts {
  const outer = sizeOf(shape.slice(0, axis)), inner = sizeOf(shape.slice(axis + 1));
  const wanted = target.computeUnits * (inner >= LONG_ROW ? RANGES_PER_CORE : 1);
  const worth = Math.ceil(shape[axis]! * inner / MIN_ELEMENTS);
  const ranges = Math.max(1, Math.min(Math.ceil(wanted / Math.max(outer, 1)), worth, shape[axis]!));
  return { outer, inner, ranges };
}

function bodyOf(plan: Planned<Scatter>, p: Parameters): string {
  const { shape, sourceShape, indexStrides, axis, mode, opName, output: { dtype } } = plan.kernel;
  const { outer, inner, ranges } = partsOf(plan);
  const [items, cuts] = [p.index(outer * ranges), p.index(ranges)];
  const [count, share] = [p.index(shape[axis]!), p.index(Math.ceil(shape[axis]! / ranges))];
  const [sources, step] = [p.index(sourceShape[axis]!), p.index(indexStrides[axis]!)];
  const row = p.index(inner), code = p.index(opCode(opName));
  const added = loadText("a2", dtype, "at + k");
  const value = joinedText(mode, dtype, "to + k", added);
  return `  const Index item = get_global_id(0);
  if (item >= ${items}) return;
  const Index base = item / ${cuts} * ${count} * ${row};
  const Index first = item % ${cuts} * ${share}, behind = min(first + ${share}, ${count});
  for (Index i = base + first * ${row}; i < base + behind * ${row}; ++i) ${
    storeText("o0", dtype, "i", loadText("a0", dtype, "i"))
  }
  for (Index s = 0; s < ${sources}; ++s) {
    const Index j = checked_index((long)a1[s * ${step}], ${count}, (int)${code}, errors);
    if (j < first || j >= behind) continue;
    const Index at = (item / ${cuts} * ${sources} + s) * ${row}, to = base + j * ${row};
    for (Index k = 0; k < ${row}; ++k) ${storeText("o0", dtype, "to + k", value)}
  }`;
}
