/**
 * Addresses of an operand with several loops, such as a convolution's image. An index is the
 * sum of a part that follows from the row or column and one that follows from the term of the sum; so is
 * each condition of its bounds mask. Computed apart and kept, an element costs additions and comparisons
 * instead of divisions for every loop.
 */
import type { AffineExpr } from "../../../kernel/affine.ts";
import type { Emitter } from "../../../codegen/emit.ts";
import type { Load } from "../../../kernel/kernel.ts";
import { decomposeInto, only, without } from "./tile_text.ts";

/** An operand whose address is computed in two parts. */
export class OperandAddress {
  readonly #emitter: Emitter;
  readonly #load: Load;
  readonly #name: string;
  readonly #along: { readonly [P in "p" | "k"]: readonly number[] };

  /**
   * @param name Tells the variables of this operand apart.
   * @param p The loops of its rows or columns.
   * @param k The loops of the sum.
   */
  constructor(
    emitter: Emitter,
    load: Load,
    name: string,
    p: readonly number[],
    k: readonly number[],
  ) {
    this.#emitter = emitter;
    this.#load = load;
    this.#name = name;
    this.#along = { p, k };
  }

  /** The conditions of the mask that change with a part; those that do not are parts of rows or columns. */
  #boundsOf(part: "p" | "k"): boolean[] {
    return this.#load.bounds.map(({ index }) =>
      part === "p" || index.terms.some(([s]) => this.#along.k.includes(s))
    );
  }

  /** Declares arrays for `count` values of a part, in local or private memory. */
  declare(part: "p" | "k", count: number, space = ""): void {
    const names = this.#boundsOf(part).flatMap((isUsed, b) => isUsed ? [`${part}${b}`] : []);
    for (const name of [part, ...names]) {
      this.#emitter.line(`${space}Index ${name}_${this.#name}[${count}];`);
    }
  }

  /**
   * Computes a part for one position, into place `at` of its arrays.
   *
   * @param position The row, column or term, as text.
   * @param inside Where given, a condition under which there is such a row or column at all.
   */
  compute(part: "p" | "k", position: string, at: string, inside: string | null = null): void {
    const emitter = this.#emitter,
      { index, bounds } = this.#load,
      symbols = this.#along[part];
    emitter.open("{");
    decomposeInto(emitter, symbols, position, "i");
    const textOf = (e: AffineExpr): string =>
      part === "k" ? only(emitter, e, symbols) : without(emitter, e, this.#along.k);
    emitter.line(`${part}_${this.#name}[${at}] = ${textOf(index)};`);
    this.#boundsOf(part).forEach((isUsed, b) => {
      if (!isUsed) return;
      const text = textOf(bounds[b]!.index);
      // So far below 0 that no term of such a row is inside, whatever is added.
      const value = inside !== null && b === 0 ? `${inside} ? ${text} : INT_MIN / 2` : text;
      emitter.line(`${part}${b}_${this.#name}[${at}] = ${value};`);
    });
    emitter.close();
  }

  /** The index of an element whose parts lie at two places of the arrays. */
  index(p: string, k: string): string {
    return `p_${this.#name}[${p}] + k_${this.#name}[${k}]`;
  }

  /** The conditions of its mask, one by one: unsigned, so that one comparison finds negative numbers, too. */
  conditions(p: string, k: string): string[] {
    const moving = this.#boundsOf("k");
    return this.#load.bounds.flatMap(({ size }, b) => {
      const fixed = `p${b}_${this.#name}[${p}]`;
      const value = moving[b] ? `${fixed} + k${b}_${this.#name}[${k}]` : fixed;
      return [`(unsigned Index)(${value}) < (unsigned Index)${this.#emitter.index(size)}`];
    });
  }
}
