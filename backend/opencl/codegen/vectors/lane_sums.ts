/** Accumulators of reductions in vectors of 16 lanes. */
import { identityOf } from "../../../graph/reductions.ts";
import type { Blocks } from "../../../kernel/accumulation.ts";
import type { Reduction } from "../../../kernel/kernel.ts";
import type { ReduceStep } from "../../../kernel/row_program.ts";
import type { Dialect, Emitter } from "../../../codegen/emit.ts";
import { Total } from "../../../codegen/total.ts";
import { totalText } from "../tile_sums.ts";
import { joinLanes, laneType } from "./vector_types.ts";

const floatLanes = totalText("float16");

/** True where one element is picked by comparisons, which NaN must survive. */
function picks(reduction: Reduction): boolean {
  return (reduction.fn === "max" || reduction.fn === "min") && laneType(reduction) === "float16";
}

/**
 * The accumulators of a step: `copies` vectors for each reduction, `z0_0`, `z0_1`, ... Where a sum is
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
  readonly #step: ReduceStep;
  readonly #areRows: boolean;
  readonly #totals: ReadonlyMap<number, readonly Total[]>;

  /** @param areRows Whether vectors walk a loop of the row. */
  constructor(emitter: Emitter, dialect: Dialect, step: ReduceStep, areRows: boolean) {
    this.#emitter = emitter;
    this.#dialect = dialect;
    this.#step = step;
    this.#areRows = areRows;
    this.blocks = step.blocked?.blocks ?? null;
    const totals = areRows ? 1 : step.copies;
    this.#totals = new Map(
      step.blocked?.sums.map((r) => [
        r,
        Array.from({ length: totals }, (_, c) => new Total(emitter, floatLanes, `z${r}_${c}`)),
      ]),
    );
  }

  #name(r: number): string {
    return this.#totals.has(r) ? `q${r}` : `z${r}`;
  }

  declare(): void {
    for (const r of this.#step.reductions) {
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
    for (let c = 0; c < this.#step.copies; c++) {
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
      // A bare comparison is one instruction but loses NaN, which is collected in a vector of its own.
      const n = `n${r}_${copy}`, operator = reduction.fn === "max" ? ">" : "<";
      emitter.line(`${z} = select(${value}, ${z}, ${z} ${operator} ${value});`);
      emitter.line(`${n} = select(${n}, ${value}, ${value} != ${value});`);
    } else this.join(r, value, copy);
  }

  /** Joins a vector of values by one expression, which keeps NaN. */
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
    for (const r of this.#step.reductions) {
      const totals = this.#totals.get(r);
      if (totals) { for (const total of totals) total.finish(); }
      else {
        this.#restoreNaN(r);
        if (this.#areRows) this.#joinCopies(r);
      }
    }
  }

  #restoreNaN(r: number): void {
    if (!picks(this.#emitter.kernel.reductions[r]!)) return;
    for (let c = 0; c < this.#step.copies; c++) {
      const z = `z${r}_${c}`, n = `n${r}_${c}`;
      this.#emitter.line(`${z} = select(${z}, ${n}, ${n} != ${n});`);
    }
  }

  /** Joins the copies in the first one, by halves. */
  #joinCopies(r: number): void {
    const name = this.#name(r);
    for (let half = this.#step.copies >> 1; half > 0; half >>= 1) {
      for (let c = 0; c < half; c++) this.join(r, `${name}_${c + half}`, c);
    }
  }
}
