/** Accumulators of a reduction that gives a position, in vectors of 16 lanes. */
import type { Emitter } from "../../../codegen/emit.ts";
import { type ArgReduceFn, identityOf, prefersLarger } from "../../../graph/reductions.ts";
import { accumulatorType } from "../../../kernel/kernel.ts";
import type { Lanes, VectorBody } from "./vector_body.ts";
import { lanesOf } from "./vector_types.ts";

/**
 * The accumulators of an arg-reduction: of each copy `best0_0` is the value and `z0_0` its position, -1
 * before the first element.
 */
export class ArgLanes {
  readonly #emitter: Emitter;
  readonly #r: number;
  readonly #fn: ArgReduceFn;
  readonly #type: "float16" | "int16";
  readonly #identity: string;

  constructor(emitter: Emitter, r: number, fn: ArgReduceFn) {
    const { kernel } = emitter, dtype = accumulatorType(kernel, kernel.reductions[r]!);
    this.#emitter = emitter;
    this.#r = r;
    this.#fn = fn;
    this.#type = lanesOf(dtype).type;
    this.#identity = emitter.dialect.constant(identityOf(fn, dtype), dtype);
  }

  #names(copy: string): [best: string, place: string] {
    return [`best${this.#r}${copy}`, `z${this.#r}${copy}`];
  }

  declare(copy: string): void {
    const [best, place] = this.#names(copy), type = this.#type;
    this.#emitter.line(`${type} ${best} = (${type})(${this.#identity}); int16 ${place} = -1;`);
  }

  /**
   * Takes the first of the best elements; NaN is better than any.
   *
   * @param left How many lanes count, as text; empty where all do.
   */
  accumulate(body: VectorBody, lanes: Lanes, left = ""): void {
    const { tag = "" } = lanes, [best, place] = this.#names(tag);
    const emitter = this.#emitter, { expr, index } = emitter.kernel.reductions[this.#r]!;
    const name = body.name(expr, tag), better = `better${this.#r}${tag}`;
    // A mask is 0 or -1.
    const value = emitter.kernel.exprs[expr]!.dtype === "bool" ? `(-${name})` : name;
    const isNoBetter = `${value} ${prefersLarger(this.#fn) ? "<=" : ">="} ${best}`;
    const test = `(${place} < 0) | (~(${isNoBetter}) & (${best} == ${best}))`;
    const counts = left === "" ? test : `(${test}) & (lanes16() < ${left})`;
    emitter.line(`const int16 ${better} = ${counts};`);
    emitter.line(`${best} = select(${best}, ${value}, ${better});`);
    emitter.line(`${place} = select(${place}, ${body.position(index, lanes)}, ${better});`);
  }

  /** Joins a copy into another. */
  join(copy: string, other: string): void {
    const [best, place] = this.#names(copy), [value, at] = this.#names(other);
    this.#emitter.line(
      `join_${this.#fn}_${this.#type}(&${best}, &${place}, ${value}, ${at});`,
    );
  }

  /** The position among those of all lanes, as text. */
  fold(copy: string): string {
    return `fold_${this.#fn}_${this.#type}(${this.#names(copy).join(", ")})`;
  }
}
