/** The plain evaluator of recurrent layers: a feature of a row at a time, as the formulas say. */
import { gateCounts } from "../../graph/op.ts";
import type { RecurrenceOfSizes } from "../../kernel/kernel.ts";

/** Reads and writes what a kernel has for one feature of one row, by the names of `RecurrenceOp`. */
interface Cell {
  /** Inputs of a gate: from the input, and from the product with h. */
  readonly input: (gate: number) => number;
  readonly hidden: (gate: number) => number;
  /** A plane before the step, and after it. */
  readonly before: (plane: number) => number;
  readonly after: (plane: number) => number;
}

/** The planes after a step: states, then what `backward` reads. */
type Step = (cell: Cell) => number[];
/** The blocks of a step, and what flows to the state before beside the product. */
type Gradient = (cell: Cell, gradients: readonly number[]) => [blocks: number[], direct: number[]];

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));

const steps: Readonly<Record<RecurrenceOfSizes["gates"], Step>> = {
  lstm({ input, hidden, before }) {
    const sum = (gate: number): number => input(gate) + hidden(gate);
    const [i, f, g, o] = [sigmoid(sum(0)), sigmoid(sum(1)), Math.tanh(sum(2)), sigmoid(sum(3))];
    const c = f * before(1) + i * g;
    return [o * Math.tanh(c), c, i, f, g, o];
  },
  gru({ input, hidden, before }) {
    const [r, z] = [sigmoid(input(0) + hidden(0)), sigmoid(input(1) + hidden(1))];
    const inner = hidden(2), n = Math.tanh(input(2) + r * inner);
    return [n + z * (before(0) - n), r, z, n, inner];
  },
  tanh: ({ input, hidden }) => [Math.tanh(input(0) + hidden(0))],
  relu: ({ input, hidden }) => [relu(input(0) + hidden(0))],
};

function relu(x: number): number {
  return x < 0 ? 0 : x;
}

const gradients: Readonly<Record<RecurrenceOfSizes["gates"], Gradient>> = {
  lstm({ before, after }, [dh, dcAfter]) {
    const [i, f, g, o, tanh] = [after(2), after(3), after(4), after(5), Math.tanh(after(1))];
    const dc = dcAfter! + dh! * o * (1 - tanh * tanh);
    const blocks = [
      dc * g * i * (1 - i),
      dc * before(1) * f * (1 - f),
      dc * i * (1 - g * g),
      dh! * tanh * o * (1 - o),
    ];
    return [blocks, [0, dc * f]];
  },
  gru({ before, after }, [dh]) {
    const [r, z, n, inner] = [after(1), after(2), after(3), after(4)];
    const dn = dh! * (1 - z) * (1 - n * n);
    const blocks = [dn, dn * inner * r * (1 - r), dh! * (before(0) - n) * z * (1 - z), dn * r];
    return [blocks, [dh! * z]];
  },
  tanh: ({ after }, [dh]) => [[dh! * (1 - after(0) * after(0))], [0]],
  relu: ({ after }, [dh]) => [[after(0) > 0 ? dh! : 0], [0]],
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
        const values = steps[gates]({
          input: (gate) => input![(step * batch + n) * row + gate * features + u]!,
          hidden: (gate) => product[gate * columns + u]! + (bias?.[gate * features + u] ?? 0),
          before: (plane) => planes[at(plane, before, n, u)]!,
          after: () => NaN,
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
        const [found, direct] = gradients[gates]({
          input: () => NaN,
          hidden: () => NaN,
          before: (plane) => planes![at(plane, before, n, u)]!,
          after: (plane) => planes![at(plane, after, n, u)]!,
        }, arriving);
        found.forEach((value, block) => output[place(step, n, block, u)] = value);
        direct.forEach((value, k) => flowing[k]![n * features + u] = value);
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
