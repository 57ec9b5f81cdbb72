/** Rows in vectors along their last loop: lanes are parts of one result. */
import type { Emitter } from "../../../codegen/emit.ts";
import { boundsOf, openBlocks, walk } from "../../../codegen/loops.ts";
import { extent } from "../../../kernel/kernel.ts";
import {
  type ReduceStep,
  type RowWriter,
  type StoreEachStep,
  writeRow,
} from "../../../kernel/row_program.ts";
import type { WorkSize } from "../generated.ts";
import { openRows } from "../indices.ts";
import { emitElements } from "./lane_pairs.ts";
import { LaneSums } from "./lane_sums.ts";
import { type Lanes, VectorBody } from "./vector_body.ts";
import { emitRest } from "./vector_map.ts";
import { rowsOfItem, type VectorForm, vectorRowProgram } from "./vector_plan.ts";
import { LANES } from "./vector_types.ts";
import { windowReader } from "./window_lanes.ts";

/** Elements that a sum asks for in advance, a bare load a vector being all that it does. */
const PREFETCH_DISTANCE = 512;

/** Writes the rows of a kernel; a work-item takes many. */
export function emitVectorRows(emitter: Emitter, form: VectorForm): WorkSize {
  const { kernel } = emitter;
  const length = kernel.chunk?.length ?? extent(kernel, kernel.inner);
  const items = openRows(emitter, kernel.outer, rowsOfItem(kernel, length));
  writeRow(vectorRowProgram(kernel, form), new VectorRows(emitter, form));
  emitter.close();
  return { global: [items], local: [1] };
}

class VectorRows implements RowWriter {
  readonly #emitter: Emitter;
  readonly #symbol: number;
  readonly #pair: number | null;
  readonly #body: VectorBody;

  constructor(emitter: Emitter, { symbol, apart = null }: VectorForm) {
    this.#emitter = emitter;
    this.#symbol = symbol;
    this.#pair = apart?.pair ?? null;
    this.#body = new VectorBody(emitter, symbol, apart ? windowReader(emitter, symbol) : undefined);
  }

  compute(exprs: readonly number[]): void {
    this.#emitter.declare(exprs);
  }

  store(outputs: readonly number[]): void {
    for (const o of outputs) this.#emitter.store(o);
  }

  /** The statements of the loops within a row; `line` is the vectorized one, from `i` to `end`. */
  #loops(exprs: readonly number[], sums: LaneSums | null, line: () => void): void {
    const emitter = this.#emitter, symbol = this.#symbol;
    const isCut = sums?.blocks?.symbol === symbol;
    emitter.open("{");
    const around = emitter.kernel.inner.filter((s) => s !== symbol && s !== this.#pair);
    walk(emitter, around, sums, () => {
      if (this.#pair === null) this.#body.declareScalars(exprs);
      const bounds = isCut ? openBlocks(emitter, sums.blocks!) : boundsOf(emitter, symbol);
      if (isCut) sums.begin();
      emitter.line(`Index i${symbol} = ${bounds[0]};`);
      emitter.line(`const Index end = ${bounds[1]};`);
      line();
      if (!isCut) return;
      sums.end();
      emitter.close();
    });
    emitter.close();
  }

  /** Computes the elements of one vector's lanes, of which `element` makes use, and stores outputs. */
  #elements(
    exprs: readonly number[],
    outputs: readonly number[],
    lanes: Lanes,
    element: () => void,
  ): void {
    emitElements(this.#emitter, this.#body, this.#pair, outputs, lanes, () => {
      if (this.#pair !== null) this.#body.declareScalars(exprs);
      this.#body.declareVectors(exprs, lanes);
      element();
    });
  }

  reduce(step: ReduceStep): void {
    const sums = new LaneSums(this.#emitter, step, true);
    sums.declare();
    this.#loops(step.exprs, sums, () => this.#accumulate(sums, step));
    sums.finish();
    sums.fold();
  }

  /** Adds the elements of a line to `copies` accumulators a reduction. */
  #accumulate(sums: LaneSums, step: ReduceStep): void {
    const { exprs, copies, keeps, outputs } = step;
    const emitter = this.#emitter, body = this.#body;
    const i = `i${this.#symbol}`;
    // The index within a pair is not there yet.
    const isBareLoad = exprs.length === 1 && this.#pair === null;
    const compute = (lanes: Lanes, join: () => void): void =>
      this.#elements(exprs, outputs, lanes, () => {
        if (keeps) body.keep(keeps.expr, keeps.output, lanes);
        join();
      });
    for (const count of copies > 1 ? [copies, 1] : [1]) {
      const width = LANES * count;
      emitter.open(`for (; ${i} + ${width} <= end; ${i} += ${width}) {`);
      for (let c = 0; c < count; c++) {
        if (count > 1 && isBareLoad) body.prefetch(exprs, c * LANES, PREFETCH_DISTANCE);
        const lanes = { tag: `_${c}`, shift: c * LANES };
        compute(lanes, () => sums.accumulate(body, lanes));
      }
      emitter.close();
    }
    emitRest(emitter, i, "end", (left) => {
      const lanes = { tag: "_0", left };
      compute(lanes, () => sums.accumulateRest(body, lanes));
    });
  }

  storeEach({ exprs, outputs, keeps }: StoreEachStep): void {
    const emitter = this.#emitter, body = this.#body;
    const i = `i${this.#symbol}`;
    const compute = (left: string): void => {
      if (keeps) body.reload(keeps.expr, keeps.output, left);
      this.#elements(exprs, outputs, { left }, () => {});
    };
    this.#loops(exprs, null, () => {
      emitter.open(`for (; ${i} + ${LANES} <= end; ${i} += ${LANES}) {`);
      compute("");
      emitter.close();
      emitRest(emitter, i, "end", compute);
    });
  }
}
