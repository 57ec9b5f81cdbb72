/**
 * Operations that follow a product, over lines of its results in memory: those of a block a work-item, as the product
 * has them. They have a program of their own, since that of products is long and the same whatever follows.
 */
import type { DType } from "../../../graph/dtype.ts";
import type { Expr } from "../../../kernel/kernel.ts";
import { cast, elementFrom, held, primitive } from "../../language/elements.ts";
import {
  add,
  div,
  divideBy,
  type E,
  lanes,
  min,
  mul,
  type Place,
  sub,
  withExpressions,
} from "../../language/expression.ts";
import type { TileKernel } from "../../language/statements.ts";
import { lane, load, loadFrom, splat } from "../../language/values.ts";
import { Numbered, VECTOR } from "./numbered.ts";

/** Operations on the elements of lines, whatever their places and constants. */
export interface LineForm {
  /** In order, the last one is stored; loads and constants are numbered, operands are places in the list. */
  readonly exprs: readonly Expr[];
  /** For each load: its elements lie side by side along a line; else a line has one. */
  readonly areAlong: readonly boolean[];
  /** Work-items are batches of blocks: the next one is the next block across lines, or along. */
  readonly acrossIsInner: boolean;
}

/** An axis of lines: from `first` on `count` of them. */
interface Part {
  readonly first: E;
  readonly count: E;
}

/** An element, or a vector of them, from a place of a line on. */
type Read = (place: Place, at: E) => E;
type Load = (read: Read) => E;

export const lineValues = (form: LineForm): TileKernel =>
  withExpressions(() => new LineValues(form).write());

class LineValues extends Numbered {
  readonly #form: LineForm;
  readonly #result: Place = this.output(0);
  readonly #constants: readonly E[];

  constructor(form: LineForm) {
    super(form.areAlong.length);
    this.#form = form;
    this.#constants = form.exprs.filter(({ op }) => op === "constant")
      .map((_, k) => this.p.argument(`constant${k}`, 0, "float"));
  }

  write(): TileKernel {
    const { p } = this, { acrossIsInner } = this.#form;
    const [inner, outer] = acrossIsInner ? ["across", "along"] : ["along", "across"];
    const [rest, innerBlock] = divideBy(p.group, this.number(`${inner}Blocks`));
    const [batch, outerBlock] = divideBy(rest, this.number(`${outer}Blocks`));
    const parts = [this.#part(inner!, innerBlock), this.#part(outer!, outerBlock)] as const;
    const [across, along] = acrossIsInner ? parts : [parts[1], parts[0]];
    const own = p.let(batch);
    p.loop(across.count, (turn) => this.#line(own, p.let(add(across.first, turn)), along), 1);
    return p.finish("values of lines", 1);
  }

  #part(axis: string, block: E): Part {
    const { p } = this, size = this.number(`${axis}Block`), first = p.let(mul(block, size));
    return { first, count: p.let(min(sub(this.number(axis), first), size)) };
  }

  #line(batch: E, line: E, { first, count }: Part): void {
    const { p } = this, { areAlong } = this.#form;
    const begin = (name: string, more: E | 0): E =>
      p.let(add(this.entry(`${name}Batch`, batch), this.entry(`${name}Lines`, line), more));
    const result = begin("result", first);
    const loads = areAlong.map((isAlong, k): Load => {
      const place = this.input(k), at = begin(`load${k}`, isAlong ? first : 0);
      if (isAlong) return (read) => read(place, at);
      const all = p.let(splat(held(place, at, "float"), VECTOR));
      return () => all;
    });
    const step = (offset: E, isVector: boolean): void => {
      const read: Read = (place, at) =>
        isVector
          ? loadFrom(place, at, add(offset, lanes(VECTOR)))
          : splat(elementFrom(place, at, offset, "float32"), VECTOR);
      const own = add(result, offset),
        sum = isVector
          ? load(this.#result, add(own, lanes(VECTOR)))
          : splat(held(this.#result, own, "float"), VECTOR);
      const value = this.#value(loads.map((load) => () => load(read)), p.let(sum));
      p.store(this.#result, own, isVector ? value : lane(value, 0));
    };
    const whole = p.let(div(count, VECTOR)), done = p.let(mul(whole, VECTOR));
    p.loop(whole, (turn) => step(p.let(mul(turn, VECTOR)), true), 1);
    p.loop(p.let(sub(count, done)), (rest) => step(p.let(add(done, rest)), false), 1);
  }

  /** The value that the last operation gives. */
  #value(loads: readonly (() => E)[], sum: E): E {
    const { p } = this, values: E[] = [];
    for (const e of this.#form.exprs) values.push(p.let(this.#computed(e, values, loads, sum)));
    return values.at(-1)!;
  }

  #computed(e: Expr, values: readonly E[], loads: readonly (() => E)[], sum: E): E {
    const typeOf = (id: number): DType => this.#form.exprs[id]!.dtype;
    switch (e.op) {
      case "contracted":
        return sum;
      case "load":
        return loads[e.load]!();
      case "constant":
        return splat(this.#constants[e.value]!, VECTOR);
      case "primitive":
        return primitive(e.fn, e.args.map((id) => values[id]!), typeOf(e.args.at(-1)!), e.dtype);
      case "cast":
        return cast(values[e.args[0]!]!, typeOf(e.args[0]!), e.dtype);
      default:
        throw new Error(`There are no lanes for ${e.op} behind a product`);
    }
  }
}
