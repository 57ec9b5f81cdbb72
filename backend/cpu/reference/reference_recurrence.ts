/** The plain evaluator of recurrent layers: a feature of a row at a time. */
import { type GateMath, stepGradients, stepValues, unread } from "../../codegen/recurrent_gates.ts";
import { gateCounts } from "../../graph/op.ts";
import type { RecurrenceOfSizes } from "../../kernel/kernel.ts";

const gateMath: GateMath<number> = {
  float: (value) => value,
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  madd: (a, b, c) => a * b + c,
  lt: (a, b) => Number(a < b),
  gt: (a, b) => Number(a > b),
  select: (mask, a, b) => mask ? a : b,
  sigmoid: (x) => 1 / (1 + Math.exp(-x)),
  tanh: Math.tanh,
};

/** Computes the output of a recurrent layer, or of its gradient. */
export function runRecurrence(
  kernel: RecurrenceOfSizes,
  inputs: readonly Float32Array[],
  output: Float32Array,
): void {
  if (kernel.pass === "forward") forward(kernel, inputs, output);
  else backward(kernel, inputs, output);
}

/** A row times a matrix of so many columns: it walks the matrix as it lies. */
function rowTimes(row: Float32Array, matrix: Float32Array, columns: number): Float64Array {
  const sums = new Float64Array(columns);
  for (let k = 0; k < row.length; k++) {
    const factor = row[k]!, start = k * columns;
    for (let column = 0; column < columns; column++) {
      sums[column]! += factor * matrix[start + column]!;
    }
  }
  return sums;
}

/** A step in the order of the recurrence: which it is, and where its states lie. */
function placesOf({ steps, isReverse }: RecurrenceOfSizes, order: number) {
  const step = isReverse ? steps - 1 - order : order;
  return { step, before: isReverse ? step + 1 : step, after: isReverse ? step : step + 1 };
}

function forward(
  kernel: RecurrenceOfSizes,
  [input, weight, first, bias]: readonly Float32Array[],
  planes: Float32Array,
): void {
  const { steps: count, batch, features, columns, gates, isReverse } = kernel;
  const size = gateCounts[gates], row = size.gates * features;
  const at = planeIndex(kernel);
  for (let k = 0; k < size.states * batch * features; k++) {
    const plane = Math.floor(k / (batch * features)), rest = k % (batch * features);
    planes[at(plane, isReverse ? count : 0, 0, 0) + rest] = first![k]!;
  }
  for (let order = 0; order < count; order++) {
    const { step, before, after } = placesOf(kernel, order);
    for (let n = 0; n < batch; n++) {
      const start = at(0, before, n, 0), width = size.gates * columns;
      const product = rowTimes(planes.subarray(start, start + features), weight!, width);
      for (let u = 0; u < features; u++) {
        const values = stepValues(gates, gateMath, {
          input: (gate) => input![(step * batch + n) * row + gate * features + u]!,
          hidden: (gate) => product[gate * columns + u]! + (bias?.[gate * features + u] ?? 0),
          before: (plane) => planes[at(plane, before, n, u)]!,
          after: unread,
        });
        for (let p = 0; p < kernel.planes; p++) planes[at(p, after, n, u)] = values[p]!;
      }
    }
  }
}

function backward(
  kernel: RecurrenceOfSizes,
  [planes, gradient, weight]: readonly Float32Array[],
  output: Float32Array,
): void {
  const { steps: count, batch, features, columns, gates } = kernel;
  const { states, blocks, gates: rows } = gateCounts[gates];
  const at = planeIndex(kernel), size = batch * features;
  const place = (step: number, n: number, block: number, u: number): number =>
    ((step * batch + n) * blocks + block) * features + u;
  const flowing = Array.from({ length: states }, () => new Float32Array(size));
  for (let order = count - 1; order >= 0; order--) {
    const { step, before, after } = placesOf(kernel, order);
    for (let n = 0; n < batch; n++) {
      for (let u = 0; u < features; u++) {
        const arriving = flowing.map((values, k) =>
          values[n * features + u]! + gradient![(k * count + step) * size + n * features + u]!
        );
        const found = stepGradients(gates, gateMath, {
          before: (plane) => planes![at(plane, before, n, u)]!,
          after: (plane) => planes![at(plane, after, n, u)]!,
        }, arriving);
        found.blocks.forEach((value, block) => output[place(step, n, block, u)] = value);
        found.direct.forEach((value, k) => flowing[k]![n * features + u] = value);
      }
      const start = place(step, n, blocks - rows, 0);
      const found = rowTimes(output.subarray(start, start + rows * features), weight!, columns);
      for (let u = 0; u < features; u++) flowing[0]![n * features + u]! += found[u]!;
    }
  }
  for (let n = 0; n < batch; n++) {
    for (let u = 0; u < features; u++) {
      flowing.forEach((values, k) => output[place(count, n, k, u)] = values[n * features + u]!);
    }
  }
}

/** Position of an element of the planes. */
function planeIndex({ steps, batch, features }: RecurrenceOfSizes) {
  return (plane: number, slot: number, n: number, u: number): number =>
    ((plane * (steps + 1) + slot) * batch + n) * features + u;
}
