/**
 * Numbers of all element types: what kernels compute of elements. The scalar functions are those of
 * `graph/primitives.ts`; what a dialect writes for them stands in its own table.
 */
import type { DType } from "../../graph/dtype.ts";
import type { PrimitiveName } from "../../graph/primitives.ts";
import type { ArgReduceFn } from "../../graph/reductions.ts";
import { type E, type Element, type Kind, make, type Place } from "./expression.ts";

const kinds: Partial<Record<DType, Kind>> = {
  float32: "float",
  float16: "float",
  bfloat16: "float",
  bool: "uint8",
};

/** Kind of the numbers that elements of a type are computed in. */
export const kindOf = (dtype: DType): Kind => kinds[dtype] ?? dtype;

/** Element type of the numbers of a kind, where they are kept. */
export const elementOf = (kind: Kind): Element =>
  kind === "float"
    ? "float32"
    : kind === "word"
    ? "uint32"
    : kind === "int" || kind === "bool"
    ? "int32"
    : kind;

/** A number that stands in the text. */
export const value = (number: number | bigint, dtype: DType): E =>
  make("value", kindOf(dtype), [], {
    name: `${dtype}:${Object.is(number, -0) ? "-0" : number}`,
  });

/** A scalar function of operands of one type. */
export const primitive = (
  fn: PrimitiveName,
  args: readonly E[],
  dtype: DType,
  result: DType = dtype,
): E => make("primitive", kindOf(result), args, { name: `${fn}:${dtype}:${result}` });

/** A number of one type as one of another. */
export const cast = (a: E, from: DType, to: DType): E =>
  make("cast", kindOf(to), [a], { name: `${from}:${to}` });

/** An index as a number of a type. */
export const indexValue = (index: E, dtype: DType): E =>
  make("index", kindOf(dtype), [index], { name: dtype });

/** A condition as a truth value. */
export const flag = (condition: E): E =>
  condition.op === "const"
    ? value(condition.value, "bool")
    : make("flag", "uint8", [condition], { name: "bool" });

/** The random number of a place in a sequence; of the lanes of a vector, whose places are so far apart. */
export const random = (
  index: E,
  seed: E,
  stream: E,
  lanes?: { readonly width: number; readonly step: E },
): E =>
  lanes
    ? make("random", "float", [index, seed, stream, lanes.step], { width: lanes.width })
    : make("random", "float", [index, seed, stream]);

/** An index that was read from memory; where it is none below `size` it is reported, and 0. */
export const checked = (a: E, size: E, operation: E): E =>
  make("checked", "int", [a, size, operation], { range: [0, Infinity] });

/** True where an arg-reduction takes `b` rather than `a`, whatever their places. */
export const prefers = (fn: ArgReduceFn, dtype: DType, a: E, b: E): E =>
  make("prefers", "bool", [a, b], { name: `${fn}:${dtype}` });

/** True where neither number comes before the other: equal ones, and NaN. */
export const ties = (a: E, b: E): E => make("ties", "bool", [a, b]);

/** The texts that an operation keeps in its name. */
export const nameParts = ({ name }: E): string[] => name.split(":");

/** An element of a type. */
export const element = (place: Place, index: E, dtype: DType): E =>
  held(place, index, kindOf(dtype));

/** The same by an offset from a place that does not change in a loop: compilers of CPUs keep its address. */
export const elementFrom = (place: Place, base: E, offset: E, dtype: DType): E =>
  make("element", kindOf(dtype), [base, offset], { place, width: 1 });

/** A number in memory of a group or a work-item, of the kind of which it was stored. */
export const held = (place: Place, index: E, kind: Kind): E =>
  make("element", kind, [index], { place, width: 1 });

/** Truth values lie in memory as bytes; the kind "bool" is that of conditions. */
const asStored = (dtype: DType): DType => dtype === "bool" ? "uint8" : dtype;

/**
 * Elements side by side as they lie in memory, from an index on that is a multiple of their number.
 *
 * @param streams Whether they do not stay in the caches.
 */
export const neighbours = (
  place: Place,
  first: E,
  dtype: DType,
  width: number,
  streams = false,
): E => make("neighbours", asStored(dtype), [first], { place, width, value: Number(streams) });

/** One of the neighbours as a number. */
export const neighbour = (all: E, at: number): E =>
  make("neighbour", kindOf(all.kind as DType), [all], { value: at, width: 1, name: all.kind });

/** Numbers as neighbours in memory. */
export const sideBySide = (values: readonly E[], dtype: DType): E =>
  make("sideBySide", asStored(dtype), values, { width: values.length });
