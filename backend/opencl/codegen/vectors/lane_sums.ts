/** Accumulators of reductions in vectors of 16 lanes. */
import { identityOf, isArgReduction } from "../../../graph/reductions.ts";
import type { Blocks } from "../../../kernel/accumulation.ts";
import type { Reduction } from "../../../kernel/kernel.ts";
import type { ReduceStep } from "../../../kernel/row_program.ts";
import type { Emitter } from "../../../codegen/emit.ts";
import { Total, type TotalText } from "../../../codegen/total.ts";
import { computeType } from "../types.ts";
import { ArgLanes } from "./arg_lanes.ts";
import type { Lanes, VectorBody } from "./vector_body.ts";
import { joinLanes, lanesOf, laneType, spreadLanes } from "./vector_types.ts";

const floatLanes: TotalText = {
  constant: (name, text) => `const float16 ${name} = ${text};`,
  variable: (name, text) => `float16 ${name} = ${text};`,
  zero: "0",
  numberOrZero: (name) => `select(${name}, (float16)(0), ${name} != ${name})`,
};

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
  readonly #step: ReduceStep;
  readonly #areRows: boolean;
  readonly #totals: ReadonlyMap<number, readonly Total[]>;
  readonly #args: ReadonlyMap<number, ArgLanes>;

  /** @param areRows Whether vectors walk a loop of the row. */
  constructor(emitter: Emitter, step: ReduceStep, areRows: boolean) {
    this.#emitter = emitter;
    this.#step = step;
    this.#areRows = areRows;
    this.blocks = step.blocked?.blocks ?? null;
    this.#args = new Map(step.reductions.flatMap((r) => {
      const { fn } = emitter.kernel.reductions[r]!;
      return isArgReduction(fn) ? [[r, new ArgLanes(emitter, r, fn)]] : [];
    }));
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
      else if (this.#args.has(r)) {
        for (let c = 0; c < this.#step.copies; c++) this.#args.get(r)!.declare(`_${c}`);
      } else this.#declare(r);
    }
  }

  #declare(r: number): void {
    const reduction = this.#emitter.kernel.reductions[r]!;
    const type = laneType(reduction);
    const identity = spreadLanes(identityOf(reduction.fn, reduction.dtype), reduction.dtype);
    for (let c = 0; c < this.#step.copies; c++) {
      this.#emitter.line(`${type} ${this.#name(r)}_${c} = ${identity};`);
      if (picks(reduction)) this.#emitter.line(`${type} n${r}_${c} = 0.0f;`);
    }
  }

  /** Before the iterations of a block. */
  begin(): void {
    for (const r of this.#totals.keys()) this.#declare(r);
  }

  /** Joins a vector of values into the accumulators of the copy that has its tag. */
  accumulate(body: VectorBody, lanes: Lanes): void {
    const emitter = this.#emitter, { tag = "" } = lanes;
    for (const r of this.#step.reductions) {
      const reduction = emitter.kernel.reductions[r]!, arg = this.#args.get(r);
      const value = body.name(reduction.expr, tag), z = `${this.#name(r)}${tag}`;
      if (arg) arg.accumulate(body, lanes);
      else if (picks(reduction)) {
        // A bare comparison is one instruction but loses NaN, which is collected in a vector of its own.
        const n = `n${r}${tag}`, operator = reduction.fn === "max" ? ">" : "<";
        emitter.line(`${z} = select(${value}, ${z}, ${z} ${operator} ${value});`);
        emitter.line(`${n} = select(${n}, ${value}, ${value} != ${value});`);
      } else this.#join(r, value, tag);
    }
  }

  /** The same for the last vector of a row, of which `left` lanes count. */
  accumulateRest(body: VectorBody, lanes: Lanes & { readonly left: string }): void {
    const { tag = "", left } = lanes;
    for (const r of this.#step.reductions) {
      const { fn, dtype, expr } = this.#emitter.kernel.reductions[r]!, arg = this.#args.get(r);
      if (arg) {
        arg.accumulate(body, lanes, left);
        continue;
      }
      const { type } = lanesOf(dtype), none = spreadLanes(identityOf(fn, dtype), dtype);
      const value = `select(${none}, ${body.name(expr, tag)}, lanes16() < ${left})`;
      this.#emitter.line(`const ${type} x${r} = ${value};`);
      this.#join(r, `x${r}`, tag);
    }
  }

  /** Joins a vector of values by one expression, which keeps NaN. */
  #join(r: number, value: string, tag: string): void {
    const z = `${this.#name(r)}${tag}`;
    this.#emitter.line(`${z} = ${joinLanes(this.#emitter.kernel.reductions[r]!, z, value)};`);
  }

  /** Declares the results of rows: the lanes of each joined. */
  fold(): void {
    const { kernel } = this.#emitter;
    for (const r of this.#step.reductions) {
      const { fn, dtype } = kernel.reductions[r]!;
      const text = this.#args.get(r)?.fold("_0") ?? `fold_${fn}_${computeType(dtype)}(z${r}_0)`;
      this.#emitter.line(this.#emitter.dialect.declare(dtype, `r${r}`, text));
    }
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
      for (let c = 0; c < half; c++) {
        const [tag, other] = [`_${c}`, `_${c + half}`], arg = this.#args.get(r);
        if (arg) arg.join(tag, other);
        else this.#join(r, `${name}${other}`, tag);
      }
    }
  }
}
