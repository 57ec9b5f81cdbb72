import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { permutation, philox } from "../../../tensor/data/shuffle.ts";

Deno.test("philox gives the known answers of Random123", () => {
  const hex = (words: number[]) => words.map((word) => word.toString(16)).join(" ");
  const ones = 0xffffffff, pi = [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344] as const;
  assertEquals(hex(philox([0, 0, 0, 0], [0, 0])), "6627e8d5 e169c58d bc57ac4c 9b00dbd8");
  const all = philox([ones, ones, ones, ones], [ones, ones]);
  assertEquals(hex(all), "408f276d 41c83b0e a20bc7c6 6d5451fd");
  const digits = philox([...pi], [0xa4093822, 0x299f31d0]);
  assertEquals(hex(digits), "d16cfe09 94fdcceb 5001e420 24126ea1");
});

Deno.test("a permutation has every number once, and the same ones for the same seed", () => {
  const seeds = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
  fc.assert(fc.property(fc.nat({ max: 200 }), seeds, fc.nat(), (length, seed, draw) => {
    const order = permutation(length, seed, draw);
    assertEquals(order.toSorted((a, b) => a - b), Array.from({ length }, (_, i) => i));
    assertEquals(permutation(length, seed, draw), order);
  }));
});

Deno.test("every draw and every seed gives another order", () => {
  const orders = [[1, 0], [1, 1], [2, 0], [2 ** 32 + 1, 0]].map(([seed, draw]) =>
    permutation(50, seed!, draw!).join()
  );
  assertEquals(new Set(orders).size, 4);
});

Deno.test("every place in a permutation is as likely as every other", () => {
  // 3,000 draws of 5: each of the 25 counts is binomial with mean 600 and deviation 21.9.
  const counts = Array.from({ length: 5 }, () => new Array<number>(5).fill(0));
  for (let draw = 0; draw < 3000; draw++) {
    permutation(5, 7, draw).forEach((value, place) => counts[place]![value]!++);
  }
  for (const count of counts.flat()) assert(Math.abs(count - 600) < 110, `${counts.join(" | ")}`);
});

Deno.test("permutation refuses a seed that is no whole number", () => {
  for (const seed of [-1, 0.5, NaN, 2 ** 53]) {
    assertThrows(() => permutation(3, seed), RangeError, `the seed ${seed}`);
  }
});
