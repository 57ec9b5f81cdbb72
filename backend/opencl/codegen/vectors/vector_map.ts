/** Maps in vectors along their last loop. */
import type { Emitter } from "../../../codegen/emit.ts";
import { neededBy } from "../../../kernel/analysis.ts";
import type { WorkSize } from "../generated.ts";
import { openGrid, openRows } from "../indices.ts";
import { VectorBody } from "./vector_body.ts";
import { isStreamed, itemElements } from "./vector_plan.ts";
import { LANES } from "./vector_types.ts";

/** A map along its last loop: long loops are cut in pieces, short ones are taken together. */
export function emitMap(emitter: Emitter, symbol: number): WorkSize {
  const { kernel } = emitter;
  const lead = kernel.outer.slice(0, -1);
  const length = kernel.sizes[symbol]!, chunk = itemElements(kernel);
  const size = emitter.size(symbol);
  if (lead.length > 0 && length < chunk) {
    const items = openRows(emitter, lead, Math.max(1, Math.floor(chunk / length)));
    emitMapLoop(emitter, symbol, "0", size);
    emitter.close();
    return { global: [items], local: [1] };
  }
  emitter.line(`const Index first = get_global_id(0) * ${chunk};`);
  emitter.line(`const Index end = min(first + ${chunk}, ${size});`);
  const grid = openGrid(emitter, Math.ceil(length / chunk));
  emitMapLoop(emitter, symbol, "first", "end");
  return grid;
}

function emitMapLoop(emitter: Emitter, symbol: number, start: string, end: string): void {
  const { kernel } = emitter;
  const body = new VectorBody(emitter, symbol);
  const outputs = kernel.outputs.map((_, o) => o);
  const exprs = neededBy(kernel, kernel.outputs.map((o) => o.expr));
  const streamed = isStreamed(kernel);
  body.declareScalars(exprs);
  const i = `i${symbol}`;
  emitter.line(`Index ${i} = ${start};`);
  emitter.open(`for (; ${i} + ${LANES} <= ${end}; ${i} += ${LANES}) {`);
  body.declareVectors(exprs);
  for (const o of outputs) streamed ? body.stream(o) : body.store(o);
  emitter.close();
  emitRest(emitter, i, end, (left) => {
    body.declareVectors(exprs, { left });
    for (const o of outputs) body.store(o, { left });
  });
  if (streamed) emitter.line("mem_fence(CLK_GLOBAL_MEM_FENCE);");
}

/** The vector that is not full, if there is one. */
export function emitRest(
  emitter: Emitter,
  i: string,
  end: string,
  body: (left: string) => void,
): void {
  emitter.open(`if (${i} < ${end}) {`);
  emitter.line(`const int left = (int)(${end} - ${i});`);
  body("left");
  emitter.close();
}
