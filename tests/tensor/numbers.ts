/** Numbers of tensors on the host, and how near they are to those that are due. */
import { assert, assertEquals } from "@std/assert";
import type { Tensor } from "../../mod.ts";

/** The elements of tensors, one behind the other. */
export function numbersOf(...tensors: readonly Tensor[]): number[] {
  return tensors.flatMap((x) => Array.from(x.toHostSync() as Iterable<number | bigint>, Number));
}

/** Fails unless each number differs from the expected one by no more than a share of its size, or of 1. */
export function assertNumbers(
  found: ArrayLike<number | bigint>,
  expected: ArrayLike<number | bigint>,
  tolerance: number,
  what = "numbers",
): void {
  assertEquals(found.length, expected.length, `${what}: their count`);
  for (let k = 0; k < expected.length; k++) {
    const [value, due] = [Number(found[k]), Number(expected[k])];
    const isNear = Object.is(value, due) ||
      Math.abs(value - due) <= tolerance * (1 + Math.abs(due));
    assert(isNear, `${what}: number ${k} is ${value}, ${due} is due`);
  }
}

/** The same tensor, which learns from now on. */
export function leaf(x: Tensor): Tensor {
  x.requiresGrad = true;
  return x;
}
