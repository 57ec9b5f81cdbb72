/** Text that the kernels of tile programs and contractions share: indices, tiles' beginnings, epilogues. */
import { type AffineExpr, withoutPart } from "../../../kernel/affine.ts";
import { neededBy } from "../../../kernel/analysis.ts";
import { type Emitter, Lines } from "../../../codegen/emit.ts";
import type { TileKernel } from "../../../tile/language/statements.ts";
import type { NameOf } from "../../../tile/programs/kernel_values.ts";
import { type Generated, generated, type KernelParts } from "../../codegen/generated.ts";
import { emitTile } from "../../codegen/tile_text.ts";

/** The kernel of a program that stores its results itself. */
export function generatedTile(
  parts: Pick<KernelParts, "inputs" | "outputs" | "isWide">,
  programOf: (nameOf: NameOf) => TileKernel,
): Generated {
  const lines = new Lines(), program = programOf((parameter) => lines.parameter(parameter));
  const size = emitTile(lines, program);
  const { parameters } = lines, body = lines.lines.join("\n");
  return generated({ ...parts, ...size, parameters, checksIndices: false, body });
}

/** An index with some symbols left out, as text. */
export function without(emitter: Emitter, index: AffineExpr, symbols: readonly number[]): string {
  return emitter.affine(withoutPart(index, symbols));
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
