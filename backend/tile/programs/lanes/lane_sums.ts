/** The sums of a tile of products in registers: each element of an operand is read once. */
import { BLOCK_PRODUCTS, type Blocks, blocksOf } from "../../../kernel/accumulation.ts";
import { coefficient } from "../../../kernel/affine.ts";
import type { Load } from "../../../kernel/kernel.ts";
import { elementFrom, primitive } from "../../language/elements.ts";
import {
  add,
  div,
  divideBy,
  type E,
  int,
  lanes,
  min,
  mul,
  sub,
} from "../../language/expression.ts";
import {
  fadd,
  float,
  fma,
  isSame,
  load,
  loadPart,
  lt,
  select,
  splat,
} from "../../language/values.ts";
import type { Program } from "../../program.ts";
import type { Indices, KernelValues } from "../kernel_values.ts";
import type { PackedBox } from "./packed_box.ts";
import { iterations, type LaneMapping, type Loops, type Row } from "./lane_mapping.ts";

/** Loops of at most this many iterations are unrolled. */
const MAX_UNROLLED = 8;
/** Rows of so few vectors are written without a loop. */
const MAX_SHORT = 4;

export type Operand = "a" | "b";

/** A product that is added to a sum. */
interface Product {
  readonly a: E;
  readonly b: E;
  readonly sum: E;
}

/** A total, and the sum of what each addition of a block rounds off. */
interface Total {
  readonly total: E;
  readonly lost: E;
}

const fsub = (a: E, b: E): E => primitive("sub", [a, b], "float32");

export class LaneSums {
  readonly #values: KernelValues;
  readonly #p: Program;
  readonly #m: LaneMapping;
  readonly #boxes: ReadonlyMap<Operand, PackedBox>;
  #rows: readonly Row[] = [];

  constructor(
    values: KernelValues,
    mapping: LaneMapping,
    boxes: ReadonlyMap<Operand, PackedBox>,
  ) {
    this.#values = values;
    this.#p = values.p;
    this.#m = mapping;
    this.#boxes = boxes;
  }

  get rows(): readonly Row[] {
    return this.#rows;
  }

  get #all(): E[] {
    return this.#rows.flatMap(({ sums }) => sums);
  }

  /** Registers of a tile, all 0. */
  declare(): void {
    const { rows, starts, width } = this.#m, zero = splat(float(0), width);
    this.#rows = iterations(rows).map((moved) => ({
      moved,
      sums: starts.map(() => this.#p.register(zero)),
    }));
  }

  /** Adds up the products of a tile. */
  multiply(at: Loops, isWhole: boolean): void {
    const { unrolled = [], lane, width } = this.#m, { kernel } = this.#values;
    this.declare();
    const steps = (s: number, size: number): number => s === lane ? Math.ceil(size / width) : size;
    const blocks = isWhole ? blocksOf(kernel, steps, BLOCK_PRODUCTS) : null;
    const sums = this.#all, zero = splat(float(0), width);
    const totals = blocks === null
      ? []
      : sums.map(() => ({ total: this.#p.register(zero), lost: this.#p.register(zero) }));
    const loops = kernel.inner.filter((s) => !unrolled.includes(s));
    this.#sum(loops, at, blocks, totals);
    totals.forEach(({ total, lost }, k) => {
      // What is lost of a total that is infinite or NaN is NaN.
      const rest = select(isSame(lost, lost), lost, zero);
      this.#p.set(sums[k]!, fadd(total, rest));
    });
  }

  #sum(loops: readonly number[], at: Loops, blocks: Blocks | null, totals: readonly Total[]): void {
    const [s, ...rest] = loops, p = this.#p;
    if (s === undefined) return this.#term(at, null);
    const { first, end } = at.get(s)!;
    const inside = (first: E, end: E): void =>
      s === this.#m.lane
        ? this.#along(s, first, end, rest, at)
        : this.#iterations(s, first, end, rest.length === 0, (i) =>
          this.#sum(rest, new Map([...at, [s, { first: i, fresh: i, end }]]), blocks, totals));
    if (blocks?.symbol !== s) return inside(first, end);
    const { width, lane } = this.#m, length = blocks.length * (s === lane ? width : 1);
    const block = this.#values.isFixed ? int(length) : p.size(length),
      turns = divideBy(add(sub(end, first), block, -1), block)[0];
    p.loop(p.let(turns), (turn) => {
      const start = p.let(add(first, mul(turn, block))),
        sums = this.#all;
      sums.forEach((sum) => p.set(sum, splat(float(0), width)));
      inside(start, p.let(min(add(start, block), end)));
      sums.forEach((sum, k) => this.#addBlock(sum, totals[k]!));
    }, 1);
  }

  #iterations(s: number, first: E, end: E, isLast: boolean, body: (i: E) => void): void {
    const size = this.#values.kernel.sizes[s]!,
      isShort = size <= MAX_UNROLLED && first.op === "const";
    const count = isShort ? int(size) : this.#p.let(sub(end, first));
    this.#p.loop(count, (i) => body(add(first, i)), isShort && isLast ? Infinity : 1);
  }

  /** Adds the sum of a block to a total, and what that rounds off. */
  #addBlock(block: E, { total, lost }: Total): void {
    const p = this.#p, next = p.let(fadd(total, block)), added = p.let(fsub(next, total));
    p.set(lost, fadd(lost, fadd(fsub(total, fsub(next, added)), fsub(block, added))));
    p.set(total, next);
  }

  /** Vectors along the sum: those behind the last whole one have zeros. */
  #along(s: number, first: E, end: E, rest: readonly number[], at: Loops): void {
    const p = this.#p, { width } = this.#m;
    if (rest.length > 0) throw new Error("Vectors along a sum go over its last loop");
    const size = this.#values.kernel.sizes[s]!,
      isShort = size <= MAX_SHORT * width && first.op === "const";
    const length = isShort ? int(size) : p.let(sub(end, first)), whole = p.let(div(length, width));
    const term = (i: E, left: E | null): void =>
      this.#term(new Map([...at, [s, { first: i, fresh: i, end }]]), left);
    p.loop(whole, (turn) => term(add(first, mul(turn, width)), null), isShort ? Infinity : 1);
    const begin = add(first, mul(whole, width)), left = p.let(sub(end, begin));
    const isWhole = size % width === 0 && this.#values.kernel.chunk?.symbol !== s;
    if (!isWhole) p.when(lt(0, left), () => term(p.let(begin), left));
  }

  /** Adds the products of a term, or of those that are written out: each element is read once. */
  #term(at: Loops, left: E | null): void {
    const { unrolled = [], starts, prefetch, reloads } = this.#m, p = this.#p;
    if (reloads === "terms") p.emit({ s: "reload" });
    const first = new Map([...at].map(([s, { first }]) => [s, first]));
    for (const s of unrolled) first.set(s, int(0));
    const reader = { a: this.#reader("a", first, left), b: this.#reader("b", first, left) };
    if (prefetch) this.#prefetch(first, prefetch);
    const rows = iterations(unrolled.map((s) => [s, this.#values.kernel.sizes[s]!])).flatMap((
      term,
    ) =>
      this.#rows.map(({ moved, sums }) => {
        const all = new Map([...term, ...moved]);
        return starts.map((_, v) => ({ a: reader.a(all, v), b: reader.b(all, v), sum: sums[v]! }));
      })
    );
    if (reloads === "each") return this.#multiplyRows(rows);
    const terms = rows.flat();
    const count = (name: Operand): number => new Set(terms.map((term) => term[name])).size;
    const [few, many]: Operand[] = count("a") <= count("b") ? ["a", "b"] : ["b", "a"];
    const held = new Map<E, E>();
    const once = (e: E): E => held.getOrInsertComputed(e, (e) => p.let(e));
    for (const term of terms) once(term[few!]);
    for (const [value, group] of Map.groupBy(terms, (term) => term[many!])) {
      const own = p.let(value);
      for (const term of group) p.set(term.sum, fma(once(term[few!]), own, term.sum));
    }
  }

  /** Adds products of scalars and rows of vectors: each row is read once, a scalar again for each row. */
  #multiplyRows(rows: readonly (readonly Product[])[]): void {
    const p = this.#p, { a } = this.#values.kernel.contraction!;
    const [scalar, vector] = coefficient(a.index, this.#m.lane) === 0
      ? ["a", "b"] as const
      : ["b", "a"] as const;
    for (const alike of Map.groupBy(rows, ([first]) => first![vector]).values()) {
      const vectors = alike[0]!.map((product) => p.let(product[vector]));
      for (const products of alike) {
        const factor = p.let(products[0]![scalar]);
        products.forEach(({ sum }, v) => p.set(sum, fma(factor, vectors[v]!, sum)));
      }
    }
  }

  /** Reads elements of an operand near some indices. */
  #reader(
    name: Operand,
    first: Indices,
    left: E | null,
  ): (moved: ReadonlyMap<number, number>, v: number) => E {
    const { lane, starts, width } = this.#m,
      p = this.#p,
      operand = this.#values.kernel.contraction![name];
    const isVector = coefficient(operand.index, lane) !== 0, box = this.#boxes.get(name);
    const place = box?.place ?? this.#values.input(operand.input);
    const begin = this.#indexOf(name, first), base = p.let(begin);
    return (moved, v) => {
      const at = new Map(first);
      for (const [s, by] of moved) at.set(s, add(first.get(s)!, by));
      if (isVector) at.set(lane, add(at.get(lane)!, starts[v]!));
      const index = this.#indexOf(name, at), offset = sub(index, begin);
      const [from, by] = isFixedOffset(offset) ? [base, offset] : [p.let(index), int(0)];
      if (!isVector) return elementFrom(place, from, by, "float32");
      const apart = box ? 1 : coefficient(operand.index, lane);
      if (apart === 1 && (left === null || box)) {
        const all = load(place, add(from, by, lanes(width)));
        return left === null ? all : select(lt(lanes(width), left), all, splat(float(0), width));
      }
      return loadPart(place, add(from, by), left ?? int(width), width, apart);
    };
  }

  #indexOf(name: Operand, at: Indices): E {
    return this.#boxes.get(name)?.index(at) ??
      this.#values.affine(this.#values.kernel.contraction![name].index, at);
  }

  /** Asks for the vectors of a later term. */
  #prefetch(first: Indices, ahead: number): void {
    const { lane, starts } = this.#m, { a, b } = this.#values.kernel.contraction!;
    const load = coefficient(a.index, lane) === 0 ? b : a, term = this.#values.kernel.inner.at(-1)!;
    const later = new Map([...first, [term, add(first.get(term)!, ahead)]]);
    const at = this.#p.let(this.#values.affine(load.index, later));
    for (const start of starts) {
      this.#p.emit({ s: "prefetch", from: this.#values.input(load.input), at: add(at, start) });
    }
    this.#prefetchRows(first, load === a ? b : a, term);
  }

  /** Asks for the rows of the next tile, where they lie one behind the other: a part for each term. */
  #prefetchRows(first: Indices, { index, input }: Load, term: number): void {
    const { sizes, inner } = this.#values.kernel,
      [[row, count]] = this.#m.rows as [[number, number]];
    const isRun = inner.length === 1 && coefficient(index, term) === 1 &&
      coefficient(index, row) === sizes[term];
    if (!isRun) return;
    const later = new Map([
      ...first,
      [row, add(first.get(row)!, count)] as const,
      [term, mul(first.get(term)!, count)] as const,
    ]);
    const at = this.#p.let(this.#values.affine(index, later));
    this.#p.emit({ s: "prefetch", from: this.#values.input(input), at });
  }
}

/** True where an offset is the same for all terms: a constant, or numbers of the launch. */
const isFixedOffset = (e: E): boolean =>
  e.op === "const" || e.op === "var" && e.name.startsWith("p") ||
  (e.op === "sum" || e.op === "+") && e.args.every(isFixedOffset);
