/** Comparisons of computed numbers. */
import { assert, assertEquals } from "@std/assert";

type Numbers = ArrayLike<number | bigint>;

/** The largest of the absolute values, and 1: what errors are a part of. */
export function scaleOf(numbers: Numbers): number {
  return Array.from(numbers, (x) => Math.abs(Number(x))).filter(Number.isFinite)
    .reduce((most, x) => Math.max(most, x), 1);
}

/**
 * Asserts that numbers are as near as they must be, or the same.
 *
 * @param within The difference that an element may have, or a function of the wanted one.
 */
export function assertNear(
  found: Numbers,
  wanted: Numbers,
  within: number | ((wanted: number) => number),
  what = "",
): void {
  assertEquals(found.length, wanted.length, what);
  for (let k = 0; k < wanted.length; k++) {
    const [x, y] = [Number(found[k]), Number(wanted[k])];
    const bound = typeof within === "number" ? within : within(y);
    const isNear = Object.is(x, y) || x === y || Math.abs(x - y) <= bound;
    assert(isNear, `${what}[${k}] is ${found[k]}, not ${wanted[k]}`);
  }
}
