/** Results of the sums of a tile: along the lanes, along rows, or one by one. */
import { coefficient } from "../../../kernel/affine.ts";
import type { LoopKernel } from "../../../kernel/kernel.ts";
import { held } from "../../language/elements.ts";
import {
  add,
  div,
  type E,
  int,
  lanes,
  min,
  mul,
  type Place,
  sub,
  type Whole,
} from "../../language/expression.ts";
import { all, float, lanesFrom, laneSum, load, lt, not, splat } from "../../language/values.ts";
import type { Program } from "../../program.ts";
import type { KernelValues } from "../kernel_values.ts";
import {
  isClipped,
  iterations,
  type LaneMapping,
  type Loops,
  type LoopStep,
  type Row,
  shareOf,
} from "./lane_mapping.ts";

/** Floats of a vector of results. */
const LANES = 16;

/** A loop over results. */
interface ResultLoop {
  readonly symbol: number;
  readonly count: number;
  /** From one of its sums to the next. */
  readonly apart: number;
  /** Goes over tiles; else over what a tile has. */
  readonly step?: LoopStep;
  /** Goes over so many vectors, from one of its iterations on. */
  readonly turns?: E;
  readonly begin?: E;
}

export class LaneResults {
  readonly #values: KernelValues;
  readonly #p: Program;
  readonly #kernel: LoopKernel;
  readonly #m: LaneMapping;

  constructor(values: KernelValues, mapping: LaneMapping) {
    this.#values = values;
    this.#p = values.p;
    this.#kernel = values.kernel;
    this.#m = mapping;
  }

  /** Coordinates of results: indices of all outer loops, or where they go. */
  #coordinates(at: Loops, moved: ReadonlyMap<number, Whole>): E[] {
    const { target } = this.#m, { outer } = this.#kernel;
    const indices = outer.map((s) => add(at.get(s)!.first, moved.get(s) ?? 0));
    if (target === undefined) return indices;
    return [this.#values.affine(target, new Map(outer.map((s, k) => [s, indices[k]!])))];
  }

  /** Says which results will be given. */
  expect(at: Loops): void {
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
    if (sizes[symbol]! % count === 0 && shareOf(this.#m, symbol) % count === 0) return lt(0, 1);
    const own = add(first, moved);
    return isClipped(this.#m, symbol) ? lt(own, end) : not(lt(own, fresh));
  }

  /** Gives the results of a tile. */
  store(at: Loops, tile: readonly Row[]): void {
    const { stores, lane } = this.#m, p = this.#p, { first, fresh } = at.get(lane)!;
    if (stores === "turned") return this.#storeTurned(at, tile);
    if (stores === "single") return this.#storeEach(at, tile);
    const isWhole = this.#kernel.sizes[lane]! % this.#columns === 0 || isClipped(this.#m, lane) ||
      first === fresh;
    if (isWhole) return this.#storeRows(at, tile);
    const isFull = p.let(lt(sub(fresh, first), 1));
    p.when(isFull, () => this.#storeRows(at, tile));
    p.when(not(isFull), () => this.#storeNew(at, tile));
  }

  /** True where all results of a tile count. */
  #isFull(at: Loops): E {
    const { rows, lane, width, starts } = this.#m;
    return all([...rows, [lane, starts.at(-1)! + width] as const].map(([s, count]) => {
      const { first, fresh, end } = at.get(s)!;
      return isClipped(this.#m, s) ? not(lt(end, add(first, count))) : not(lt(first, fresh));
    }));
  }

  #storeRows(at: Loops, tile: readonly Row[]): void {
    if (!this.#m.asksOnce) return this.#storeVectors(at, tile, false);
    const p = this.#p, isFull = p.let(this.#isFull(at));
    p.when(isFull, () => this.#storeVectors(at, tile, true));
    p.when(not(isFull), () => this.#storeVectors(at, tile, false));
  }

  /** Stores vectors; of those that overlap the one before what is new. */
  #storeVectors(at: Loops, tile: readonly Row[], isFull: boolean): void {
    const { rows, lane, width, starts } = this.#m, p = this.#p, { first, end } = at.get(lane)!;
    const columns = starts.at(-1)! + width, { sizes } = this.#kernel;
    const isEnding = !isFull && isClipped(this.#m, lane) && sizes[lane]! % columns !== 0;
    for (const { moved, sums } of tile) {
      const own = isFull
        ? lt(0, 1)
        : all(rows.map(([s, count]) => this.#isOwn(at, s, moved.get(s)!, count)));
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
  #storeEach(at: Loops, tile: readonly Row[]): void {
    const isSummed = this.#kernel.inner.includes(this.#m.lane);
    const columns = isSummed ? 1 : this.#columns, kept = this.#kept(tile, columns, 0, isSummed);
    this.#give(this.#loopsOf(columns), kept, at);
  }

  /** Columns of a tile. */
  get #columns(): number {
    return this.#m.starts.at(-1)! + this.#m.width;
  }

  /** The sums of a tile in memory, row by row, and room behind them for what reads vectors. */
  #kept(tile: readonly Row[], columns: number, room: number, isSummed: boolean): Place {
    const p = this.#p, size = tile.length * columns;
    const kept = p.array(room > 0 ? "local" : "private", size + room, "float");
    if (room > 0) p.store(kept, int(size), splat(float(0), room));
    tile.forEach(({ sums }, r) =>
      sums.forEach((sum, v) => {
        const start = isSummed ? 0 : this.#m.starts[v]!;
        p.store(kept, int(r * columns + start), isSummed ? laneSum(sum) : sum);
      })
    );
    return kept;
  }

  /** Stores what is new of a tile that was moved back: vectors from its first new column on. */
  #storeNew(at: Loops, tile: readonly Row[]): void {
    const { lane, width } = this.#m, p = this.#p, { first, fresh, end } = at.get(lane)!;
    const kept = this.#kept(tile, this.#columns, width, false);
    const begin = p.let(sub(fresh, first)),
      turns = p.let(div(add(sub(end, fresh), width - 1), width));
    const vectors: ResultLoop = { symbol: lane, count: width, apart: 1, turns, begin };
    this.#give([...this.#loopsOf(this.#columns).slice(0, -1), vectors], kept, at);
  }

  /**
   * Gives the results of all tiles of a work-item from where their sums are, one by one.
   *
   * @param turns The steps that go over the tiles, each with its turns; their tiles lie one behind the other.
   * @param over Writes such a step around what it is given.
   */
  storeAll(
    sums: Place,
    at: Loops,
    turns: readonly (readonly [step: LoopStep, count: number])[],
    over: (step: LoopStep, at: Loops, body: (at: Loops) => void) => void,
  ): void {
    const { starts, width } = this.#m, loops = this.#loopsOf(starts.length * width);
    const size = loops.reduce((n, { count }) => n * count, 1);
    const tiles = turns.map(([step, count], k) => {
      const behind = turns.slice(k + 1).reduce((n, [, c]) => n * c, size);
      return { symbol: step.symbol, count, apart: behind, step };
    });
    this.#give([...tiles, ...loops], sums, at, over);
  }

  /** The loops of a tile, of which results lie one behind the other. */
  #loopsOf(columns: number): ResultLoop[] {
    const { rows, lane } = this.#m, isSummed = this.#kernel.inner.includes(lane);
    const loops = isSummed ? rows : [...rows, [lane, columns] as const];
    return loops.map(([symbol, count], k) => {
      const apart = loops.slice(k + 1).reduce((n, [, c]) => n * c, 1);
      return { symbol, count, apart };
    });
  }

  /** Gives the results of some loops, neighbours in memory behind each other: they share lines of caches. */
  #give(
    loops: readonly ResultLoop[],
    from: Place,
    at: Loops,
    over: Parameters<LaneResults["storeAll"]>[3] = () => {},
  ): void {
    const p = this.#p, { index } = this.#kernel.outputs[0]!;
    const far = ({ symbol }: ResultLoop): number => Math.abs(coefficient(index, symbol));
    const order = loops.toSorted((a, b) => far(b) - far(a));
    const walk = (k: number, at: Loops, place: E, moved: ReadonlyMap<number, E>): void => {
      const loop = order[k];
      if (loop === undefined) {
        return p.give([...this.#coordinates(at, moved), int(1)], held(from, place, "float"));
      }
      const { symbol, count, apart, step, turns, begin } = loop;
      if (turns && begin) {
        return p.loop(turns, (turn) => {
          const own = p.let(add(begin, mul(turn, count))), { first, end } = at.get(symbol)!;
          const left = p.let(min(sub(end, add(first, own)), count));
          const sums = load(from, add(place, own, lanes(count)));
          p.give([...this.#coordinates(at, new Map([...moved, [symbol, own]])), left], sums);
        }, 1);
      }
      if (step) {
        return over(
          step,
          at,
          (own) => walk(k + 1, own, add(place, mul(own.get(symbol)!.turn!, apart)), moved),
        );
      }
      p.loop(
        int(count),
        (i) =>
          p.when(
            this.#isOwn(at, symbol, i, count),
            () => walk(k + 1, at, add(place, mul(i, apart)), new Map([...moved, [symbol, i]])),
          ),
        1,
      );
    };
    walk(0, at, int(0), new Map());
  }

  /** Turns the sums of each vector's lanes into vectors along the rows. */
  #storeTurned(at: Loops, tile: readonly Row[]): void {
    const { rows: [[symbol, count]], lane, starts } = this.#m as LaneMapping & {
      readonly rows: readonly [readonly [number, number]];
    };
    const p = this.#p, square = LANES * LANES, along = at.get(symbol)!, across = at.get(lane)!;
    const from = p.array("local", square, "float"), to = p.array("local", square, "float");
    const pitch = int(LANES), left = sub(along.end, along.first);
    const isWhole = this.#kernel.sizes[symbol]! % count === 0 &&
      shareOf(this.#m, symbol) % count === 0;
    const counted = isWhole ? int(count) : p.let(min(left, count));
    starts.forEach((start, v) => {
      for (let r = 0; r < LANES; r++) {
        p.store(from, int(r * LANES), tile[r]?.sums[v] ?? splat(float(0), LANES));
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
