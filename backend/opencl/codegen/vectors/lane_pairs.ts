/**
 * Results of two elements a lane, which lie one beside the other: both are computed, then stored in
 * turn.
 */
import type { Emitter } from "../../../codegen/emit.ts";
import type { Lanes, VectorBody } from "./vector_body.ts";
import { LANES, lanesOf, storePairs } from "./vector_types.ts";

/**
 * Writes a body for each element of the lanes' pairs, and stores outputs that lie between those of
 * two lanes.
 *
 * @param pair The loop over a pair; null where there is one element a lane.
 * @param element Computes an element: what is stored of it has a name in `body`.
 */
export function emitElements(
  emitter: Emitter,
  body: VectorBody,
  pair: number | null,
  outputs: readonly number[],
  lanes: Lanes,
  element: () => void,
): void {
  if (pair === null) {
    element();
    for (const o of outputs) body.store(o, lanes);
    return;
  }
  const { kernel } = emitter, { tag = "", shift = 0, left = "" } = lanes;
  emitter.open("{");
  for (const o of outputs) {
    emitter.line(`${lanesOf(kernel.outputs[o]!.dtype).type} even${o}, odd${o};`);
  }
  ["even", "odd"].forEach((name, k) => {
    emitter.open("{");
    emitter.line(emitter.dialect.declareMutableIndex(`i${pair}`, String(k)));
    element();
    for (const o of outputs) {
      emitter.line(`${name}${o} = ${body.name(kernel.outputs[o]!.expr, tag)};`);
    }
    emitter.close();
  });
  emitter.line(emitter.dialect.declareMutableIndex(`i${pair}`, "0"));
  for (const o of outputs) {
    const { dtype, index } = kernel.outputs[o]!;
    const pointer = `o${o} + ${emitter.affine(index)}${shift === 0 ? "" : ` + ${2 * shift}`}`;
    emitter.line(storePairs(dtype, pointer, `even${o}`, `odd${o}`, left || String(LANES)));
  }
  emitter.close();
}
