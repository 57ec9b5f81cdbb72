/**
 * Parts of attention: where a few queries see many keys, groups take parts of the keys, each with an output and the
 * logarithms of its sums, and another kernel joins them.
 */
import type { DType } from "../../../graph/dtype.ts";
import { type AttentionKernel, headsOf } from "../../../kernel/attention.ts";
import { held, primitive } from "../../language/elements.ts";
import {
  add,
  div,
  divideBy,
  type E,
  int,
  lanes,
  mod,
  mul,
  type Place,
  sub,
} from "../../language/expression.ts";
import type { TileKernel } from "../../language/statements.ts";
import {
  all,
  fadd,
  float,
  fma,
  fmul,
  isSame,
  larger,
  load,
  lt,
  select,
  splat,
} from "../../language/values.ts";
import { storeLanes } from "./blocks.ts";
import type { HeadValues } from "./head_values.ts";
import { type KeyBlocks, KeyRange } from "./key_range.ts";
import { exp, fsub, INFINITY, isNone, NONE } from "./softmax.ts";

/** Buffers of all parts: outputs of (head, query, part, feature), logarithms of (head, query, part). */
export function partBuffers(
  kernel: AttentionKernel,
  parts: number,
): { dtype: DType; size: number }[] {
  const size = headsOf(kernel) * kernel.queries * parts;
  return [{ dtype: "float32", size: size * kernel.valueFeatures }, { dtype: "float32", size }];
}

/** The buffer of the parts of an output. */
export const partPlace = ({ outputs }: AttentionKernel, output: number): Place => ({
  space: "global",
  buffer: `o${outputs.length + output}`,
  element: "float32",
});

/** Work-items of a group on GPUs, and parts that each reads together. */
export const JOINING_ITEMS = 512;
const UNROLL = 8;

/**
 * The kernel that joins parts: a group a row of queries, whose work-items have a part each for its weight, then
 * vectors of `width` features of some of the parts.
 */
export function joinParts(values: HeadValues, blocks: KeyBlocks, width: number): TileKernel {
  const { kernel, p } = values, { valueFeatures, queries } = kernel, { items } = p;
  const [head, row] = divideBy(p.group, values.queries).map((e) => p.let(e)) as [E, E];
  values.placeHead(head);
  const range = new KeyRange(values, blocks), row0 = p.let(sub(row, mod(row, blocks.rows)));
  const count = range.filledParts(row0), start = p.let(mul(p.group, values.size(blocks.parts)));
  const [parts, logs] = [0, 1].map((output) => partPlace(kernel, output)) as [Place, Place];
  const weights = p.array("local", blocks.parts, "float");
  const most = p.register(NONE), total = p.register(float(0));
  const eachPart = (body: (part: E) => void): void =>
    p.loop(int(Math.ceil(blocks.parts / items)), (turn) => {
      const part = p.let(add(mul(turn, items), p.item));
      p.when(lt(part, count), () => body(part));
    }, 1);
  eachPart((part) => {
    const log = p.let(load(logs, add(start, part)));
    const own = p.let(select(isSame(log, INFINITY), NONE, log));
    p.set(most, larger(most, own));
    p.store(weights, part, own);
  });
  p.join([most], ([a], [b]) => [larger(a!, b!)]);
  const low = p.let(select(isNone(most), float(0), most));
  eachPart((part) => {
    const weight = p.let(exp(fsub(held(weights, part, "float"), low)));
    p.set(total, fadd(total, weight));
    p.store(weights, part, weight);
  });
  p.join([total], ([a], [b]) => [fadd(a!, b!)]);
  const inverse = p.let(primitive("div", [float(1), total], "float32"));
  const factor = p.let(select(isNone(most), float(0), inverse));
  const index = p.let(values.resultIndex(row, valueFeatures, values.queries, int(0)));
  let across = 1;
  while (across * width < valueFeatures && 2 * across <= items) across *= 2;
  const shares = items / across,
    own = p.let(mod(p.item, across)),
    share = p.let(div(p.item, across));
  const sums = shares > 1 ? p.array("local", items, "float") : null;
  const step = across * width;
  p.loop(int(Math.ceil(valueFeatures / step)), (turn) => {
    const column = p.let(add(mul(turn, step), mul(own, width)));
    const sum = p.register(splat(float(0), width)), isThere = p.let(lt(column, valueFeatures));
    const ownParts = p.let(div(sub(add(count, shares - 1), share), shares));
    p.when(isThere, () =>
      p.loop(ownParts, (at) => {
        const part = p.let(add(mul(at, shares), share));
        const place = add(mul(add(start, part), valueFeatures), column, lanes(width));
        p.set(sum, fma(load(parts, place), held(weights, part, "float"), sum));
      }, items > 1 ? UNROLL : 1));
    if (sums !== null) {
      p.store(sums, p.item, sum);
      for (let k = 1; k < shares; k++) {
        p.when(
          lt(p.item, across),
          () => p.set(sum, fadd(sum, held(sums, add(own, k * across), "float"))),
        );
      }
    }
    const result = p.let(fmul(sum, factor));
    p.when(
      all([lt(p.item, across), isThere]),
      () => storeLanes(p, values.output(0)!, add(index, column), result),
    );
  }, 1);
  return p.finish("attention_parts", headsOf(kernel) * queries);
}
