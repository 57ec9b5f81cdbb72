/** Computations that have the same numbers on the OpenCL device and on the built-in backend. */
import { assertEquals } from "@std/assert";
import { manualSeed, noGrad, type Tensor, withDevice } from "../../../mod.ts";

/** Asserts that each computation has the same numbers on both. */
export function assertSameOnBoth(computations: Readonly<Record<string, () => Tensor>>): void {
  const values = (where: "cl" | "cpu"): number[][] =>
    withDevice(where, () => {
      manualSeed(7);
      const all = noGrad(() => Object.values(computations).map((make) => make().toHostSync()));
      return all.map((numbers) => Array.from(numbers, Number));
    });
  const wanted = values("cpu"), found = values("cl");
  Object.keys(computations).forEach((name, k) => assertEquals(found[k], wanted[k], name));
}
