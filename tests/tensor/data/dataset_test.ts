import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { stackSamples } from "../../../tensor/data/collate.ts";
import { type Field, TensorDataset } from "../../../tensor/data/dataset.ts";

const points: Field = { data: Float32Array.of(0, 1, 10, 11, 20, 21), shape: [3, 2] };
const labels: Field = { data: Int32Array.of(5, 6, 7), shape: [3] };

Deno.test("TensorDataset gives one sample a time, without copying it", () => {
  const dataset = new TensorDataset(points, labels);
  assertEquals(dataset.length, 3);
  const [point, label] = dataset.get(1);
  assertEquals(point, { data: Float32Array.of(10, 11), shape: [2] });
  assertEquals(label, { data: Int32Array.of(6), shape: [] });
  assertStrictEquals(point!.data.buffer, points.data.buffer);
});

Deno.test("TensorDataset gathers a batch as stacked samples would be", () => {
  const dataset = new TensorDataset(points, labels);
  const batch = dataset.getBatch([2, 0, 2]);
  assertEquals(batch, stackSamples([2, 0, 2].map((index) => dataset.get(index))));
  assertEquals(batch[0], { data: Float32Array.of(20, 21, 0, 1, 20, 21), shape: [3, 2] });
  assertEquals(dataset.getBatch([])[0]!.shape, [0, 2]);
});

Deno.test("TensorDataset keeps a field's dtype", () => {
  const flags = { data: Uint8Array.of(1, 0), shape: [2], dtype: "bool" } as const;
  const dataset = new TensorDataset(flags);
  assertEquals(dataset.get(0)[0]!.dtype, "bool");
  assertEquals(dataset.getBatch([0])[0]!.dtype, "bool");
});

Deno.test("TensorDataset says what does not fit together", () => {
  assertThrows(() => new TensorDataset(), RangeError, "at least one field");
  assertThrows(() => new TensorDataset({ ...points, shape: [] }), RangeError, "no axis");
  assertThrows(() => new TensorDataset({ ...points, shape: [2, 2] }), RangeError, "6 values do");
  assertThrows(
    () => new TensorDataset(points, { data: new Float32Array(2), shape: [2] }),
    RangeError,
    "got 3, 2",
  );
  const dataset = new TensorDataset(points);
  for (const index of [-1, 3, 0.5]) {
    assertThrows(() => dataset.get(index), RangeError, `no sample ${index}: the dataset has 3`);
    assertThrows(() => dataset.getBatch([0, index]), RangeError, `no sample ${index}`);
  }
});

Deno.test("stackSamples says which samples differ", () => {
  const sample = (data: Field["data"], shape: number[]): Field[] => [{ data, shape }];
  const two = sample(Float32Array.of(1, 2), [2]);
  assertThrows(() => stackSamples([]), RangeError, "no samples");
  assertThrows(() => stackSamples([two, [...two, ...two]]), RangeError, "got 1 and 2");
  assertThrows(
    () => stackSamples([two, sample(new Float32Array(3), [3])]),
    RangeError,
    "[2] and [3]",
  );
  assertThrows(
    () => stackSamples([two, sample(new Float32Array(1), [2])]),
    RangeError,
    "2 and 1 values",
  );
  assertThrows(
    () => stackSamples([two, sample(Int32Array.of(1, 2), [2])]),
    TypeError,
    "Float32Array and Int32Array",
  );
});
