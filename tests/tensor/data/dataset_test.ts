import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { stackSamples } from "../../../tensor/data/collate.ts";
import { DataLoader } from "../../../tensor/data/data_loader.ts";
import { type Dataset, type Field, TensorDataset } from "../../../tensor/data/dataset.ts";
import { randomSplit } from "../../../tensor/data/random_split.ts";
import { Tensor } from "../../../tensor/mod.ts";
import { testOnBackends } from "../../opencl.ts";

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
  assertThrows(() => new TensorDataset(), RangeError, "of no fields: pass at least one");
  assertThrows(() => new TensorDataset({ ...points, shape: [] }), RangeError, "no axis");
  assertThrows(() => new TensorDataset({ ...points, shape: [2, 2] }), RangeError, "6 values do");
  const two = { data: new Float32Array(2), shape: [2] };
  assertThrows(() => new TensorDataset(points, two), RangeError, "of fields of 3, 2 samples");
  const dataset = new TensorDataset(points);
  for (const index of [-1, 3, 0.5]) {
    const text = `Cannot take sample ${index}`;
    assertThrows(() => dataset.get(index), RangeError, `${text}: the dataset has 3`);
    assertThrows(() => dataset.getBatch([0, index]), RangeError, text);
  }
});

Deno.test("Dataset: stackSamples says which samples differ", () => {
  const sample = (data: Field["data"], shape: number[]): Field[] => [{ data, shape }];
  const two = sample(Float32Array.of(1, 2), [2]);
  assertThrows(() => stackSamples([]), RangeError, "no samples");
  assertThrows(() => stackSamples([two, [...two, ...two]]), RangeError, "of 1 and of 2 fields");
  const rows: [Field[], type: ErrorConstructor, text: string][] = [
    [sample(new Float32Array(3), [3]), RangeError, "[2] and [3]"],
    [sample(new Float32Array(1), [2]), RangeError, "2 and 1 values"],
    [sample(Int32Array.of(1, 2), [2]), TypeError, "Float32Array and Int32Array"],
  ];
  for (const [other, type, text] of rows) {
    assertThrows(() => stackSamples([two, other]), type, text);
  }
});

testOnBackends("TensorDataset takes tensors, and loaders keep their types", async () => {
  const x = Tensor.fromHost([[1, 2], [3, 4], [5, 6]]), y = Tensor.fromHost(Int32Array.of(7, 8, 9));
  const half = x.to("bfloat16"), flags = y.gt(7);
  const data = new TensorDataset(x.slice([0, 3], [1, 2]), y, half, flags);
  const seen: unknown[] = [];
  for await (const [left, right, other, bool] of new DataLoader(data, { batchSize: 2 })) {
    assertEquals([left.dtype, right.dtype], ["float32", "int32"]);
    assertEquals([other.dtype, bool.dtype], ["bfloat16", "bool"]);
    seen.push([left.shape, right.shape, other.shape, bool.shape], await right.toArray());
  }
  assertEquals(seen, [[[2, 1], [2], [2, 2], [2]], [7, 8], [[1, 1], [1], [1, 2], [1]], [9]]);
});

testOnBackends("Dataset: names of a batch's tensors are its own, or those given", async () => {
  const made: Dataset = { length: 1, get: () => [field([1]), field([2])] };
  for await (const [a, b] of new DataLoader<[Tensor, Tensor]>(made)) {
    assertEquals([a.shape, b.shape], [[1, 1], [1, 1]]);
  }
  const [part, rest] = randomSplit(new TensorDataset(Tensor.zeros([4, 2])), [3, 1]);
  for await (const [a] of new DataLoader(part, { batchSize: 3 })) assertEquals(a.shape, [3, 2]);
  assertEquals((await rest.get(0))[0].shape, [2]);
  const typed: Dataset<[Field]> = { length: 1, get: () => [field([1])] };
  for await (const [a] of new DataLoader(typed)) assertEquals(a.shape, [1, 1]);
});

function field(values: readonly number[]): Field {
  return { data: Float32Array.from(values), shape: [values.length] };
}
