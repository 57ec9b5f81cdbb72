/**
 * The elements of an operand that a work-item reads, copied into local memory: windows of an image, with zeros
 * where there is nothing, weights with their channels side by side. Loops whose elements overlap (positions and
 * taps) walk one axis, so that nothing is copied twice.
 *
 * This folder (`lanes/`) has the products of CPU devices, whose columns are on the lanes of vectors; it imports the
 * language and `kernel/`. Templates say what a work-item takes, and get a program.
 */
import { coefficient, type Term } from "../../../kernel/affine.ts";
import type { Bound, Load, LoopKernel } from "../../../kernel/kernel.ts";

/** Floats of a vector, and rows of a square that is transposed. */
export const LANES = 16;
/** Loops whose steps differ by at most this factor walk one axis: a stride, a dilation. */
export const MAX_STEP = 4;

/** One axis of the packed elements. */
export interface Axis {
  /** The loops that walk it, and by how many elements; those that go backwards begin at its end. */
  readonly walks: readonly Term[];
  /** Elements that are read, and from one to the next: in memory, and where they are packed. */
  readonly extent: number;
  readonly step: number;
  readonly stride: number;
  readonly bound: Bound | null;
}

/** The packed elements of an operand. */
export interface Box {
  readonly load: Load;
  /** The one along vectors is the last. */
  readonly axes: readonly Axis[];
  readonly sizes: readonly number[];
  /** Iterations of each loop that are packed together. */
  readonly counts: ReadonlyMap<number, number>;
  /** Room for all elements, and those of a row along the last axis, of one part. */
  readonly size: number;
  readonly row: number;
  /**
   * The last axis is in so many parts, element `q` as `q / parts` of part `q % parts`: a loop that walks it in
   * steps of so many finds neighbours side by side.
   */
  readonly parts: number;
  /** The last axis is in panels of so many elements, one behind the other; null: it is whole. */
  readonly panel: number | null;
  /** The axis along which elements lie side by side in memory, where that is not the last: squares are transposed. */
  readonly run: number | null;
  /** Zeros behind the last element, for vectors that read beyond the columns that count. */
  readonly slack?: number;
}

/** A box with room for more elements along its first axis: kernels of similar sizes are one. */
export const withCapacity = (box: Box, count: number): Box => ({
  ...box,
  size: box.size / box.axes[0]!.extent * count,
});

type Walked = Omit<Axis, "stride">;

const walksOf = (load: Load, counts: ReadonlyMap<number, number>): readonly Term[] =>
  load.index.terms.filter(([s]) => counts.has(s));

function axisOf(
  counts: ReadonlyMap<number, number>,
  walks: readonly Term[],
  step: number,
  bound: Bound | null = null,
): Walked {
  const extent = walks.reduce((n, [s, d]) => n + Math.abs(d) * (counts.get(s)! - 1), 1);
  return { walks, extent, step, bound };
}

/**
 * The box of a window; null where the elements do not form one.
 *
 * @param counts How many iterations of each loop are packed together.
 * @param last The loop whose axis is the last one.
 * @param inVectors Whether its elements become neighbours that are steps apart in memory.
 * @param rowOf Room for the elements of a row, or of a part of one.
 */
export function windowBox(
  { sizes }: Pick<LoopKernel, "sizes">,
  load: Load,
  counts: ReadonlyMap<number, number>,
  last: number,
  inVectors = false,
  rowOf = (count: number, parts: number): number => parts === 2 ? wholeVectors(count) : count,
): Box | null {
  const terms = walksOf(load, counts).toSorted((a, b) => a[1] - b[1]), placed = new Set<number>();
  const axes: Walked[] = [];
  for (const bound of load.bounds) {
    const walks = bound.index.terms.filter(([s]) => counts.has(s)), [first] = walks;
    const unit = first ? coefficient(load.index, first[0]) / first[1] : 0;
    if (!Number.isInteger(unit) || unit < 0) return null;
    for (const [s, d] of walks) {
      if (placed.has(s) || d < 0 || coefficient(load.index, s) !== unit * d) return null;
      placed.add(s);
    }
    axes.push(axisOf(counts, walks, unit, bound));
  }
  for (const [s, c] of terms) {
    if (placed.has(s)) continue;
    if (c < 0) return null;
    const near = terms.filter(([t, d]) => !placed.has(t) && d % c === 0 && d <= c * MAX_STEP);
    for (const [t] of near) placed.add(t);
    axes.push(axisOf(counts, near.map(([t, d]) => [t, d / c]), c));
  }
  const at = axes.findIndex(({ walks }) => walks.some(([s]) => s === last));
  if (at < 0) return null;
  const [along] = axes.splice(at, 1) as [Walked];
  axes.sort((a, b) => b.step - a.step).push(along);
  const parts = inVectors ? along.walks.find(([s]) => s === last)![1] : 1;
  return laidOut(sizes, load, axes, counts, { parts, rowOf });
}

/** The box of rows that lie side by side, in panels of so many, one term's behind the other. */
export function panelBox(
  { sizes }: LoopKernel,
  load: Load,
  counts: ReadonlyMap<number, number>,
  row: number,
  panel: number,
): Box {
  const [rows, ...terms] = walksOf(load, counts).toSorted((a) => a[0] === row ? -1 : 1);
  const axes = [...terms, rows!].map(([s, c]) => axisOf(counts, [[s, Math.sign(c)]], Math.abs(c)));
  return laidOut(sizes, load, axes, counts, { panel });
}

/**
 * The box of an operand whose rows become the lanes of vectors: each term of the sum finds a vector. Null where
 * elements do not grow along the lanes.
 */
export function transposedBox(
  kernel: LoopKernel,
  load: Load,
  counts: ReadonlyMap<number, number>,
  lane: number,
  panel?: number,
): Box | null {
  const apart = coefficient(load.index, lane);
  if (load.bounds.length > 0 || apart <= 0) return null;
  const terms = walksOf(load, counts).filter(([s]) => s !== lane);
  const near = apart === 1 ? [] : runOf(counts, terms);
  const others = terms.filter((term) => !near.includes(term)).map(([s, c]) =>
    axisOf(counts, [[s, Math.sign(c)]], Math.abs(c))
  );
  const lanes = axisOf(counts, [[lane, 1]], apart);
  const hasRun = near.length > 0, run = hasRun ? [axisOf(counts, near, 1)] : [];
  const form = { run: hasRun ? others.length : null, ...hasRun && { rowOf: wholeVectors }, panel };
  return laidOut(kernel.sizes, load, [...others, ...run, lanes], counts, form);
}

/** The loops that walk a run of elements of which at least half are read. */
function runOf(counts: ReadonlyMap<number, number>, terms: readonly Term[]): Term[] {
  const near: Term[] = [];
  let run = 1, read = 1;
  for (const term of terms.toSorted((a, b) => Math.abs(a[1]) - Math.abs(b[1]))) {
    const count = counts.get(term[0])!;
    run += Math.abs(term[1]) * (count - 1);
    read *= count;
    if (run > 2 * read && run > LANES) break;
    near.push(term);
  }
  return near;
}

/** Elements of whole vectors: squares and halves are of these. */
export const wholeVectors = (count: number): number => Math.ceil(count / LANES) * LANES;

/** Form of a box beside its axes. */
interface BoxForm extends Partial<Pick<Box, "parts" | "run">> {
  readonly rowOf?: (count: number, parts: number) => number;
  readonly panel?: number | undefined;
}

function laidOut(
  sizes: readonly number[],
  load: Load,
  axes: readonly Walked[],
  counts: ReadonlyMap<number, number>,
  { parts = 1, run = null, rowOf = (count) => count, panel }: BoxForm,
): Box {
  const last = axes.at(-1)!, row = rowOf(Math.ceil(last.extent / parts), parts);
  let size = panel ?? row * parts;
  const strided = axes.toReversed().map((axis, k) => {
    const stride = k === 0 ? 1 : size;
    if (k > 0) size *= axis.extent;
    return { ...axis, stride };
  });
  if (panel !== undefined) size *= Math.ceil(last.extent / panel);
  const form = { sizes, counts, size, row, parts, panel: panel ?? null, run };
  return { load, axes: strided.reverse(), ...form };
}
