import { assertEquals } from "@std/assert";
import { lineKernel } from "../../../../tensor/fft/lines/line_kernel.ts";

Deno.test("lineKernel() keeps fewer numbers of float64 in few registers", () => {
  const ends = {
    ...{ readsAcross: false, writesAcross: false, readsHalf: false },
    ...{ from: "parts", to: "parts", extent: "line" } as const,
  };
  const across = { ...ends, turn: 0, maxItems: 256, width: 1, rooms: 2 as const };
  const numbers = (dtype: "float32" | "float64", registers: number): number => {
    const text = lineKernel("k", { dtype, n: 256, ...across, registers });
    return new Set(text.match(/\ba\d_0_\d+\b/g)!.filter((name) => name.startsWith("a0_"))).size;
  };
  assertEquals(numbers("float32", 128), 16);
  assertEquals(numbers("float64", 128), 8);
  assertEquals(numbers("float64", 255), 16);
});
