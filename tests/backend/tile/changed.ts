/** Tile kernels with faults put in. */
import {
  mapStatement,
  type Statement,
  type TileKernel,
} from "../../../backend/tile/language/statements.ts";

/** A kernel whose statements, inner ones first, are changed; null takes one out. */
export function changed(
  kernel: TileKernel,
  change: (s: Statement) => Statement | readonly Statement[] | null,
): TileKernel {
  const walk = (body: readonly Statement[]): Statement[] =>
    body.flatMap((s) => change(mapStatement(s, (e) => e, walk)) ?? []);
  return { ...kernel, body: walk(kernel.body) };
}

/** A kernel without its `n`-th statement of a kind. */
export function without(kernel: TileKernel, kind: Statement["s"], n: number): TileKernel {
  let at = 0;
  return changed(kernel, (s) => s.s === kind && at++ === n ? null : s);
}

/** Number of statements of a kind, those inside of others included. */
export function countOf(kernel: TileKernel, kind: Statement["s"]): number {
  let count = 0;
  changed(kernel, (s) => {
    if (s.s === kind) count++;
    return s;
  });
  return count;
}
