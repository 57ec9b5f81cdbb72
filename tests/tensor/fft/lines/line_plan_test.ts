import { assert, assertEquals } from "@std/assert";
import { MAX_BUTTERFLY_PRIME } from "../../../../tensor/fft/lines/butterfly.ts";
import { largestPrime, radicesOf } from "../../../../tensor/fft/lines/line_plan.ts";

Deno.test("radicesOf() has stages of at most so many numbers, but for primes", () => {
  for (let n = 2; n <= 8192; n++) {
    const radices = radicesOf(n, 12);
    assertEquals(radices === null, largestPrime(n) > MAX_BUTTERFLY_PRIME, `${n}`);
    if (radices === null) continue;
    assertEquals(radices.reduce((all, radix) => all * radix), n);
    assert(radices.every((radix) => radix <= 12 || radix === MAX_BUTTERFLY_PRIME), `${radices}`);
  }
});
