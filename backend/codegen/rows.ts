/** Rows that one item walks: the steps of a row program in loops, or written out. */
import { extent } from "../kernel/kernel.ts";
import { inItems } from "../kernel/row_mappings.ts";
import {
  type ReduceStep,
  rowProgram,
  type RowWriter,
  type StoreEachStep,
  writeRow,
} from "../kernel/row_program.ts";
import type { Emitter } from "./emit.ts";
import { walk } from "./loops.ts";
import { StageSums } from "./stage_sums.ts";

/** The statements of one row, its elements in loops. */
export function emitRow(emitter: Emitter): void {
  const { kernel } = emitter;
  const program = inItems(kernel, rowProgram(kernel), (dtype) => emitter.dialect.sumsWide(dtype));
  const each: Walk = (sums, body) => walk(emitter, kernel.inner, sums, body);
  writeRow(program, new ScalarRow(emitter, each));
}

/** The statements of one short row, its elements written out one after the other. */
export function emitUnrolledRow(emitter: Emitter): void {
  const each: Walk = (_, body) => eachIteration(emitter, body);
  writeRow(rowProgram(emitter.kernel), new ScalarRow(emitter, each));
}

/** Writes a body for each element of the row, and what blocks of sums need around it. */
type Walk = (sums: StageSums | null, body: () => void) => void;

/** The steps of a row, an element at a time. */
class ScalarRow implements RowWriter {
  readonly #emitter: Emitter;
  readonly #walk: Walk;

  constructor(emitter: Emitter, walk: Walk) {
    this.#emitter = emitter;
    this.#walk = walk;
  }

  compute(exprs: readonly number[]): void {
    this.#emitter.declare(exprs);
  }

  reduce(step: ReduceStep): void {
    const sums = new StageSums(this.#emitter, step);
    sums.declare();
    this.#walk(sums, () => {
      this.#emitter.declare(step.exprs);
      sums.accumulate();
      this.store(step.outputs);
    });
    sums.finish();
  }

  store(outputs: readonly number[]): void {
    for (const o of outputs) this.#emitter.store(o);
  }

  storeEach({ exprs, outputs }: StoreEachStep): void {
    this.#walk(null, () => {
      this.#emitter.declare(exprs);
      this.store(outputs);
    });
  }
}

/** Writes a body once for each iteration of the inner loops. */
function eachIteration(emitter: Emitter, body: () => void): void {
  const { inner, sizes } = emitter.kernel;
  const count = extent(emitter.kernel, inner);
  for (let at = 0; at < count; at++) {
    emitter.open("{");
    let rest = at;
    for (const s of inner.toReversed()) {
      emitter.line(emitter.dialect.declareIndex(`i${s}`, `${rest % sizes[s]!}`));
      rest = Math.floor(rest / sizes[s]!);
    }
    body();
    emitter.close();
  }
}
