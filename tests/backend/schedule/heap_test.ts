import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { Heap } from "../../../backend/schedule/passes/heap.ts";

Deno.test("Heap pops the smallest key first, however pushes and pops alternate", () => {
  const steps = fc.array(fc.option(fc.integer({ min: -50, max: 50 })), { maxLength: 200 });
  fc.assert(fc.property(steps, (steps) => {
    const heap = new Heap<number>((n) => n);
    const model: number[] = [];
    for (const step of steps) {
      if (step !== null) {
        heap.push(step);
        model.push(step);
        model.sort((a, b) => a - b);
      } else assertEquals(heap.pop(), model.shift());
    }
    for (const wanted of model) assertEquals(heap.pop(), wanted);
    assertEquals(heap.pop(), undefined);
  }));
});
