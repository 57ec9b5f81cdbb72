/** From the number of a work-item to the indices of a kernel's loops. */
import type { Emitter } from "../../codegen/emit.ts";
import { extent } from "../../kernel/kernel.ts";
import type { WorkSize } from "./generated.ts";

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
    emitter.line(`const Index rest${s} = ${rest} / ${emitter.size(s)};`);
    rest = `rest${s}`;
  }
  emitter.line(`const Index i${symbols[0]} = ${rest};`);
}

/**
 * Opens the loop over the rows of one work-item, `share` of them, and declares their indices; gives
 * back how many items there are. To start a group takes a driver as long as some hundred elements.
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

/** Groups of one item, so many along the last outer loop; declares the indices of the others. */
export function openGrid(emitter: Emitter, pieces: number): WorkSize {
  const { kernel } = emitter, lead = kernel.outer.slice(0, -1);
  if (lead.length === 0) return { global: [pieces], local: [1] };
  decompose(emitter, lead, "get_global_id(1)");
  return { global: [pieces, extent(kernel, lead)], local: [1, 1] };
}

/** Maps the outer loops to work-items, the last one to neighbours. */
export function mapOuterLoops(
  emitter: Emitter,
  isGpu: boolean,
  local: readonly number[],
): WorkSize {
  const { outer, sizes } = emitter.kernel;
  if (outer.length === 0) return { global: [1], local: [1] };
  // A GPU's second and third dimensions are too short for any shape: everything goes on the first.
  const flat = outer.length === 1 || isGpu;
  const lead = flat ? outer : outer.slice(0, -1);
  if (!flat) {
    const last = outer[outer.length - 1]!;
    emitter.line(`const Index i${last} = get_global_id(0);`);
  }
  const total = extent(emitter.kernel, lead);
  decompose(emitter, lead, flat ? "get_global_id(0)" : "get_global_id(1)");
  const bounds = flat ? [] : [outer[outer.length - 1]!];
  const tests = bounds.map((s) => `i${s} >= ${emitter.size(s)}`);
  tests.push(
    lead.length === 1
      ? `i${lead[0]} >= ${emitter.size(lead[0]!)}`
      : `row >= ${emitter.index(total)}`,
  );
  emitter.line(`if (${tests.join(" || ")}) return;`);
  const counts = flat ? [total] : [sizes[outer[outer.length - 1]!]!, total];
  const groups = counts.map((_, k) => local[k] ?? 1);
  return { global: counts.map((n, k) => Math.ceil(n / groups[k]!) * groups[k]!), local: groups };
}
