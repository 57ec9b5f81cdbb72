/** Numbers of JavaScript as elements of a type: what fits, and how it is rounded. */
import { phraseOf, shown } from "../../core/rules/options.ts";
import { type DType, fromBfloat16Bits, toBfloat16Bits } from "../../../backend/internal.ts";

/** Ranges of integer types. */
const ranges: Readonly<Partial<Record<DType, readonly [least: number, most: number]>>> = {
  int32: [-(2 ** 31), 2 ** 31 - 1],
  // The double before 2 ** 63.
  int64: [-(2 ** 63), 2 ** 63 - 1024],
  int16: [-(2 ** 15), 2 ** 15 - 1],
  int8: [-(2 ** 7), 2 ** 7 - 1],
  uint32: [0, 2 ** 32 - 1],
  uint8: [0, 255],
  bool: [0, 1],
};

/** The nearest number of a floating type that is not JavaScript's own. */
const roundTo: Readonly<Partial<Record<DType, (value: number) => number>>> = {
  float32: Math.fround,
  float16: Math.f16round,
  bfloat16: (value) => fromBfloat16Bits(toBfloat16Bits(value)),
};

/** True where the type holds the number, but for its fraction. */
export function holds(dtype: DType, value: number): boolean {
  const range = ranges[dtype];
  return !range || Math.trunc(value) >= range[0] && Math.trunc(value) <= range[1];
}

/** The number that is nearest to `value` in the range of a type. */
export function nearestIn(dtype: DType, value: number): number {
  const range = ranges[dtype];
  return range ? Math.min(range[1], Math.max(range[0], value)) : value;
}

/**
 * A number as an element of a type holds it: whole for integers, a truth value for bool, rounded for
 * floats; negative numbers wrap around in uint8, as in PyTorch.
 */
export function elementOf(op: string, value: number, dtype: DType): number {
  if (typeof value !== "number") {
    throw new TypeError(`Cannot ${phraseOf(op)} with ${shown(value)}: pass a number`);
  }
  if (dtype === "bool") return Number(value !== 0);
  const range = ranges[dtype];
  if (!range) return roundTo[dtype]?.(value) ?? value;
  const whole = Math.trunc(value);
  if (holds(dtype, value)) return whole;
  if (dtype === "uint8" && whole < 0 && whole >= -255) return whole & 255;
  throw new RangeError(
    `Cannot ${phraseOf(op)} with ${value} in ${dtype}: pass a number from ${range[0]} to ${
      range[1]
    }, or ` +
      `cast to a type that holds it`,
  );
}
