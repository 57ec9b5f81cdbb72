/**
 * The elements of an operand that a work-item reads, copied into local memory: windows of an image, with zeros
 * where there is nothing, weights with their channels side by side. Loops whose elements overlap (positions and
 * taps) walk one axis, so that nothing is copied twice.
 *
 * This folder (`lanes/`) has the products of CPU devices, whose columns are on the lanes of vectors; it imports the
 * language and `kernel/`. Templates say what a work-item takes, and get a program.
 */
import { type AffineExpr, coefficient, type Term } from "../../../kernel/affine.ts";
import type { Bound, Load, LoopKernel } from "../../../kernel/kernel.ts";
import {
  add,
  div,
  type E,
  int,
  min,
  mod,
  mul,
  type Place,
  sub,
} from "../../language/expression.ts";
import { all, choose, float, lt, not, splat, within } from "../../language/values.ts";
import type { Indices, KernelValues } from "../kernel_values.ts";

/** Floats of a vector, and rows of a square that is transposed. */
const LANES = 16;
/** Loops whose steps differ by at most this factor walk one axis: a stride, a dilation. */
export const MAX_STEP = 4;

/** One axis of the packed elements. */
interface Axis {
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

/** A box in the local memory of a program. */
export class PackedBox {
  readonly box: Box;
  readonly place: Place;
  readonly #values: KernelValues;
  /** Indices of loops for which it is packed. */
  #first: Indices = new Map();

  constructor(values: KernelValues, box: Box) {
    this.box = box;
    this.#values = values;
    this.place = values.p.array("local", box.size + (box.slack ?? 0), "float");
  }

  /** Packs the elements for iterations from `first` on. */
  pack(first: Indices): void {
    const { p } = this.#values, { load, axes, counts, slack, size } = this.box;
    if (slack) p.store(this.place, int(size), splat(float(0), slack));
    this.#first = new Map([...counts.keys()].map((s) => [s, first.get(s) ?? int(0)]));
    const base = p.let(this.#start(load.index, first)), inputs = this.#values.input(load.input);
    const starts = axes.map(({ bound }) => bound && p.let(this.#start(bound.index, first)));
    this.#eachRow(0, base, int(0), (from, to, at) => {
      const inside = all(
        axes.flatMap(({ bound }, k) =>
          bound && at.has(k) ? [within(add(starts[k]!, at.get(k)!), this.#sizeOf(bound, k))] : []
        ),
      );
      if (this.box.run === null) this.#packRow(inputs, from, to, starts.at(-1) ?? null, inside);
      else this.#transpose(inputs, from, to);
    });
  }

  #sizeOf({ size }: Bound, axis: number): E {
    return this.#values.boundSize(size, `${axis} of box ${this.place.buffer}`);
  }

  /** An index at the first element of all axes. */
  #start(index: AffineExpr, first: Indices): E {
    const { counts } = this.box;
    const at = index.terms.map(([s, c]): [number, E] => {
      const begin = first.get(s) ?? int(0);
      return [s, counts.has(s) && c < 0 ? add(begin, counts.get(s)! - 1) : begin];
    });
    return this.#values.affine(index, new Map(at));
  }

  /** The loops over all axes but the last, and the run of squares. */
  #eachRow(
    k: number,
    from: E,
    to: E,
    body: (from: E, to: E, at: ReadonlyMap<number, E>) => void,
    at: ReadonlyMap<number, E> = new Map(),
  ): void {
    const { axes, run } = this.box;
    if (k === axes.length - 1) return body(from, to, at);
    if (k === run) return this.#eachRow(k + 1, from, to, body, at);
    const { extent, step, stride } = axes[k]!;
    this.#values.p.loop(
      this.#count(extent),
      (t) =>
        this.#eachRow(
          k + 1,
          add(from, mul(t, this.#step(step))),
          add(to, mul(t, stride)),
          body,
          new Map([...at, [k, t]]),
        ),
      1,
    );
  }

  /** Elements of an axis that its loops read in all, where nothing else bounds it. */
  #end({ walks, extent }: Axis): E {
    const { sizes, counts } = this.box;
    if (walks.every(([s]) => sizes[s]! % counts.get(s)! === 0)) return int(extent);
    const read = walks.map(([s, d]) =>
      d < 0
        ? int(-d * (counts.get(s)! - 1))
        : mul(sub(this.#values.size(s), add(this.#first.get(s)!, 1)), d)
    );
    return add(...read, 1);
  }

  /** Turns of a loop. */
  #count(count: number): E {
    return this.#values.isFixed || count === 1 ? int(count) : this.#values.p.size(count);
  }

  #step(step: number): E {
    return this.#values.isFixed || step <= 1 ? int(step) : this.#values.p.step(step);
  }

  #packRow(from: Place, at: E, to: E, start: E | null, inside: E): void {
    const { p } = this.#values, { axes, parts, panel } = this.box, last = axes.at(-1)!;
    const end = start === null
      ? this.#end(last)
      : sub(this.#sizeOf(last.bound!, axes.length - 1), start);
    const low = start === null ? int(0) : sub(0, start);
    const chosen = choose(inside, min(end, last.extent), low);
    const high = panel === null ? chosen : p.let(chosen);
    const row = {
      s: "pack",
      place: this.place,
      from,
      parts,
      apart: this.#step(last.step),
    } as const;
    if (panel === null) {
      return p.emit({ ...row, at, index: to, count: this.box.row, low, high });
    }
    for (let first = 0; first < last.extent; first += panel) {
      const index = add(to, first / panel * (this.box.size / Math.ceil(last.extent / panel)));
      p.emit({
        ...row,
        at: add(at, mul(this.#step(last.step), first)),
        index,
        count: Math.min(panel, last.extent - first),
        low: sub(low, first),
        high: sub(high, first),
      });
    }
  }

  /** Transposes a run, square by square. */
  #transpose(from: Place, at: E, to: E): void {
    const { p } = this.#values, { axes, run, sizes } = this.box;
    const lanes = axes.at(-1)!, along = axes[run!]!, [[symbol]] = lanes.walks as [Term];
    const into = (q: E, first: E): E => add(to, mul(q, along.stride), this.#along(first));
    const step = this.#step(lanes.step), total = this.#values.size(symbol);
    const left = sub(total, this.#first.get(symbol)!);
    const isWhole = sizes[symbol]! % (Math.ceil(lanes.extent / LANES) * LANES) === 0;
    p.loop(int(Math.ceil(lanes.extent / LANES)), (v) => {
      const first = p.let(mul(v, LANES)),
        rows = isWhole ? int(LANES) : p.let(min(sub(left, first), LANES));
      const squares = (): void =>
        p.loop(this.#count(Math.ceil(along.extent / LANES)), (square) => {
          // The last square ends with the run.
          const last = this.#count(Math.max(0, along.extent - LANES));
          const q = p.let(min(mul(square, LANES), last));
          p.emit({
            s: "transpose",
            from,
            at: add(at, mul(step, first), q),
            step,
            to: this.place,
            index: into(q, first),
            pitch: int(along.stride),
            ...(!isWhole || along.extent < LANES) && {
              there: { rows, columns: int(Math.min(LANES, along.extent)) },
            },
          });
        }, 1);
      const exists = isWhole ? lt(0, 1) : lt(0, rows);
      p.when(exists, squares);
      p.when(
        not(exists),
        () =>
          p.loop(
            this.#count(along.extent),
            (q) => p.store(this.place, into(q, first), splat(float(0), LANES)),
            1,
          ),
      );
    }, 1);
  }

  /** The place of an element, by the indices of all loops. */
  index(at: Indices): E {
    const { axes, counts } = this.box;
    const places = axes.map(({ walks }) =>
      add(...walks.map(([s, d]) => {
        const moved = sub(at.get(s)!, this.#first.get(s)!);
        return d < 0 ? mul(sub(counts.get(s)! - 1, moved), -d) : mul(moved, d);
      }))
    );
    const before = places.slice(0, -1).map((place, k) => mul(place, axes[k]!.stride));
    return add(...before, this.#along(places.at(-1)!));
  }

  /** The place of an element along the last axis. */
  #along(at: E): E {
    const { axes, parts, panel, size } = this.box;
    if (panel !== null) {
      const panels = Math.ceil(axes.at(-1)!.extent / panel);
      return add(mul(div(at, panel), size / panels), mod(at, panel));
    }
    return parts === 1 ? at : add(mul(mod(at, parts), this.box.row), div(at, parts));
  }
}
