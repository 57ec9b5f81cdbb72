/** Boxes in a program: packed into local memory, or found where a kernel before it has left them. */
import type { AffineExpr, Term } from "../../../kernel/affine.ts";
import type { Bound } from "../../../kernel/kernel.ts";
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
import { type Axis, type Box, LANES } from "./box.ts";

/** A box in the local memory of a program, or one of those that a kernel before it has left in a buffer. */
export class PackedBox {
  readonly box: Box;
  readonly place: Place;
  readonly #values: KernelValues;
  #begin: E = int(0);
  /** Indices of loops for which it is packed. */
  #first: Indices = new Map();

  constructor(values: KernelValues, box: Box, kept: Place | null = null) {
    this.box = box;
    this.#values = values;
    this.place = kept ?? values.p.array("local", box.size + (box.slack ?? 0), "float");
  }

  /** Finds the elements for iterations from `first` on in the box of that number. */
  find(first: Indices, number: E): void {
    this.#begin = this.#values.p.let(mul(number, this.box.size));
    this.#packedFrom(first);
  }

  #packedFrom(first: Indices): void {
    const { counts } = this.box;
    this.#first = new Map([...counts.keys()].map((s) => [s, first.get(s) ?? int(0)]));
  }

  /** Packs the elements for iterations from `first` on. */
  pack(first: Indices): void {
    const { p } = this.#values, { load, axes, slack, size } = this.box;
    if (slack) p.store(this.place, int(size), splat(float(0), slack));
    this.#packedFrom(first);
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
    return add(this.#begin, ...before, this.#along(places.at(-1)!));
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
