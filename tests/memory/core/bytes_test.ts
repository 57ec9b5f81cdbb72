import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { formatBytes, nextPowerOfTwo, roundUp } from "../../../memory/core/bytes.ts";

const sizes = fc.integer({ min: 1, max: 2 ** 50 });

Deno.test("roundUp gives the next multiple", () => {
  fc.assert(fc.property(sizes, fc.constantFrom(1, 64, 256, 4096), (size, granularity) => {
    const rounded = roundUp(size, granularity);
    return rounded % granularity === 0 && rounded >= size && rounded - size < granularity;
  }));
});

Deno.test("nextPowerOfTwo is exact also next to powers of two and above 2^31", () => {
  for (let exponent = 0; exponent <= 50; exponent++) {
    const power = 2 ** exponent;
    assertEquals(nextPowerOfTwo(power), power);
    assertEquals(nextPowerOfTwo(power + 1), exponent === 0 ? 2 : 2 * power);
  }
});

Deno.test("formatBytes speaks in units", () => {
  assertEquals(
    [0, 1, 1023, 1024, 1536, 2 ** 20, 5 * 2 ** 30, Infinity].map(formatBytes),
    ["0 bytes", "1 bytes", "1023 bytes", "1 KiB", "1.5 KiB", "1 MiB", "5 GiB", "unlimited"],
  );
});
