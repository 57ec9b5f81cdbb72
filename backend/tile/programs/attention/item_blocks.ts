/**
 * Blocks of attention on GPUs without matrix units: a work-group of 16 by 16 items, of which each has a piece of the
 * scores and of the sums in registers. Rows travel through local memory, where elements of all types are floats
 * and rows are one element longer than needed, so that neighbours are in different banks.
 */
import { held } from "../../language/elements.ts";
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
import { all, float, fma, fmul, lt } from "../../language/values.ts";
import type { Program } from "../../program.ts";
import {
  cleared,
  type Grid,
  RowBlocks,
  type ScoreProduct,
  type StoredRows,
  type Turn,
  valueAt,
  type Walk,
  type WeightedSum,
} from "./blocks.ts";
import type { Operand } from "./head_values.ts";

/** Items of a group along each side of a block. */
export const SIDE = 16;

/** Terms of products that are written one after the other. */
const UNROLL = 4;

/** Rows and columns of a block, the fastest first. */
const BLOCKS = [[64, 64], [64, 32], [32, 32], [32, 16], [16, 16]] as const;

/** Rows and columns of a block. */
export interface BlockSize {
  readonly rows: number;
  readonly columns: number;
}

/** The largest block whose local memory a group may have, of so many bytes; `kept` are the lengths of its rows. */
export function blockSize(bytes: number, kept: readonly number[], walked: number): BlockSize {
  const fits = ([rows, columns]: readonly [number, number]): boolean => {
    const floats = kept.reduce((sum, n) => sum + rows * (n + 1), 0) + columns * (walked + 1) +
      rows * (columns + 1) + 2 * rows * (SIDE + 1) + 2 * columns;
    return 4 * floats <= bytes;
  };
  const [rows, columns] = BLOCKS.find(fits) ?? BLOCKS.at(-1)!;
  return { rows, columns };
}

/** Rows of a matrix in local memory. */
interface LocalRows {
  readonly place: Place;
  readonly operand: Operand;
}

/** The blocks of a group. */
export class ItemBlocks extends RowBlocks {
  readonly p: Program;
  readonly rows: number;
  readonly columns: number;
  readonly own: number;
  readonly #x: E;
  readonly #y: E;
  #kept: readonly LocalRows[] = [];

  constructor(p: Program, { rows, columns }: BlockSize) {
    super();
    this.p = p;
    this.rows = rows;
    this.columns = columns;
    this.own = rows / SIDE;
    this.#x = p.let(p.across);
    this.#y = p.let(p.down);
  }

  row(row: number): E {
    return add(this.#y, row * SIDE);
  }

  sums(columns: number): Grid {
    const runs = Math.ceil(columns / SIDE);
    return cleared(this.p, {
      place: this.p.array("private", this.own * runs, "float"),
      rows: this.own,
      runs: int(runs),
      run: 1,
      width: 1,
      at: (row, run) => add(run, row * runs),
      column: (run) => add(this.#x, mul(run, SIDE)),
    });
  }

  join(parts: readonly E[], combine: (a: E, b: E) => E): void {
    this.p.join(parts, (a, b) => a.map((part, k) => combine(part, b[k]!)));
  }

  protected get storesNumbers(): E {
    return lt(this.#x, 1);
  }

  keep(kept: readonly Operand[], row0: E): void {
    this.#kept = kept.map((operand) => {
      const place = this.p.array("local", this.rows * (operand.features + 1), "float");
      this.#fill(place, operand, this.rows, row0);
      return { place, operand };
    });
  }

  /** Copies rows to local memory; those behind the last are zeros. */
  #fill(into: Place, operand: Operand, rows: number, first: E): void {
    const { p } = this, { features } = operand, all = rows * features;
    p.loop(int(Math.ceil(all / p.items)), (turn) => {
      const own = add(mul(turn, p.items), p.item), row = div(own, features);
      p.when(lt(own, all), () => {
        const at = p.let(add(first, row)), value = p.register(float(0)), e = mod(own, features);
        p.when(lt(at, operand.length), () => p.set(value, operand.element(at, e)));
        p.store(into, add(mul(row, features + 1), e), value);
      });
    }, 1);
  }

  walk({ walked, numbers, from, to }: Walk, body: (turn: Turn) => void): void {
    const { p, columns } = this, longest = Math.max(...walked.map(({ features }) => features));
    const rows = p.array("local", columns * (longest + 1), "float");
    const kept = numbers.map(() => p.array("local", columns, "float"));
    const weights = p.array("local", this.rows * (columns + 1), "float");
    const count = p.let(div(add(sub(to, from), columns - 1), columns));
    p.loop(count, (at) => {
      const first = p.let(add(from, mul(at, columns)));
      numbers.forEach((operand, k) => this.#fillNumbers(kept[k]!, operand, first));
      // Local memory has the rows of one matrix at a time.
      let there = -1;
      const fill = (which: number): Operand => {
        const operand = walked[which]!;
        if (there !== which) this.#fill(rows, operand, columns, first);
        there = which;
        return operand;
      };
      body({
        first,
        number: (which, run) => held(kept[which]!, add(this.#x, mul(run, SIDE)), "float"),
        scores: (all) =>
          all.map((product) =>
            this.#score(product, { place: rows, operand: fill(product.walked) })
          ),
        add: (all) =>
          all.forEach((sum) => this.#add(sum, weights, { place: rows, operand: fill(sum.walked) })),
      });
    }, 1);
  }

  #fillNumbers(into: Place, operand: Operand, first: E): void {
    const { p } = this;
    p.when(lt(p.item, this.columns), () => {
      const at = p.let(add(first, p.item)), value = p.register(float(0));
      p.when(lt(at, operand.length), () => p.set(value, operand.element(at, int(0))));
      p.store(into, p.item, value);
    });
  }

  #score({ kept }: ScoreProduct, walked: LocalRows): Grid {
    const { p } = this, { place, operand } = this.#kept[kept]!, pitch = operand.features + 1;
    const grid = this.sums(this.columns);
    p.loop(int(operand.features), (e) => {
      const read = (from: Place, own: E): E => p.let(held(from, add(mul(own, pitch), e), "float"));
      const x = Array.from({ length: grid.rows }, (_, row) => read(place, this.row(row)));
      const y = Array.from(
        { length: grid.runs.value },
        (_, run) => read(walked.place, grid.column(int(run), 0)),
      );
      this.#products(grid, x, y);
    }, UNROLL);
    return grid;
  }

  #products(grid: Grid, x: readonly E[], y: readonly E[]): void {
    x.forEach((left, row) =>
      y.forEach((right, run) => {
        const at = grid.at(row, int(run), 0);
        this.p.store(grid.place, at, fma(left, right, valueAt(grid, at)));
      })
    );
  }

  #add({ sums, weights }: WeightedSum, into: Place, { place, operand }: LocalRows): void {
    const { p, columns } = this, pitch = columns + 1;
    for (let row = 0; row < weights.rows; row++) {
      p.loop(weights.runs, (run) => {
        const at = add(mul(this.row(row), pitch), weights.column(run, 0));
        p.store(into, at, valueAt(weights, weights.at(row, run, 0)));
      }, Infinity);
    }
    p.loop(int(columns), (column) => {
      const x = Array.from(
        { length: sums.rows },
        (_, row) => p.let(held(into, add(mul(this.row(row), pitch), column), "float")),
      );
      // Items behind the last feature repeat it: what they add is not stored.
      const y = Array.from({ length: sums.runs.value }, (_, run) => {
        const e = min(sums.column(int(run), 0), operand.features - 1);
        return p.let(held(place, add(mul(column, operand.features + 1), e), "float"));
      });
      this.#products(sums, x, y);
    }, UNROLL);
  }

  store(output: Place, sums: Grid, columns: number, stored: StoredRows): void {
    const { p } = this;
    for (let row = 0; row < sums.rows; row++) {
      const own = p.let(this.row(row)), index = p.let(stored.index(own));
      const isThere = stored.isThere(own), factor = stored.factor(row);
      p.loop(sums.runs, (run) => {
        const column = sums.column(run, 0), sum = valueAt(sums, sums.at(row, run, 0));
        p.when(
          all([isThere, lt(column, columns)]),
          () => p.store(output, add(index, column), factor === null ? sum : fmul(sum, factor)),
        );
      }, Infinity);
    }
  }
}
