/** Text that the kernels of contractions share: indices, tiles' beginnings, epilogues. */
import { type AffineExpr, coefficient, withoutPart } from "../../../kernel/affine.ts";
import { neededBy } from "../../../kernel/analysis.ts";
import type { Emitter } from "../../../codegen/emit.ts";
import type { Load } from "../../../kernel/kernel.ts";

/** An index with some symbols left out, as text. */
export function without(emitter: Emitter, index: AffineExpr, symbols: readonly number[]): string {
  return emitter.affine(withoutPart(index, symbols));
}

/** Step of an index with a symbol, as text. */
export function step(emitter: Emitter, index: AffineExpr, symbol: number): string {
  const c = coefficient(index, symbol);
  return c === 1 || c === 0 ? `${c}` : emitter.index(c);
}

/** An element of an operand in the type that products are computed in; 0 where it is padding. */
export function operandText(emitter: Emitter, load: Load, type: string): string {
  const { index, bounds } = load;
  const text = `(${type})${emitter.load(load, emitter.affine(index))}`;
  return bounds.length === 0 ? text : `(${emitter.maskText(bounds)} ? ${text} : (${type})0)`;
}

/** Computes what follows the sum, which is `acc`, and stores the results. */
export function emitEpilogue(emitter: Emitter): void {
  const { outputs } = emitter.kernel;
  emitter.declare(neededBy(emitter.kernel, outputs.map((o) => o.expr)));
  outputs.forEach((_, o) => emitter.store(o));
}

/**
 * Declares the indices of several loops from one number; `prefix` tells copies apart. Sizes of a
 * convolution are numbers: dividing by one that is known costs a multiplication.
 */
export function decomposeInto(
  emitter: Emitter,
  symbols: readonly number[],
  text: string,
  prefix: string,
): void {
  const isConvolution = (emitter.kernel.contraction?.k.length ?? 0) > 1;
  let rest = text;
  for (let at = symbols.length - 1; at > 0; at--) {
    const s = symbols[at]!;
    const size = isConvolution ? emitter.kernel.sizes[s]! : emitter.size(s);
    emitter.line(`const Index ${prefix}${s} = (${rest}) % ${size};`);
    emitter.line(`const Index ${prefix}q${s} = (${rest}) / ${size};`);
    rest = `${prefix}q${s}`;
  }
  if (symbols.length > 0) emitter.line(`const Index ${prefix}${symbols[0]} = ${rest};`);
}
