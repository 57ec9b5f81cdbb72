/** Neighbouring rows that read neighbouring elements: each lane reduces one. */
import type { Emitter } from "../../../codegen/emit.ts";
import { walk } from "../../../codegen/loops.ts";
import { writeRow } from "../../../kernel/row_program.ts";
import type { WorkSize } from "../generated.ts";
import type { LaneSums } from "./lane_sums.ts";
import { RowsInLanes } from "./rows_in_lanes.ts";
import { type Lanes, VectorBody } from "./vector_body.ts";
import { columnCopies, vectorColumnProgram } from "./vector_plan.ts";
import { LANES } from "./vector_types.ts";
import { openGrid } from "../indices.ts";

/** Writes the columns of a kernel: several vectors of them a work-item. */
export function emitVectorColumns(emitter: Emitter, symbol: number): WorkSize {
  const { kernel } = emitter;
  const length = kernel.sizes[symbol]!, size = emitter.size(symbol);
  const copies = columnCopies(kernel, symbol);
  const width = copies * LANES;
  const i = `i${symbol}`;
  const block = (copies: number, left: string): void => {
    const columns = new VectorColumns(emitter, symbol, copies, left);
    writeRow(vectorColumnProgram(kernel, copies), columns);
  };
  const grid = openGrid(emitter, Math.ceil(length / width));
  emitter.line(`const Index first = get_global_id(0) * ${width};`);
  emitter.open(`if (first + ${width} <= ${size}) {`);
  emitter.line(`const Index ${i} = first;`);
  block(copies, "");
  emitter.line("return;");
  emitter.close();
  emitter.open(
    `for (Index ${i} = first; ${i} < min(first + ${width}, ${size}); ${i} += ${LANES}) {`,
  );
  emitter.line(`const int left = (int)min(${size} - ${i}, (Index)${LANES});`);
  block(1, "left");
  emitter.close();
  return grid;
}

/** The steps of the rows in a few vectors, or in one of which `left` lanes count. */
class VectorColumns extends RowsInLanes {
  constructor(emitter: Emitter, symbol: number, copies: number, left: string) {
    const lanes = (c: number): Lanes => ({ tag: `_${c}`, shift: c * LANES, left });
    const all = Array.from({ length: copies }, (_, c) => lanes(c));
    super(emitter, new VectorBody(emitter, symbol), all);
  }

  protected override each(
    outputs: readonly number[],
    sums: LaneSums | null,
    element: () => void,
  ): void {
    walk(this.emitter, this.emitter.kernel.inner, sums, () => {
      element();
      this.store(outputs);
    });
  }
}
