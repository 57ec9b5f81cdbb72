/**
 * Products of CPU devices: sums in registers, of which each is a vector or the parts of a row's sum. An operand is
 * read where it lies or from a box of local memory. Products of matrices, convolutions, the gradients of weights
 * and convolutions of single channels are all this program: what differs is the mapping, which is data.
 */
import { BLOCK_PRODUCTS, type Blocks, blocksOf } from "../../../kernel/accumulation.ts";
import { coefficient } from "../../../kernel/affine.ts";
import type { LoopKernel } from "../../../kernel/kernel.ts";
import { elementFrom, held, primitive } from "../../language/elements.ts";
import {
  add,
  div,
  divideBy,
  type E,
  int,
  lanes,
  min,
  mul,
  type Place,
  sub,
  type Whole,
  withExpressions,
} from "../../language/expression.ts";
import type { TileKernel } from "../../language/statements.ts";
import {
  all,
  fadd,
  float,
  fma,
  isSame,
  lanesFrom,
  laneSum,
  load,
  loadPart,
  lt,
  not,
  select,
  splat,
} from "../../language/values.ts";
import { Program } from "../../program.ts";
import { vectorUnit } from "../../units.ts";
import { type Indices, KernelValues, type NameOf } from "../kernel_values.ts";
import { type Box, PackedBox } from "./box.ts";

/** Floats of a vector of results. */
const LANES = 16;
/** Loops of at most this many iterations are unrolled. */
const MAX_UNROLLED = 8;
/** Rows of so few vectors are written without a loop. */
const MAX_SHORT = 4;

/** A step of a work-item around its tiles. */
export type Step =
  /** Goes over a loop's iterations, so many at a time. */
  | { readonly do: "loop"; readonly symbol: number; readonly by: number }
  | { readonly do: "pack"; readonly operand: "a" | "b" };

/** A work-item's part of a product. */
export interface LaneMapping {
  /** The loop along vectors, of the columns or of the sum, floats of a vector, and the first lane of each. */
  readonly lane: number;
  readonly width: number;
  readonly starts: readonly number[];
  /** Loops whose iterations have sums of their own in registers, so many each. */
  readonly rows: readonly (readonly [symbol: number, count: number])[];
  /** Iterations of the outer loops that a work-item takes; of others one. */
  readonly share: ReadonlyMap<number, number>;
  /** Outer loops as work-items count them, the first one fastest. */
  readonly order: readonly number[];
  readonly steps: readonly Step[];
  /** Operands that are packed. */
  readonly boxes: { readonly a?: Box; readonly b?: Box };
  /** Loops whose last tile reaches beyond the end; others are moved back, onto what the one before has. */
  readonly clipped?: readonly number[];
  /** Inner loops that are written out, so that equal elements are read once. */
  readonly unrolled?: readonly number[];
  /** Results lie along the lanes, or along `turned`, a loop of rows, or are stored one by one. */
  readonly stores: "lanes" | "turned" | "single";
  /** Terms before their turn at which vectors are asked for. */
  readonly prefetch?: number;
  /** What results need is asked for before the sum. */
  readonly expects?: boolean;
  /** Scalars are read from memory each time. */
  readonly reloads?: boolean;
  /** Sizes are numbers of the text. */
  readonly isFixed: boolean;
}

/**
 * The kernel of a product; what is given are results by the indices of all outer loops, in their order, and the
 * number of lanes that count.
 */
export function laneProduct(
  kernel: LoopKernel,
  mapping: LaneMapping,
  nameOf: NameOf,
): TileKernel {
  return withExpressions(() => {
    const p = new Program(vectorUnit(mapping.width), (value) => nameOf({ kind: "index", value }));
    return new LaneProduct(new KernelValues(kernel, p, nameOf, false, mapping.isFixed), mapping)
      .write();
  });
}

/** Where a loop stands: its first iteration, the first that no tile before has, and where it ends. */
interface At {
  readonly first: E;
  readonly fresh: E;
  readonly end: E;
  /** The turn of the step that goes over it. */
  readonly turn?: E;
}

/** The sums of a row of a tile, and how far the row's loops are moved. */
interface Row {
  readonly moved: ReadonlyMap<number, number>;
  readonly sums: readonly E[];
}

/** What each addition of a block to a total rounds off is added up beside. */
interface Total {
  readonly total: E;
  readonly lost: E;
}

type Loops = ReadonlyMap<number, At>;
type Operand = "a" | "b";

const fsub = (a: E, b: E): E => primitive("sub", [a, b], "float32");

/** The indices of some iterations of loops: all combinations. */
const iterations = (
  loops: readonly (readonly [symbol: number, count: number])[],
): Map<number, number>[] =>
  loops.reduce<Map<number, number>[]>(
    (all, [s, count]) =>
      all.flatMap((moved) => Array.from({ length: count }, (_, k) => new Map([...moved, [s, k]]))),
    [new Map()],
  );

class LaneProduct {
  readonly #values: KernelValues;
  readonly #p: Program;
  readonly #kernel: LoopKernel;
  readonly #m: LaneMapping;
  readonly #boxes = new Map<Operand, PackedBox>();
  /** Sums that several turns of the steps add to; null: a tile is summed at once. */
  readonly #memory: Place | null;
  #tile: readonly Row[] = [];

  constructor(values: KernelValues, mapping: LaneMapping) {
    const { kernel, p } = values;
    this.#values = values;
    this.#p = p;
    this.#kernel = kernel;
    this.#m = mapping;
    for (const name of ["a", "b"] as const) {
      const box = mapping.boxes[name];
      if (box) this.#boxes.set(name, new PackedBox(values, box));
    }
    const isApart = mapping.steps.some((step) =>
      step.do === "loop" && kernel.inner.includes(step.symbol)
    );
    this.#memory = isApart ? p.array("local", this.#memorySize, "float") : null;
  }

  write(): TileKernel {
    const p = this.#p, loops = this.#placed(), { steps, width } = this.#m, memory = this.#memory;
    if (memory !== null) {
      const zero = splat(float(0), width);
      p.loop(int(this.#memorySize / width), (k) => p.store(memory, mul(k, width), zero), 1);
    }
    this.#steps(steps, loops, (at) => {
      this.#multiply(at);
      if (memory === null) return this.#store(at);
      this.#eachSum(at, (sum, place, before) => p.store(memory, place, fadd(before, sum)));
    });
    if (memory !== null) {
      this.#steps(this.#outerSteps(), loops, (at) => {
        this.#declare();
        this.#eachSum(at, (sum, _, all) => p.set(sum, all));
        this.#store(at);
      });
    }
    const groups = this.#kernel.outer.reduce((n, s) => n * this.#turns(s), 1);
    return p.finish("lane product", groups);
  }

  /** Work-items along a loop. */
  #turns(symbol: number): number {
    return Math.ceil(this.#kernel.sizes[symbol]! / this.#shareOf(symbol));
  }

  #shareOf(symbol: number): number {
    return this.#m.share.get(symbol) ?? 1;
  }

  /** The steps over loops of the result. */
  #outerSteps(): Extract<Step, { do: "loop" }>[] {
    return this.#m.steps.filter((step) => step.do === "loop")
      .filter(({ symbol }) => this.#kernel.outer.includes(symbol));
  }

  get #tileSize(): number {
    const { rows, starts, width } = this.#m;
    return rows.reduce((n, [, count]) => n * count, 1) * starts.length * width;
  }

  get #memorySize(): number {
    return this.#outerSteps().reduce(
      (n, { symbol, by }) => n * Math.ceil(this.#shareOf(symbol) / by),
      this.#tileSize,
    );
  }

  #number(value: number): E {
    return this.#values.isFixed ? int(value) : this.#p.size(value);
  }

  /** The loops of the group's work-item. */
  #placed(): Loops {
    const { outer, inner } = this.#kernel, at = new Map<number, At>();
    const counted = this.#m.order.filter((s) => this.#turns(s) > 1), p = this.#p;
    for (const s of outer) at.set(s, { first: int(0), fresh: int(0), end: this.#values.size(s) });
    let rest: E = p.group;
    counted.forEach((s, k) => {
      const count = this.#shareOf(s), end = this.#values.size(s);
      let number = rest;
      if (k < counted.length - 1) {
        const [quotient, remainder] = divideBy(rest, this.#number(this.#turns(s)));
        number = p.let(remainder);
        rest = p.let(quotient);
      }
      const fresh = mul(number, count);
      at.set(s, {
        first: this.#movedBack(s, fresh, count),
        fresh,
        end: count === 1 ? add(fresh, 1) : p.let(min(add(fresh, count), end)),
      });
    });
    for (const s of inner) at.set(s, this.#summed(s, at));
    return at;
  }

  /** A loop of the sum: all of it, or the part that this row was given. */
  #summed(symbol: number, at: Loops): At {
    const { chunk } = this.#kernel, size = this.#values.size(symbol), p = this.#p;
    if (chunk?.symbol !== symbol) return { first: int(0), fresh: int(0), end: size };
    const length = this.#number(chunk.length),
      first = p.let(mul(at.get(chunk.part)!.first, length));
    return { first, fresh: first, end: p.let(min(add(first, length), size)) };
  }

  /** Where so many iterations begin: the last ones end with the loop, unless they may be clipped. */
  #movedBack(symbol: number, first: E, count: number): E {
    if (this.#kernel.sizes[symbol]! % count === 0 || this.#isClipped(symbol)) return first;
    return this.#p.let(min(first, sub(this.#values.size(symbol), count)));
  }

  #isClipped(symbol: number): boolean {
    return this.#m.clipped?.includes(symbol) ?? false;
  }

  #steps(steps: readonly Step[], at: Loops, body: (at: Loops) => void): void {
    const [step, ...rest] = steps, p = this.#p;
    if (step === undefined) return body(at);
    if (step.do === "pack") {
      this.#boxes.get(step.operand)!.pack(new Map([...at].map(([s, { first }]) => [s, first])));
      return this.#steps(rest, at, body);
    }
    const { symbol, by } = step, { first, fresh, end } = at.get(symbol)!;
    const { sizes, inner } = this.#kernel, isInner = inner.includes(symbol);
    const all = isInner ? sizes[symbol]! : this.#shareOf(symbol);
    const isDivided = all % by === 0 && all <= sizes[symbol]!;
    const isExact = isDivided && sizes[symbol]! % all === 0;
    // Of a share that is moved back, the tiles that are not of the one before.
    const begin = isDivided && first !== fresh
      ? p.let(add(first, mul(div(sub(fresh, first), by), by)))
      : fresh;
    const turns = isExact ? int(all / by) : p.let(div(add(sub(end, begin), by - 1), by));
    p.loop(turns, (turn) => {
      const own = add(begin, mul(turn, by));
      const placed: At = {
        first: isInner || isDivided ? own : this.#movedBack(symbol, own, by),
        fresh: begin === fresh ? own : fresh,
        end: isExact ? add(own, by) : p.let(min(add(own, by), end)),
        turn,
      };
      this.#steps(rest, new Map([...at, [symbol, placed]]), body);
    }, 1);
  }

  /** Registers of a tile, all 0. */
  #declare(): void {
    const { rows, starts, width } = this.#m, zero = splat(float(0), width);
    this.#tile = iterations(rows).map((moved) => ({
      moved,
      sums: starts.map(() => this.#p.register(zero)),
    }));
  }

  /** The sums of the tile in registers, with their place in memory and what it holds. */
  #eachSum(at: Loops, body: (sum: E, place: E, held: E) => void): void {
    const { width } = this.#m, p = this.#p;
    const tile = this.#outerSteps().reduce<E>(
      (n, { symbol, by }) =>
        add(mul(n, Math.ceil(this.#shareOf(symbol) / by)), at.get(symbol)!.turn ?? 0),
      int(0),
    );
    const base = p.let(mul(tile, this.#tileSize));
    this.#tile.flatMap(({ sums }) => sums).forEach((sum, k) => {
      const place = add(base, k * width);
      body(sum, place, load(this.#memory!, add(place, lanes(width))));
    });
  }

  /** Adds up the products of a tile. */
  #multiply(at: Loops): void {
    const { expects, unrolled = [], lane, width } = this.#m, kernel = this.#kernel;
    if (expects) this.#expect(at);
    this.#declare();
    const steps = (s: number, size: number): number => s === lane ? Math.ceil(size / width) : size;
    const blocks = this.#memory === null ? blocksOf(kernel, steps, BLOCK_PRODUCTS) : null;
    const sums = this.#tile.flatMap(({ sums }) => sums), zero = splat(float(0), width);
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
    const block = this.#number(length), turns = divideBy(add(sub(end, first), block, -1), block)[0];
    p.loop(p.let(turns), (turn) => {
      const start = p.let(add(first, mul(turn, block))),
        sums = this.#tile.flatMap((row) => row.sums);
      sums.forEach((sum) => p.set(sum, splat(float(0), width)));
      inside(start, p.let(min(add(start, block), end)));
      sums.forEach((sum, k) => this.#addBlock(sum, totals[k]!));
    }, 1);
  }

  #iterations(s: number, first: E, end: E, isLast: boolean, body: (i: E) => void): void {
    const size = this.#kernel.sizes[s]!, isShort = size <= MAX_UNROLLED && first.op === "const";
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
    const size = this.#kernel.sizes[s]!,
      isShort = size <= MAX_SHORT * width && first.op === "const";
    const length = isShort ? int(size) : p.let(sub(end, first)), whole = p.let(div(length, width));
    const term = (i: E, left: E | null): void =>
      this.#term(new Map([...at, [s, { first: i, fresh: i, end }]]), left);
    p.loop(whole, (turn) => term(add(first, mul(turn, width)), null), isShort ? Infinity : 1);
    const begin = add(first, mul(whole, width)), left = p.let(sub(end, begin));
    const isWhole = size % width === 0 && this.#kernel.chunk?.symbol !== s;
    if (!isWhole) p.when(lt(0, left), () => term(p.let(begin), left));
  }

  /** Adds the products of a term, or of those that are written out: each element is read once. */
  #term(at: Loops, left: E | null): void {
    const { unrolled = [], starts, prefetch, reloads } = this.#m, p = this.#p;
    if (reloads) p.emit({ s: "reload" });
    const first = new Map([...at].map(([s, { first }]) => [s, first]));
    for (const s of unrolled) first.set(s, int(0));
    const reader = { a: this.#reader("a", first, left), b: this.#reader("b", first, left) };
    if (prefetch) this.#prefetch(first, prefetch);
    const terms = iterations(unrolled.map((s) => [s, this.#kernel.sizes[s]!])).flatMap((term) =>
      this.#tile.flatMap(({ moved, sums }) => {
        const all = new Map([...term, ...moved]);
        return starts.map((_, v) => ({ a: reader.a(all, v), b: reader.b(all, v), sum: sums[v]! }));
      })
    );
    const count = (name: Operand): number => new Set(terms.map((term) => term[name])).size;
    const [few, many]: Operand[] = count("a") <= count("b") ? ["a", "b"] : ["b", "a"];
    const held = new Map<E, E>();
    for (const term of terms) held.getOrInsertComputed(term[few!], (e) => p.let(e));
    for (const [value, group] of Map.groupBy(terms, (term) => term[many!])) {
      const own = p.let(value);
      for (const term of group) p.set(term.sum, fma(held.get(term[few!])!, own, term.sum));
    }
  }

  /** Reads elements of an operand near some indices. */
  #reader(
    name: Operand,
    first: Indices,
    left: E | null,
  ): (moved: ReadonlyMap<number, number>, v: number) => E {
    const { lane, starts, width } = this.#m, p = this.#p, operand = this.#kernel.contraction![name];
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
      this.#values.affine(this.#kernel.contraction![name].index, at);
  }

  /** Asks for the vectors of a later term. */
  #prefetch(first: Indices, ahead: number): void {
    const { lane, starts } = this.#m, { a, b } = this.#kernel.contraction!;
    const load = coefficient(a.index, lane) === 0 ? b : a, term = this.#kernel.inner.at(-1)!;
    const later = new Map([...first, [term, add(first.get(term)!, ahead)]]);
    const at = this.#p.let(this.#values.affine(load.index, later));
    for (const start of starts) {
      this.#p.emit({ s: "prefetch", from: this.#values.input(load.input), at: add(at, start) });
    }
  }

  /** Coordinates of results: indices of all outer loops. */
  #coordinates(at: Loops, moved: ReadonlyMap<number, Whole>): E[] {
    return this.#kernel.outer.map((s) => add(at.get(s)!.first, moved.get(s) ?? 0));
  }

  #expect(at: Loops): void {
    const { lane, starts } = this.#m;
    for (const moved of iterations(this.#m.rows)) {
      for (const start of starts) {
        const all = new Map([...moved, [lane, start]]);
        this.#p.emit({ s: "expect", at: this.#coordinates(at, all) });
      }
    }
  }

  /** True where an iteration of a tile is one that no other tile stores. */
  #isOwn(at: Loops, symbol: number, moved: Whole, count: number): E {
    const { first, fresh, end } = at.get(symbol)!, { sizes } = this.#kernel;
    if (sizes[symbol]! % count === 0 && this.#shareOf(symbol) % count === 0) return lt(0, 1);
    const own = add(first, moved);
    return this.#isClipped(symbol) ? lt(own, end) : not(lt(own, fresh));
  }

  #store(at: Loops): void {
    const { stores, lane, width, starts } = this.#m, p = this.#p;
    if (stores === "turned") return this.#storeTurned(at);
    if (stores === "single") return this.#storeEach(at);
    const columns = starts.at(-1)! + width, { first, fresh } = at.get(lane)!;
    const isWhole = this.#kernel.sizes[lane]! % columns === 0 || this.#isClipped(lane) ||
      first === fresh;
    if (isWhole) return this.#storeRows(at);
    const isFull = p.let(lt(sub(fresh, first), 1));
    p.when(isFull, () => this.#storeRows(at));
    p.when(not(isFull), () => this.#storeEach(at));
  }

  /** Stores vectors; of those that overlap the one before what is new. */
  #storeRows(at: Loops): void {
    const { rows, lane, width, starts } = this.#m, p = this.#p, { first, end } = at.get(lane)!;
    const columns = starts.at(-1)! + width, { sizes } = this.#kernel;
    const isEnding = this.#isClipped(lane) && sizes[lane]! % columns !== 0;
    for (const { moved, sums } of this.#tile) {
      const own = all(rows.map(([s, count]) => this.#isOwn(at, s, moved.get(s)!, count)));
      p.when(own, () =>
        sums.forEach((sum, v) => {
          const overlap = v === 0 ? 0 : Math.max(0, starts[v - 1]! + width - starts[v]!);
          const start = starts[v]! + overlap;
          const left = isEnding
            ? p.let(min(sub(end, add(first, start)), width))
            : int(width - overlap);
          const give = (): void =>
            p.give(
              [...this.#coordinates(at, new Map([...moved, [lane, start]])), left],
              lanesFrom(sum, overlap),
            );
          p.when(isEnding && v > 0 ? lt(0, left) : lt(0, 1), give);
        }));
    }
  }

  /** Stores one by one what is new. */
  #storeEach(at: Loops): void {
    const { rows, lane, width, starts } = this.#m, p = this.#p, { outputs, inner } = this.#kernel;
    const isSummed = inner.includes(lane), columns = isSummed ? 1 : starts.at(-1)! + width;
    const tile = p.array("private", this.#tile.length * columns, "float");
    this.#tile.forEach(({ sums }, r) =>
      sums.forEach((sum, v) =>
        p.store(tile, int(r * columns + (isSummed ? 0 : starts[v]!)), isSummed ? laneSum(sum) : sum)
      )
    );
    const loops = rows.map(([s, count], k) => {
      const step = rows.slice(k + 1).reduce((n, [, c]) => n * c, columns);
      return { symbol: s, count, step };
    });
    const along = isSummed ? [] : [{ symbol: lane, count: columns, step: 1 }];
    const isLast = outputs.every(({ index }) => coefficient(index, lane) === 1);
    const order = isLast ? [...loops, ...along] : [...along, ...loops];
    const walk = (k: number, place: E, moved: ReadonlyMap<number, E>): void => {
      const loop = order[k];
      if (loop === undefined) {
        return p.give([...this.#coordinates(at, moved), int(1)], held(tile, place, "float"));
      }
      const { symbol, count, step } = loop;
      p.loop(
        int(count),
        (i) =>
          p.when(
            this.#isOwn(at, symbol, i, count),
            () => walk(k + 1, add(place, mul(i, step)), new Map([...moved, [symbol, i]])),
          ),
        1,
      );
    };
    walk(0, int(0), new Map());
  }

  /** Turns the sums of each vector's lanes into vectors along the rows. */
  #storeTurned(at: Loops): void {
    const { rows: [[symbol, count]], lane, starts } = this.#m as LaneMapping & {
      readonly rows: readonly [readonly [number, number]];
    };
    const p = this.#p, square = LANES * LANES, along = at.get(symbol)!, across = at.get(lane)!;
    const from = p.array("local", square, "float"), to = p.array("local", square, "float");
    const pitch = int(LANES), left = sub(along.end, along.first);
    const isWhole = this.#kernel.sizes[symbol]! % count === 0 &&
      this.#shareOf(symbol) % count === 0;
    const counted = isWhole ? int(count) : p.let(min(left, count));
    starts.forEach((start, v) => {
      for (let r = 0; r < LANES; r++) {
        p.store(from, int(r * LANES), this.#tile[r]?.sums[v] ?? splat(float(0), LANES));
      }
      p.emit({ s: "transpose", from, at: int(0), step: pitch, to, index: int(0), pitch });
      const lanesLeft = p.let(min(sub(across.end, add(across.first, start)), LANES));
      p.loop(lanesLeft, (c) => {
        const sums = load(to, add(mul(c, LANES), lanes(LANES)));
        p.give([...this.#coordinates(at, new Map([[lane, add(c, start)]])), counted], sums);
      }, 1);
    });
  }
}

/** True where an offset is the same for all terms: a constant, or numbers of the launch. */
const isFixedOffset = (e: E): boolean =>
  e.op === "const" || e.op === "var" && e.name.startsWith("p") ||
  (e.op === "sum" || e.op === "+") && e.args.every(isFixedOffset);
