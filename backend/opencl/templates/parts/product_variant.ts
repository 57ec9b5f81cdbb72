/** Facts that tell the texts of products apart whose structure is equal, so that others share a launch. */
import type { LoopKernel } from "../../../kernel/kernel.ts";
import type { LaunchVariant } from "../../../kernel/template.ts";

/** Sizes and steps of a product among the arguments of its kernel, beside those of its structure. */
const MAX_NUMBERS = 32;
/** Elements of the widest vector that is read. */
const VECTOR = 16;

/**
 * The variant of a product.
 *
 * @param tile How it is computed, beside sizes.
 * @param side The longer side of a tile.
 */
export function productVariant(kernel: LoopKernel, tile: unknown, side: number): LaunchVariant {
  const key = `${JSON.stringify(tile)} ${factsOfNumbers(kernel, side)}`;
  return { key, numbers: MAX_NUMBERS, copies: 1 };
}

/**
 * Facts of sizes and steps on which a product's text depends: those below a tile's, powers of two that others are
 * multiples of, and which are equal, since those are one argument.
 */
function factsOfNumbers(
  { sizes, outer, inner, contraction, loads, outputs }: LoopKernel,
  side: number,
): string {
  const { a, b } = contraction!;
  const aligned = (n: number, most: number): number => n === 0 ? most : Math.min(n & -n, most);
  const lengths = [...outer, ...inner].map((s) => sizes[s]!);
  const steps = [a, b, ...loads, ...outputs].flatMap(({ index: { offset, terms } }) => [
    offset,
    ...terms.map(([, step]) => step),
  ]);
  const all = [...lengths, ...steps];
  return [
    ...lengths.map((n) => n < side ? n : `whole ${aligned(n, side)}`),
    ...steps.map((n) => aligned(n, VECTOR)),
    ...all.map((n) => all.indexOf(n)),
  ].join();
}
