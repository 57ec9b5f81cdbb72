/**
 * Rows of a kernel that work-items share: softmax, norms, sums, arg-reductions. The steps are those of the row
 * program; the mapping says how many work-items have a row, and what each holds of it in registers.
 */
import { flatBlocks, isBlocked } from "../../kernel/accumulation.ts";
import { variesWith } from "../../kernel/analysis.ts";
import { extent, type LoopKernel } from "../../kernel/kernel.ts";
import { inGroups } from "../../kernel/row_mappings.ts";
import {
  type ReduceStep,
  type RowProgram,
  rowProgram,
  type RowWriter,
  type StoreEachStep,
  writeRow,
} from "../../kernel/row_program.ts";
import { held, kindOf, neighbour } from "../language/elements.ts";
import {
  add,
  div,
  type E,
  int,
  min,
  mul,
  type Place,
  sub,
  withExpressions,
} from "../language/expression.ts";
import type { TileKernel } from "../language/statements.ts";
import { lt, truth } from "../language/values.ts";
import type { Program } from "../program.ts";
import type { Unit } from "../units.ts";
import { Accumulator } from "./accumulator.ts";
import { KernelValues, type NameOf, Scope, storeNeighbours } from "./kernel_values.ts";

/** The walks of a unit's work-items along their rows. */
export interface RowMapping {
  /** Elements of a row that a work-item holds in registers; 0: it reads them in each walk. */
  readonly held: number;
  /** Neighbours that a work-item reads and stores together, and the expressions that are such loads. */
  readonly lanes: number;
  readonly vectors: ReadonlySet<number>;
  /** Elements that a work-item asks for before it waits for the first. */
  readonly unroll: number;
}

/** Expressions that several steps need of each element: a work-item that holds them reads them once. */
export function keptExprs(program: RowProgram): ReadonlySet<number> {
  const needed = program.flatMap((step) =>
    step.kind === "reduce" || step.kind === "storeEach" ? step.exprs : []
  );
  return new Set(needed.filter((id, k) => needed.indexOf(id) !== k));
}

/** Number of elements that the work-items of a row walk: all, or the part that a split gave them. */
export function sharedLength(kernel: LoopKernel): number {
  const length = extent(kernel, kernel.inner), { chunk } = kernel;
  return chunk ? chunk.length * (length / kernel.sizes[chunk.symbol]!) : length;
}

/** True where sums of a row are added up in blocks. */
export const areBlocked = (kernel: LoopKernel, { across }: Unit): boolean =>
  flatBlocks(Math.ceil(sharedLength(kernel) / across)) !== null &&
  kernel.reductions.some(isBlocked);

/** True where every work-item holds elements of the row in all its registers. */
export const isFull = (kernel: LoopKernel, { across }: Unit, { held }: RowMapping): boolean =>
  extent(kernel, kernel.inner) === across * held;

/** The groups of a kernel's rows. */
export const rowGroups = (kernel: LoopKernel, { down }: Unit): number =>
  Math.ceil(extent(kernel, kernel.outer) / down);

/**
 * The kernel's rows; outputs are buffers `o0`, `o1`, ..., inputs `a0`, `a1`, ...
 *
 * @param contracts As in {@linkcode KernelValues}.
 */
export function rows(
  kernel: LoopKernel,
  unit: Unit,
  mapping: RowMapping,
  nameOf: NameOf,
  contracts: boolean,
): TileKernel {
  return withExpressions(() =>
    new RowsWriter(new KernelValues(kernel, unit, nameOf, contracts), mapping).write()
  );
}

class RowsWriter implements RowWriter {
  readonly #values: KernelValues;
  readonly #kernel: LoopKernel;
  readonly #p: Program;
  readonly #mapping: RowMapping;
  readonly #program: RowProgram;
  /** Work-items of the last group may have no row. */
  readonly #exists: E;
  readonly #row: Scope;
  /** Values in registers; a place for each of a work-item's elements. */
  readonly #kept: ReadonlyMap<number, Place>;
  readonly #known = new Set<number>();
  /** Bounds of the walks of a work-item. */
  readonly #bounds: readonly [start: E, end: E];

  constructor(values: KernelValues, mapping: RowMapping) {
    const { kernel, p } = values, { across, down } = p.unit;
    this.#values = values;
    this.#kernel = kernel;
    this.#p = p;
    this.#mapping = mapping;
    const program = rowProgram(kernel);
    this.#program = mapping.held > 0
      ? program
      : inGroups(kernel, program, sharedLength(kernel), across);
    const own = p.let(add(mul(p.group, down), p.down));
    const count = down === 1 ? null : p.size(extent(kernel, kernel.outer));
    this.#exists = count === null ? truth(true) : lt(own, count);
    // What is left of the last group computes the last row, and stores nothing.
    const row = count === null ? own : p.let(min(own, sub(count, 1)));
    const at = values.decomposed(kernel.outer, row, (s) => values.size(s));
    this.#row = new Scope(values, at);
    const kept = mapping.held > 0 ? [...keptExprs(program)] : [];
    this.#kept = new Map(kept.map((id) => {
      const place = p.array("private", mapping.held, kindOf(kernel.exprs[id]!.dtype));
      return [id, place] as const;
    }));
    this.#bounds = this.#boundsOf();
  }

  #boundsOf(): readonly [start: E, end: E] {
    const { chunk, inner } = this.#kernel, p = this.#p;
    const length = p.size(extent(this.#kernel, inner), this.#mapping.lanes);
    if (!chunk) return [int(0), length];
    const share = p.size(sharedLength(this.#kernel));
    if (chunk.symbol !== inner[0]) return [int(0), share];
    const start = p.let(mul(this.#row.index(chunk.part), share));
    return [start, p.let(min(add(start, share), length))];
  }

  write(): TileKernel {
    writeRow(this.#program, this);
    return this.#p.finish("rows", rowGroups(this.#kernel, this.#p.unit));
  }

  compute(exprs: readonly number[]): void {
    this.#row.declare(exprs);
  }

  reduce(step: ReduceStep): void {
    const p = this.#p, { blocked, exprs, outputs } = step;
    const sums = step.reductions.map((r) => {
      const isCut = blocked !== null && blocked.sums.includes(r);
      return new Accumulator(p, this.#kernel, r, isCut);
    });
    const each = (element: Scope): void => sums.forEach((sum) => sum.add(element));
    if (blocked === null) this.#walk(exprs, outputs, each);
    else this.#blocks(sums, blocked.blocks.length, exprs, outputs, each);
    for (const sum of sums) sum.finish();
    this.#kernel.exprs.forEach((e, id) => {
      if (e.op !== "reduced") return;
      const at = step.reductions.indexOf(e.reduction);
      if (at >= 0) this.#row.know(id, p.let(sums[at]!.result()));
    });
  }

  /** Walks a row in blocks, whose sums are added up by themselves. */
  #blocks(
    sums: readonly Accumulator[],
    terms: number,
    exprs: readonly number[],
    outputs: readonly number[],
    each: (element: Scope) => void,
  ): void {
    const p = this.#p, [start, end] = this.#bounds, step = terms * p.unit.across;
    const length = p.size(step), count = Math.ceil(sharedLength(this.#kernel) / step);
    p.loop(p.size(count), (block) => {
      for (const sum of sums) sum.begin();
      const from = p.let(add(start, mul(block, length)));
      this.#stride(from, p.let(min(add(from, length), end)), exprs, outputs, each);
      for (const sum of sums) sum.end();
    }, 1);
  }

  store(outputs: readonly number[]): void {
    this.#p.when(this.#exists, () =>
      this.#p.when(lt(this.#p.across, 1), () => {
        for (const o of outputs) this.#store(o, [this.#row]);
      }));
  }

  storeEach({ exprs, outputs }: StoreEachStep): void {
    this.#walk(exprs, outputs, () => {});
  }

  /** Walks the elements of a work-item: computes what is not known of each, and stores outputs. */
  #walk(
    exprs: readonly number[],
    outputs: readonly number[],
    each: (element: Scope) => void,
  ): void {
    const p = this.#p, [start, end] = this.#bounds, { held, lanes } = this.#mapping;
    if (held === 0) return this.#stride(start, end, exprs, outputs, each);
    p.loop(int(held / lanes), (turn) => {
      const t = p.let(mul(add(mul(turn, p.unit.across), p.across), lanes));
      const isInside = isFull(this.#kernel, p.unit, this.#mapping) ? truth(true) : lt(t, end);
      p.when(isInside, () => this.#elements(t, mul(turn, lanes), exprs, outputs, each));
    }, Infinity);
    for (const id of exprs) this.#known.add(id);
  }

  /** Walks one element of each work-item's turn, from `from` to before `to`. */
  #stride(
    from: E,
    to: E,
    exprs: readonly number[],
    outputs: readonly number[],
    each: (element: Scope) => void,
  ): void {
    const p = this.#p, { across } = p.unit, first = p.let(add(from, p.across));
    const count = p.let(div(add(sub(to, first), across - 1), across));
    p.loop(count, (turn) => {
      const t = p.let(add(first, mul(turn, across)));
      this.#elements(t, int(0), exprs, outputs, each);
    }, this.#mapping.unroll);
  }

  /** The elements from `t` on, which are neighbours; `place` is where the first of them is held. */
  #elements(
    t: E,
    place: E,
    exprs: readonly number[],
    outputs: readonly number[],
    each: (element: Scope) => void,
  ): void {
    const { lanes } = this.#mapping, { kernel } = this.#values;
    const along = kernel.inner.at(-1)!;
    this.#inside(t, (first) => {
      if (lanes === 1) {
        for (const id of exprs) this.#evaluate(first, id, place, null);
        each(first);
        return this.#storeEach(outputs, [first]);
      }
      // What neighbours have in common, such as an index that was read, says where they lie.
      const varies = variesWith(kernel, [along]), own = exprs.filter((id) => varies[id]);
      for (const id of exprs) if (!varies[id]) this.#evaluate(first, id, place, null);
      const read = this.#read(first, own);
      const all = Array.from({ length: lanes }, (_, lane) => {
        const element = first.inside(new Map([[along, add(first.index(along), lane)]]));
        for (const id of own) {
          this.#evaluate(element, id, add(place, lane), () => neighbour(read.get(id)!, lane));
        }
        each(element);
        return element;
      });
      this.#storeEach(outputs, all);
    });
  }

  /** The neighbours that are read of a row from here on. */
  #read(first: Scope, exprs: readonly number[]): ReadonlyMap<number, E> {
    const { vectors, lanes } = this.#mapping;
    return new Map(exprs.flatMap((id) => {
      const e = this.#kernel.exprs[id]!;
      if (!vectors.has(id) || e.op !== "load" || this.#isHeld(id)) return [];
      return [[id, first.neighbours(e.load, lanes)] as const];
    }));
  }

  /** Runs a body for the element number `t`, where that is one of the work-items' part. */
  #inside(t: E, body: (element: Scope) => void): void {
    const { chunk, inner } = this.#kernel, values = this.#values, p = this.#p;
    const isCut = chunk !== undefined && chunk.symbol !== inner[0];
    const sizeOf = (s: number): E =>
      isCut && s === chunk.symbol
        ? p.size(chunk.length)
        : values.size(s, s === inner.at(-1) ? this.#mapping.lanes : 1);
    const at = new Map(values.decomposed(inner, t, sizeOf));
    if (!isCut) return body(this.#row.inside(at));
    const { symbol, part, length } = chunk;
    const index = p.let(add(at.get(symbol)!, mul(this.#row.index(part), p.size(length))));
    p.when(lt(index, values.size(symbol)), () => body(this.#row.inside(at.set(symbol, index))));
  }

  #isHeld(id: number): boolean {
    return this.#known.has(id) && this.#kept.has(id);
  }

  /** Computes an expression of an element, or takes what is held of it. */
  #evaluate(element: Scope, id: number, at: E, read: (() => E) | null): void {
    const p = this.#p, place = this.#kept.get(id);
    if (this.#isHeld(id)) {
      return element.know(id, p.let(held(place!, at, kindOf(this.#kernel.exprs[id]!.dtype))));
    }
    const isRead = read !== null && this.#mapping.vectors.has(id);
    const value = p.let(isRead ? read() : element.compute(id));
    element.know(id, value);
    if (place !== undefined) p.store(place, at, value);
  }

  #storeEach(outputs: readonly number[], elements: readonly Scope[]): void {
    if (outputs.length === 0) return;
    this.#p.when(this.#exists, () => {
      for (const o of outputs) this.#store(o, elements);
    });
  }

  /** Stores an output of neighbours. */
  #store(output: number, elements: readonly Scope[]): void {
    storeNeighbours(this.#p, this.#kernel, output, elements);
  }
}
