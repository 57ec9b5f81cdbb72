/** Blocks of floats as whole numbers of 16 bits with a scale each, for products with packed weights on CPUs. */
import { type Axis, BLOCK, type PackedFactor } from "../../../kernel/forms/packed_product.ts";
import { primitive } from "../../language/elements.ts";
import { add, divideBy, type E, int, lanes, mul, type Place } from "../../language/expression.ts";
import {
  above,
  fadd,
  float,
  fmul,
  lane,
  lanesFrom,
  laneSum,
  larger,
  load,
  nearest,
  select,
  splat,
  toFloat,
  toShorts,
} from "../../language/values.ts";
import type { Program } from "../../program.ts";

/** The largest number of 16 bits. */
const LARGEST = 2 ** 15 - 1;
/** Blocks of x of which none is larger are zeros: floats have no reciprocals of smaller ones. */
const SMALLEST = 1e-30;

/** The floats of a block, in vectors. */
export function floatsOf(p: Program, x: PackedFactor, row: E, block: E): E[] {
  const { width } = p.unit,
    place = { space: "global", buffer: x.name, element: x.element } as const;
  const begin = x.offset === 0 ? int(0) : p.size(x.offset);
  const first = p.let(
    add(begin, placeOf(p, x.rows, row, 1), placeOf(p, x.terms, mul(block, BLOCK), BLOCK)),
  );
  return Array.from(
    { length: BLOCK / width },
    (_, k) => p.let(load(place, add(first, k * width, lanes(width)))),
  );
}

/** The place of an element along axes; the sizes of the last one, and its number, are multiples. */
function placeOf(p: Program, axes: readonly Axis[], at: E, multiple: number): E {
  let place: E = int(0), rest = at;
  axes.toReversed().forEach(({ size, step }, k) => {
    const isLast = k === axes.length - 1;
    const [outer, own] = isLast
      ? [int(0), rest]
      : divideBy(rest, p.size(size, k === 0 ? multiple : 1));
    place = add(place, mul(own, step === 1 ? int(1) : p.size(step)));
    rest = outer;
  });
  return place;
}

/** A block of whole numbers. */
export interface RoundedBlock {
  /** Vectors of 16 bits. */
  readonly shorts: readonly E[];
  /** No number where one of the elements is none. */
  readonly scale: E;
  /** The sum of all elements. */
  readonly sum: E | null;
}

/** Rounds a block to 1/65534 of its largest element. */
export function rounded(p: Program, values: readonly E[], isSummed: boolean): RoundedBlock {
  const { width } = p.unit;
  let all = p.let(values.map((v) => primitive("abs", [v], "float32")).reduce(larger));
  for (let half = width / 2; half >= 1; half /= 2) all = p.let(larger(all, lanesFrom(all, half)));
  const most = p.let(lane(all, 0));
  const inverse = primitive("div", [float(LARGEST), most], "float32");
  const by = p.let(select(above(most, float(SMALLEST)), inverse, float(0)));
  const nothing = laneSum(values.map((v) => fmul(v, splat(float(0), width))).reduce(fadd));
  const scale = p.let(fadd(fmul(most, float(1 / LARGEST)), nothing));
  const numbers = values.map((v) => p.let(nearest(fmul(v, splat(by, width)))));
  return {
    shorts: numbers.map(toShorts),
    scale,
    sum: isSummed ? p.let(fmul(laneSum(toFloat(add(...numbers))), scale)) : null,
  };
}

/** Stores the numbers of a block, from an index on. */
export function storeShorts(p: Program, place: Place, index: E, shorts: readonly E[]): void {
  shorts.forEach((vector, k) => p.store(place, add(index, k * vector.width), vector));
}
