/** Accumulators of reductions, one of each a work-item. */
import { identityOf, isArgReduction } from "../graph/reductions.ts";
import type { Blocks } from "../kernel/accumulation.ts";
import { accumulatorType } from "../kernel/kernel.ts";
import type { ReduceStep } from "../kernel/row_program.ts";
import type { Emitter } from "./emit.ts";
import { scalarTotal, Total } from "./total.ts";

/**
 * The accumulators of a step. `r0` is the value, `r0i` the position of an arg-reduction; where a sum is
 * added up in blocks `r0` is the total and `q0` the sum of a block.
 */
export class StageSums {
  /** Null where no sum of the stage needs them. */
  readonly blocks: Blocks | null;
  readonly #emitter: Emitter;
  readonly #step: ReduceStep;
  readonly #totals: ReadonlyMap<number, Total>;

  constructor(
    emitter: Emitter,
    step: ReduceStep,
  ) {
    this.#emitter = emitter;
    this.#step = step;
    const { reductions } = emitter.kernel, { blocked } = step;
    this.blocks = blocked?.blocks ?? null;
    this.#totals = new Map(
      blocked?.sums.map((r) => [
        r,
        new Total(emitter, scalarTotal(emitter.dialect, reductions[r]!.dtype), `r${r}`),
      ]),
    );
  }

  declare(): void {
    for (const r of this.#step.reductions) {
      const total = this.#totals.get(r);
      if (total) total.declare();
      else this.#declare(r, `r${r}`);
    }
  }

  #declare(r: number, name: string): void {
    const dialect = this.#emitter.dialect, reduction = this.#emitter.kernel.reductions[r]!;
    const dtype = accumulatorType(this.#emitter.kernel, reduction);
    const isArg = isArgReduction(reduction.fn);
    const text = dialect.constant(identityOf(reduction.fn, dtype), dtype);
    this.#emitter.line(dialect.declareMutable(dtype, isArg ? `${name}v` : name, text));
    if (isArg) this.#emitter.line(dialect.declareMutableIndex(`${name}i`, "-1"));
  }

  /** Before the iterations of a block. */
  begin(): void {
    for (const r of this.#totals.keys()) this.#declare(r, `q${r}`);
  }

  /** Joins the present element into the accumulators. */
  accumulate(): void {
    const emitter = this.#emitter;
    for (const r of this.#step.reductions) {
      const reduction = emitter.kernel.reductions[r]!;
      const value = emitter.name(reduction.expr);
      const index = isArgReduction(reduction.fn) ? emitter.affine(reduction.index) : "";
      const acc = this.#totals.has(r) ? `q${r}` : `r${r}`;
      const dtype = accumulatorType(emitter.kernel, reduction);
      const lines = this.#emitter.dialect.accumulate(reduction.fn, dtype, acc, value, index);
      for (const text of lines) emitter.line(text);
    }
  }

  /** After the iterations of a block. */
  end(): void {
    for (const [r, total] of this.#totals) total.add(`q${r}`);
  }

  /** After the last block. */
  finish(): void {
    for (const total of this.#totals.values()) total.finish();
    finishArgs(this.#emitter, this.#step.reductions);
  }
}

/** Declares the results of arg-reductions, once their loops are done. */
function finishArgs(emitter: Emitter, stage: readonly number[]): void {
  for (const r of stage) {
    const reduction = emitter.kernel.reductions[r]!;
    if (!isArgReduction(reduction.fn)) continue;
    const text = emitter.dialect.argResult(`r${r}`, reduction.dtype);
    emitter.line(emitter.dialect.declare(reduction.dtype, `r${r}`, text));
  }
}
