/** Accumulators of reductions in vectors of 16 lanes. */
import {
  type Blocks,
  blocksOf,
  isBlocked,
  Total,
  type TotalText,
} from "../../kernel/accumulation.ts";
import type { Dialect, Emitter } from "../../codegen/emit.ts";
import { identityOf } from "../../graph/reductions.ts";
import type { Reduction } from "../../kernel/kernel.ts";
import { joinLanes, LANES, laneType } from "./vector.ts";

/** Totals of floats or vectors of them. */
export function totalText(type: string): TotalText {
  const isVector = /\d$/.test(type);
  return {
    constant: (name, text) => `const ${type} ${name} = ${text};`,
    variable: (name, text) => `${type} ${name} = ${text};`,
    zero: "0",
    numberOrZero: (name) =>
      isVector
        ? `select(${name}, (${type})(0), ${name} != ${name})`
        : `(${name} == ${name} ? ${name} : 0)`,
  };
}

const lanesOf = totalText("float16");

/** True where one element is picked by comparisons, which NaN must survive. */
function picks(reduction: Reduction): boolean {
  return (reduction.fn === "max" || reduction.fn === "min") && laneType(reduction) === "float16";
}

/**
 * The accumulators of a stage: `copies` vectors for each reduction, `z0_0`, `z0_1`, ... Where a sum is
 * added up in blocks these are totals, and `q0_0`, `q0_1`, ... the sums of a block.
 *
 * Rows have vectors whose lanes are parts of one result: the copies end in `z0_0`. Columns have a
 * result in each lane of each copy.
 */
export class LaneSums {
  /** Null where no sum of the stage needs them. */
  readonly blocks: Blocks | null;
  readonly #emitter: Emitter;
  readonly #dialect: Dialect;
  readonly #stage: readonly number[];
  readonly #copies: number;
  readonly #areRows: boolean;
  readonly #totals: ReadonlyMap<number, readonly Total[]>;

  /** @param along The loop that vectors walk, where that is one of a row. */
  constructor(
    emitter: Emitter,
    dialect: Dialect,
    stage: readonly number[],
    copies: number,
    along?: number,
  ) {
    this.#emitter = emitter;
    this.#dialect = dialect;
    this.#stage = stage;
    this.#copies = copies;
    this.#areRows = along !== undefined;
    const { kernel } = emitter;
    const blocked = stage.filter((r) => isBlocked(kernel.reductions[r]!));
    this.blocks = blocked.length === 0 ? null : this.#blocksAlong(along);
    const totals = along === undefined ? copies : 1;
    this.#totals = new Map(
      (this.blocks ? blocked : []).map((r) => [
        r,
        Array.from({ length: totals }, (_, c) => new Total(emitter, lanesOf, `z${r}_${c}`)),
      ]),
    );
  }

  #blocksAlong(along?: number): Blocks | null {
    const width = LANES * this.#copies;
    const isAlong = (s: number): boolean => s === along;
    const found = blocksOf(
      this.#emitter.kernel,
      (s, size) => isAlong(s) ? Math.ceil(size / width) : size,
    );
    return found && isAlong(found.symbol) ? { ...found, length: found.length * width } : found;
  }

  #name(r: number): string {
    return this.#totals.has(r) ? `q${r}` : `z${r}`;
  }

  declare(): void {
    for (const r of this.#stage) {
      const totals = this.#totals.get(r);
      if (totals) { for (const total of totals) total.declare(); }
      else this.#declare(r);
    }
  }

  #declare(r: number): void {
    const reduction = this.#emitter.kernel.reductions[r]!;
    const type = laneType(reduction);
    const { fn, dtype } = reduction;
    const identity = `(${type})(${this.#dialect.constant(identityOf(fn, dtype), dtype)})`;
    for (let c = 0; c < this.#copies; c++) {
      this.#emitter.line(`${type} ${this.#name(r)}_${c} = ${identity};`);
      if (picks(reduction)) this.#emitter.line(`${type} n${r}_${c} = 0.0f;`);
    }
  }

  /** Before the iterations of a block. */
  begin(): void {
    for (const r of this.#totals.keys()) this.#declare(r);
  }

  /** Joins a vector of values into an accumulator. */
  accumulate(r: number, copy: number, value: string): void {
    const emitter = this.#emitter, reduction = emitter.kernel.reductions[r]!;
    const z = `${this.#name(r)}_${copy}`;
    if (picks(reduction)) {
      // A bare comparison is one instruction; what it loses is collected beside it.
      const n = `n${r}_${copy}`, operator = reduction.fn === "max" ? ">" : "<";
      emitter.line(`${z} = select(${value}, ${z}, ${z} ${operator} ${value});`);
      emitter.line(`${n} = select(${n}, ${value}, ${value} != ${value});`);
    } else this.join(r, value, copy);
  }

  /** The same for a value whose NaN needs no care. */
  join(r: number, value: string, copy = 0): void {
    const z = `${this.#name(r)}_${copy}`;
    this.#emitter.line(`${z} = ${joinLanes(this.#emitter.kernel.reductions[r]!, z, value)};`);
  }

  /** After the iterations of a block. */
  end(): void {
    for (const [r, totals] of this.#totals) {
      if (this.#areRows) this.#joinCopies(r);
      totals.forEach((total, c) => total.add(`q${r}_${c}`));
    }
  }

  /** After the last block: results are what {@linkcode joinLanes} would have made of all values. */
  finish(): void {
    for (const r of this.#stage) {
      const totals = this.#totals.get(r);
      if (totals) { for (const total of totals) total.finish(); }
      else {
        this.#settle(r);
        if (this.#areRows) this.#joinCopies(r);
      }
    }
  }

  #settle(r: number): void {
    if (!picks(this.#emitter.kernel.reductions[r]!)) return;
    for (let c = 0; c < this.#copies; c++) {
      const z = `z${r}_${c}`, n = `n${r}_${c}`;
      this.#emitter.line(`${z} = select(${z}, ${n}, ${n} != ${n});`);
    }
  }

  /** Joins the copies in the first one, by halves. */
  #joinCopies(r: number): void {
    const name = this.#name(r);
    for (let half = this.#copies >> 1; half > 0; half >>= 1) {
      for (let c = 0; c < half; c++) this.join(r, `${name}_${c + half}`, c);
    }
  }
}
