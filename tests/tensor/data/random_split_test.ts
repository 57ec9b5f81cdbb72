import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { type Dataset, TensorDataset } from "../../../tensor/data/dataset.ts";
import { randomSplit, Subset } from "../../../tensor/data/random_split.ts";

function numbers(length: number): TensorDataset {
  return new TensorDataset({ data: Int32Array.from({ length }, (_, i) => i), shape: [length] });
}

function values(dataset: TensorDataset | Subset): number[] {
  return Array.from({ length: dataset.length }, (_, i) => {
    const [field] = dataset.get(i) as ReturnType<TensorDataset["get"]>;
    return Number(field!.data[0]);
  });
}

Deno.test("randomSplit parts share no sample and leave none out", () => {
  const counts = fc.array(fc.nat({ max: 30 }), { minLength: 1, maxLength: 5 });
  fc.assert(fc.property(counts, fc.nat(), (counts, seed) => {
    const total = counts.reduce((a, b) => a + b, 0);
    const parts = randomSplit(numbers(total), counts, { seed });
    assertEquals(parts.map(({ length }) => length), counts);
    assertEquals(parts.flatMap(values).sort((a, b) => a - b), values(numbers(total)));
  }));
});

Deno.test("randomSplit takes fractions, and gives what is left over to the first parts", () => {
  const lengths = (parts: number[], total: number) =>
    randomSplit(numbers(total), parts).map(({ length }) => length);
  assertEquals(lengths([0.8, 0.2], 1797), [1438, 359]);
  assertEquals(lengths([0.29, 0.71], 100), [29, 71]);
  assertEquals(lengths([1 / 3, 1 / 3, 1 / 3], 10), [4, 3, 3]);
  assertEquals(lengths([1], 10), [10]);
});

Deno.test("randomSplit depends on its seed only", () => {
  const split = (seed: number) => values(randomSplit(numbers(50), [25, 25], { seed })[0]!);
  assertEquals(split(1), split(1));
  assert(split(1).join() !== split(2).join());
});

Deno.test("randomSplit refuses parts that do not add up", () => {
  for (const parts of [[5, 6], [0.5, 0.6], [-1, 11], [11, -1], []]) {
    assertThrows(() => randomSplit(numbers(10), parts), RangeError, "add up to 10");
  }
});

Deno.test("Subset passes whole batches on where the dataset below can make them", () => {
  const subset = new Subset(new Subset(numbers(10), [9, 8, 7, 6]), [3, 0]);
  assertEquals(values(subset), [6, 9]);
  const batch = subset.getBatch!([1, 0, 1]) as ReturnType<TensorDataset["getBatch"]>;
  assertEquals([...batch[0]!.data], [9, 6, 9]);
  const slow: Dataset = { length: 2, get: (i) => [{ data: Int32Array.of(i), shape: [] }] };
  assertEquals(new Subset(slow, [1]).getBatch, undefined);
  assertThrows(() => new Subset(slow, [2]), RangeError, "Cannot take sample 2");
  assertThrows(() => subset.get(2), RangeError, "Cannot take sample 2");
});
