/** Rows side by side: each lane of some vectors has one by itself. */
import type { Emitter } from "../../../codegen/emit.ts";
import type { ReduceStep, RowWriter, StoreEachStep } from "../../../kernel/row_program.ts";
import { LaneSums } from "./lane_sums.ts";
import type { Lanes, VectorBody } from "./vector_body.ts";

/** Writes the steps of such rows. */
export abstract class RowsInLanes implements RowWriter {
  protected readonly emitter: Emitter;
  protected readonly body: VectorBody;
  readonly #lanes: readonly Lanes[];

  /** @param lanes The vectors. */
  constructor(emitter: Emitter, body: VectorBody, lanes: readonly Lanes[]) {
    this.emitter = emitter;
    this.body = body;
    this.#lanes = lanes;
  }

  /** Writes a body for each element of the rows, and stores those outputs of it. */
  protected abstract each(
    outputs: readonly number[],
    sums: LaneSums | null,
    element: () => void,
  ): void;

  compute(exprs: readonly number[]): void {
    this.body.declareScalars(exprs);
    for (const lanes of this.#lanes) this.body.declareVectors(exprs, lanes);
  }

  reduce(step: ReduceStep): void {
    const sums = new LaneSums(this.emitter, step, false);
    sums.declare();
    this.each(step.outputs, sums, () => {
      this.compute(step.exprs);
      for (const lanes of this.#lanes) sums.accumulate(this.body, lanes);
    });
    sums.finish();
  }

  store(outputs: readonly number[]): void {
    for (const lanes of this.#lanes) {
      for (const o of outputs) this.body.store(o, lanes);
    }
  }

  storeEach({ exprs, outputs }: StoreEachStep): void {
    this.each(outputs, null, () => this.compute(exprs));
  }
}
