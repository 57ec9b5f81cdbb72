/** From the number of a work-item to the indices of a kernel's loops. */
import type { Emitter } from "../../codegen/emit.ts";
import { extent } from "../../kernel/kernel.ts";

/** Declares the index of each symbol from one number that counts them all. */
export function decompose(emitter: Emitter, symbols: readonly number[], text: string): void {
  if (symbols.length === 1) {
    emitter.line(`const Index i${symbols[0]} = ${text};`);
    return;
  }
  emitter.line(`const Index row = ${text};`);
  let rest = "row";
  for (let k = symbols.length - 1; k > 0; k--) {
    const s = symbols[k]!;
    emitter.line(`const Index i${s} = ${rest} % ${emitter.size(s)};`);
    emitter.line(`const Index q${s} = ${rest} / ${emitter.size(s)};`);
    rest = `q${s}`;
  }
  emitter.line(`const Index i${symbols[0]} = ${rest};`);
}

/**
 * Opens the loop over the rows of one work-item, `share` of them, and declares their indices; gives
 * back how many items there are. A driver's work for a group is that for some hundred elements.
 */
export function openRows(emitter: Emitter, symbols: readonly number[], share: number): number {
  const rows = extent(emitter.kernel, symbols);
  const each = emitter.index(share);
  emitter.line(`const Index from = get_global_id(0) * ${each};`);
  emitter.line(`const Index behind = min(from + ${each}, ${emitter.index(rows)});`);
  emitter.open("for (Index at = from; at < behind; ++at) {");
  if (symbols.length > 0) decompose(emitter, symbols, "at");
  return Math.ceil(rows / share);
}
