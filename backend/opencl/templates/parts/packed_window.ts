/**
 * Window of an operand whose padding is not in memory (the images of a convolution): its
 * elements are packed into local memory, with zeros where there is nothing, and read from there as
 * often as tiles and taps overlap.
 */
import { type AffineExpr, coefficient, type Term } from "../../../kernel/affine.ts";
import type { Emitter } from "../../../codegen/emit.ts";
import type { Bound, Load } from "../../../kernel/kernel.ts";
import { step, without } from "./tile_text.ts";

/** Loops whose steps differ by at most this factor walk one axis: a stride, a dilation. */
export const MAX_STEP = 4;

/** One axis of the packed elements. */
interface Axis {
  /** The loops within the tile that walk it, and by how many elements. */
  readonly walks: readonly Term[];
  readonly extent: number;
  /** From one element to the next: in memory, and where they are packed. */
  readonly step: number;
  readonly stride: number;
  readonly bound: Bound | null;
  /**
   * The contiguous axis may be stored in so many parts, element `q` as `q / phases` of part
   * `q % phases`: then a loop that walks it in steps of `phases` finds neighbours side by side.
   */
  readonly phases: number;
}

/** The elements of an operand that the iterations of some loops read. */
export interface Window {
  readonly load: Load;
  /** The one along the column is the last. */
  readonly axes: readonly Axis[];
  /** Number of the elements. */
  readonly size: number;
}

/**
 * The window of a tile; null where the elements do not form one.
 *
 * @param load The operand.
 * @param counts How many iterations of each loop belong to a tile.
 * @param column The loop along which vectors are read, in steps of any size.
 * @param inVectors Whether neighbouring columns must lie side by side.
 */
export function windowOf(
  load: Load,
  counts: ReadonlyMap<number, number>,
  column: number,
  inVectors: boolean,
): Window | null {
  const axes: Omit<Axis, "stride" | "phases">[] = [];
  const placed = new Set<number>();
  const place = (walks: readonly Term[], bound: Bound | null): boolean => {
    const [first] = walks;
    const unit = first ? coefficient(load.index, first[0]) / first[1] : 0;
    if (!Number.isInteger(unit) || unit < 0) return false;
    for (const [s, d] of walks) {
      if (d < 0 || placed.has(s) || coefficient(load.index, s) !== unit * d) return false;
      placed.add(s);
    }
    const extent = walks.reduce((n, [s, d]) => n + d * (counts.get(s)! - 1), 1);
    axes.push({ walks, extent, step: unit, bound });
    return true;
  };
  for (const bound of load.bounds) {
    if (!place(bound.index.terms.filter(([s]) => counts.has(s)), bound)) return null;
  }
  const terms = load.index.terms.filter(([s]) => counts.has(s)).toSorted((a, b) => a[1] - b[1]);
  for (const [s, c] of terms) {
    if (placed.has(s)) continue;
    if (c < 0) return null;
    const near = terms.filter(([t, d]) => !placed.has(t) && d % c === 0 && d <= c * MAX_STEP);
    if (!place(near.map(([t, d]) => [t, d / c]), null)) return null;
  }
  const at = axes.findIndex(({ walks }) => walks.some(([s]) => s === column));
  if (at < 0) return null;
  const [last] = axes.splice(at, 1);
  axes.sort((a, b) => b.step - a.step).push(last!);
  const phases = inVectors ? last!.walks.find(([s]) => s === column)![1] : 1;
  let size = 1;
  const strided = axes.toReversed().map((axis, k) => {
    const stride = size, parts = k === 0 ? phases : 1;
    size *= Math.ceil(axis.extent / parts) * parts;
    return { ...axis, stride, phases: parts };
  });
  return { load, axes: strided.reverse(), size };
}

/** Packed index of an iteration's element; `at` gives the loops' indices as text. */
export function packedIndex(window: Window, at: (symbol: number) => string | null): string {
  const terms = window.axes.flatMap(({ walks, stride, extent, phases }) => {
    const moves = walks.flatMap(([s, d]) => {
      const text = at(s);
      const factor = phases === 1 ? d * stride : d;
      return text === null ? [] : [factor === 1 ? text : `${text} * ${factor}`];
    });
    if (phases === 1 || moves.length === 0) return moves;
    const place = `(${moves.join(" + ")})`;
    return [`${place} % ${phases} * ${Math.ceil(extent / phases)}`, `${place} / ${phases}`];
  });
  return terms.join(" + ") || "0";
}

/** Step of a loop's iteration among the packed elements. */
export function packedStep({ axes }: Window, symbol: number): number {
  for (const { walks, stride } of axes) {
    for (const [s, d] of walks) if (s === symbol) return d * stride;
  }
  return 0;
}

/** Packs a window into the local array `into`; `starts` names where a tile's loops begin, if not at 0. */
export function packWindow(
  emitter: Emitter,
  { load, axes }: Window,
  starts: ReadonlyMap<number, string>,
  into: string,
): void {
  emitter.open("{");
  emitter.line(`const Index from = ${startOf(emitter, axes, load.index, starts)};`);
  axes.forEach(({ bound }, k) => {
    if (bound) emitter.line(`const int g${k} = ${startOf(emitter, axes, bound.index, starts)};`);
  });
  const rows = axes.slice(0, -1), row = axes.at(-1)!, last = axes.length - 1;
  rows.forEach(({ extent }, k) =>
    emitter.open(`for (int t${k} = 0; t${k} < ${extent}; ++t${k}) {`)
  );
  const tests = rows.flatMap(({ bound }, k) =>
    bound ? [`g${k} + t${k} >= 0 && g${k} + t${k} < ${emitter.index(bound.size)}`] : []
  );
  const at = [into, ...rows.map(({ stride }, k) => `t${k} * ${stride}`)].join(" + ");
  const moves = rows.map((axis, k) => `t${k} * ${emitter.index(axis.step)}`);
  const source = [`a${load.input} + from`, ...moves].join(" + ");
  const [low, high] = row.bound
    ? [`-g${last}`, `${row.bound.size} - g${last}`]
    : ["0", `${row.extent}`];
  if (tests.length > 0) emitter.line(`if (${tests.join(" && ")})`);
  emitter.line(packRow(row, at, source, low, high));
  if (tests.length > 0) {
    emitter.line("else");
    emitter.line(packRow(row, at, source, `${row.extent}`, `${row.extent}`));
  }
  rows.forEach(() => emitter.close());
  emitter.close();
}

/** Start of an index in a window: its loops within are at 0, but for those of the tile. */
function startOf(
  emitter: Emitter,
  axes: Window["axes"],
  index: AffineExpr,
  starts: ReadonlyMap<number, string>,
): string {
  const inside = axes.flatMap(({ walks }) => walks.map(([s]) => s));
  const moved = index.terms.filter(([s]) => inside.includes(s) && starts.has(s));
  // A convolution's text holds its sizes in any case, so its edges stand there as numbers.
  if (moved.length === 0 && index.terms.every(([s]) => inside.includes(s))) {
    return `${index.offset}`;
  }
  return [
    without(emitter, index, inside),
    ...moved.map(([s]) => `${starts.get(s)} * ${step(emitter, index, s)}`),
  ].join(" + ");
}

/** The statement that packs a row, whose elements from `low` to before `high` exist. */
function packRow(
  { extent, phases, step }: Window["axes"][number],
  at: string,
  source: string,
  low: string,
  high: string,
): string {
  if (phases === 1 && step === 1) return `pack_row(${at}, ${source}, ${extent}, ${low}, ${high});`;
  return `pack_apart(${at}, ${source}, ${Math.ceil(extent / phases)}, ${phases}, ${step}, ` +
    `${low}, ${high});`;
}
