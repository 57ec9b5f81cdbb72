/** A work-item's part of a reduction: a number in a register, and of an arg-reduction its place. */
import type { DType } from "../../graph/dtype.ts";
import { combinerOf, identityOf, isArgReduction } from "../../graph/reductions.ts";
import { accumulatorType, type LoopKernel, type Reduction } from "../../kernel/kernel.ts";
import { indexValue, prefers, primitive, ties, value } from "../language/elements.ts";
import { type E, int } from "../language/expression.ts";
import { all, lt, or, select } from "../language/values.ts";
import type { Program } from "../program.ts";
import type { Scope } from "./kernel_values.ts";

/** The sums of blocks: what each addition to a total rounds off is added up beside. */
interface Totals {
  readonly total: E;
  readonly lost: E;
}

/** The accumulator of one reduction. */
export class Accumulator {
  readonly #p: Program;
  readonly #reduction: Reduction;
  readonly #dtype: DType;
  /** The number, and of an arg-reduction the place: negative before the first element. */
  readonly #parts: readonly E[];
  readonly #totals: Totals | null;

  /** @param isCut Its sum is added up in blocks. */
  constructor(p: Program, kernel: LoopKernel, r: number, isCut: boolean) {
    this.#p = p;
    this.#reduction = kernel.reductions[r]!;
    this.#dtype = accumulatorType(kernel, this.#reduction);
    const start = p.register(this.#identity);
    this.#parts = isArgReduction(this.#reduction.fn) ? [start, p.register(int(-1))] : [start];
    const zero = value(0, this.#dtype);
    this.#totals = isCut ? { total: p.register(zero), lost: p.register(zero) } : null;
  }

  get #identity(): E {
    return value(identityOf(this.#reduction.fn, this.#dtype), this.#dtype);
  }

  /** Joins the value of an element, which comes behind those before. */
  add(element: Scope): void {
    const { expr, index, fn } = this.#reduction;
    const other = [element.value(expr), ...isArgReduction(fn) ? [element.affine(index)] : []];
    this.#set(this.#combined(this.#parts, other, true));
  }

  #set(values: readonly E[]): void {
    this.#parts.forEach((part, k) => this.#p.set(part, values[k]!));
  }

  #combined(a: readonly E[], b: readonly E[], isBehind: boolean): readonly E[] {
    const { fn } = this.#reduction, dtype = this.#dtype;
    if (!isArgReduction(fn)) return [primitive(combinerOf(fn), [a[0]!, b[0]!], dtype)];
    const [best, place] = a as [E, E], [other, at] = b.map((x) => this.#p.let(x)) as [E, E];
    const isBetter = or(lt(place, 0), prefers(fn, dtype, best, other));
    // Among equals the one that comes first in the row.
    const isEarlier = all([ties(best, other), lt(at, place)]);
    const takes = isBehind ? isBetter : all([lt(-1, at), or(isBetter, isEarlier)]);
    const better = this.#p.let(takes);
    return [select(better, other, best), select(better, at, place)];
  }

  /** Before the elements of a block. */
  begin(): void {
    if (this.#totals) this.#p.set(this.#parts[0]!, this.#identity);
  }

  /** After the elements of a block. */
  end(): void {
    if (this.#totals === null) return;
    const { total, lost } = this.#totals, p = this.#p, block = this.#parts[0]!;
    const add = (a: E, b: E): E => primitive("add", [a, b], this.#dtype);
    const sub = (a: E, b: E): E => primitive("sub", [a, b], this.#dtype);
    const next = p.let(add(total, block)), added = p.let(sub(next, total));
    const rounded = add(sub(total, sub(next, added)), sub(block, added));
    p.set(lost, add(lost, rounded));
    p.set(total, next);
  }

  /** After the last element: every work-item of the row then has the result. */
  finish(): void {
    if (this.#totals) {
      const { total, lost } = this.#totals, dtype = this.#dtype;
      // What is lost of a total that is infinite or NaN is NaN.
      const isNumber = primitive("eq", [lost, lost], dtype, "bool");
      const rest = primitive("where", [isNumber, lost, value(0, dtype)], dtype);
      this.#p.set(this.#parts[0]!, primitive("add", [total, rest], dtype));
    }
    this.#p.join(this.#parts, (a, b) => this.#combined(a, b, false));
  }

  result(): E {
    const { fn, dtype } = this.#reduction;
    return isArgReduction(fn) ? indexValue(this.#parts[1]!, dtype) : this.#parts[0]!;
  }
}
