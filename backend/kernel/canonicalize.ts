/** Puts the pieces of a loop kernel in order: operands before their users, nothing that is not used. */
import { operandsOf } from "./analysis.ts";
import type { Expr, Load, LoopKernel } from "./kernel.ts";

/** A kernel whose expressions stand in any order. */
export type Pieces = Omit<LoopKernel, "kind">;

/** A kernel, and which of the inputs it was given it reads. */
export interface Canonical {
  readonly kernel: LoopKernel;
  readonly inputs: readonly number[];
}

/** Makes a kernel of its pieces. */
export function canonicalize(pieces: Pieces): Canonical {
  const { order, place } = inDependencyOrder(pieces);
  const at = (slot: number): number => place[slot]!;
  return inOrderOfUse({
    ...pieces,
    kind: "loop",
    indirect: pieces.indirect.filter((d) => at(d.expr) !== -1)
      .map((d) => ({ ...d, expr: at(d.expr) })),
    exprs: order.map((slot) => {
      const e = pieces.exprs[slot]!;
      return e.op === "primitive" || e.op === "cast" ? { ...e, args: e.args.map(at) } : e;
    }),
    reductions: pieces.reductions.map((r) => ({ ...r, expr: at(r.expr) })),
    outputs: pieces.outputs.map((output) => ({ ...output, expr: at(output.expr) })),
  });
}

/** The slots of the expressions that are used, operands first, and the place of each slot there. */
function inDependencyOrder(
  pieces: Pieces,
): { order: readonly number[]; place: readonly number[] } {
  const { exprs, reductions, outputs } = pieces;
  const order: number[] = [];
  const place = new Array<number>(exprs.length).fill(-1);
  const visit = (slot: number): void => {
    if (place[slot] !== -1) return;
    const expr = exprs[slot]!;
    for (const operand of operandsOf(pieces, expr)) visit(operand);
    if (expr.op === "cast" && exprs[expr.args[0]!]!.dtype === expr.dtype) {
      place[slot] = place[expr.args[0]!]!;
      return;
    }
    place[slot] = order.push(slot) - 1;
  };
  // Reductions come in the order of discovery, outermost first: inputs before their users.
  for (const r of reductions.toReversed()) visit(r.expr);
  for (const output of outputs) visit(output.expr);
  return { order, place };
}

/**
 * Numbers loads and inputs as the expressions use them, so that graphs which were put together in
 * another order have the same kernel.
 */
function inOrderOfUse(kernel: LoopKernel): Canonical {
  const { contraction } = kernel;
  const inputs = new Ranks(), loads = new Ranks();
  const renumbered = (load: Load): Load => ({ ...load, input: inputs.of(load.input) });
  const a = contraction && renumbered(contraction.a), b = contraction && renumbered(contraction.b);
  const exprs = kernel.exprs.map((e): Expr =>
    e.op === "load" ? { ...e, load: loads.of(e.load) } : e
  );
  return {
    kernel: {
      ...kernel,
      exprs,
      loads: loads.all.map((k) => renumbered(kernel.loads[k]!)),
      inputs: inputs.all.map((k) => kernel.inputs[k]!),
      contraction: contraction && { ...contraction, a: a!, b: b! },
    },
    inputs: inputs.all,
  };
}

/** Numbers by when they were asked for first. */
class Ranks {
  readonly all: number[] = [];
  readonly #ranks = new Map<number, number>();

  of(id: number): number {
    let rank = this.#ranks.get(id);
    if (rank === undefined) this.#ranks.set(id, rank = this.all.push(id) - 1);
    return rank;
  }
}
