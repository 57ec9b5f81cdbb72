/**
 * Windows over images: where they lie, and pooling.
 *
 * This folder (`images/`) has the operators on images. It imports `core/` and `format/` of graphs, and
 * operations of tensors.
 */
import { isFloat, sizeOf } from "../../../../../backend/internal.ts";
import { Tensor } from "../../../../class/tensor.ts";
import { type Call, type Operator, type Operators, typed } from "../../core/call.ts";
import type { Value } from "../../core/value.ts";

/** Geometry of a window over the axes behind the channels. */
export interface Windows {
  /** Its lengths. */
  readonly kernel: readonly number[];
  /** Steps between windows. */
  readonly strides: readonly number[];
  /** Steps between the elements of a window. */
  readonly dilations: readonly number[];
  /** Padding in front of each axis and behind it. */
  readonly pads: readonly (readonly [before: number, after: number])[];
}

/** The windows that a node describes, over axes of these lengths. */
export function windowsOf(
  call: Call,
  kernel: readonly number[],
  lengths: readonly number[],
): Windows {
  const axes = kernel.map((_, k) => k);
  const strides = call.ints("strides") ?? axes.map(() => 1);
  const dilations = call.ints("dilations") ?? axes.map(() => 1);
  const auto = call.text("auto_pad", "NOTSET"), given = call.ints("pads");
  const pads = axes.map((k): [number, number] => {
    if (!auto.startsWith("SAME")) {
      return auto === "VALID" || !given ? [0, 0] : [given[k]!, given[k + kernel.length]!];
    }
    const out = Math.ceil(lengths[k]! / strides[k]!);
    const total = (out - 1) * strides[k]! + spanOf(kernel[k]!, dilations[k]!) - lengths[k]!;
    const less = Math.floor(Math.max(0, total) / 2), more = Math.max(0, total) - less;
    return auto === "SAME_UPPER" ? [less, more] : [more, less];
  });
  return { kernel, strides, dilations, pads };
}

/** Elements of an axis that a window reaches over. */
export function spanOf(kernel: number, dilation: number): number {
  return (kernel - 1) * dilation + 1;
}

/** Windows that end beyond the padding count with `ceil_mode`: the padding grows as far as they reach. */
function grown(call: Call, windows: Windows, lengths: readonly number[]): Windows {
  if (call.int("ceil_mode", 0) === 0) return windows;
  const pads = windows.pads.map(([before, after], k): [number, number] => {
    const step = windows.strides[k]!, span = spanOf(windows.kernel[k]!, windows.dilations[k]!);
    const length = lengths[k]!, whole = length + before + after - span;
    let out = Math.ceil(whole / step) + 1;
    // A window that would begin in the padding behind is left out.
    if ((out - 1) * step >= length + before) out--;
    return [before, after + Math.max(0, (out - 1) * step - whole)];
  });
  return { ...windows, pads };
}

function padded(x: Tensor, { pads }: Windows, value: number): Tensor {
  if (pads.every(([a, b]) => a === 0 && b === 0)) return x;
  return x.pad([[0, 0], [0, 0], ...pads], value);
}

/** For each element of a window, what all windows have there. */
function taps(image: Tensor, { kernel, strides, dilations }: Windows): Tensor[] {
  const spatial = image.shape.slice(2), count = sizeOf(kernel);
  return Array.from({ length: count }, (_, k) => {
    const ranges = kernel.map((_, axis) => axis).reverse().map((axis) => {
      const at = k % kernel[axis]!;
      k = Math.floor(k / kernel[axis]!);
      const from = at * dilations[axis]!, span = spanOf(kernel[axis]!, dilations[axis]!);
      return [from, spatial[axis]! - span + from + 1, strides[axis]!] as const;
    }).reverse();
    return image.slice(null, null, ...ranges);
  });
}

/** Pooling of one or two axes by the library's own, of three by parts of images. */
function pool(
  image: Tensor,
  windows: Windows,
  method: "maxPool2d" | "avgPool2d",
  join: (parts: Tensor[]) => Tensor,
): Tensor {
  const { kernel, strides, dilations } = windows;
  if (!isFloat(image.dtype) || kernel.length > 2) return join(taps(image, windows));
  const two = (list: readonly number[]) => list.length === 1 ? [1, list[0]!] : list;
  const flat = kernel.length === 1 ? image.unsqueeze(2) : image;
  const out = flat[method](two(kernel), { stride: two(strides), dilation: two(dilations) });
  return kernel.length === 1 ? out.squeeze(2) : out;
}

function sumOf(parts: readonly Tensor[]): Tensor {
  return parts.reduce((a, b) => a.add(b));
}

function lowest(x: Tensor): number {
  return isFloat(x.dtype) ? -Infinity : x.dtype === "uint8" ? 0 : -(2 ** 31);
}

const maxPool: Operator = (call) => {
  const x = call.tensor(0), { type } = call.value(0), lengths = x.shape.slice(2);
  const windows = grown(call, windowsOf(call, call.neededInts("kernel_shape"), lengths), lengths);
  const image = padded(x, windows, lowest(x));
  const join = (parts: Tensor[]) => parts.reduce((a, b) => a.maximum(b));
  const values = typed(pool(image, windows, "maxPool2d", join), type);
  return call.wants(1) ? [values, maxIndices(x, image, windows, call)] : values;
};

/** The place of each largest element among all of the input. */
function maxIndices(x: Tensor, image: Tensor, windows: Windows, call: Call): Value {
  const isByColumns = call.int("storage_order", 0) === 1, lengths = x.shape.slice(2);
  const order = lengths.map((_, k) => k), all = sizeOf(lengths);
  const steps = order.map((k) =>
    (isByColumns ? lengths.slice(0, k) : lengths.slice(k + 1)).reduce(
      (product, n) => product * n,
      1,
    )
  );
  // Places of the padding are never largest, so their numbers do not matter.
  const places = order.map((k) => {
    const shape = order.map((axis) => axis === k ? lengths[k]! : 1);
    return x.indexLike([lengths[k]!]).mul(steps[k]!).reshape(shape).expand(lengths);
  }).reduce((a, b) => a.add(b));
  const channels = x.indexLike([x.shape[0]! * x.shape[1]!]).mul(all);
  const own = channels.reshape([x.shape[0]!, x.shape[1]!, ...lengths.map(() => 1)]);
  const numbered = padded(places.reshape([1, 1, ...lengths]).add(own), windows, 0);
  const best = Tensor.stack(taps(image, windows), 0).argmax(0).unsqueeze(0);
  return typed(
    Tensor.stack(taps(numbered, windows), 0).gather(0, best).squeeze(0).cast("int64"),
    "int64",
  );
}

const averagePool: Operator = (call) => {
  const x = call.tensor(0), lengths = x.shape.slice(2), kernel = call.neededInts("kernel_shape");
  const plain = windowsOf(call, kernel, lengths), windows = grown(call, plain, lengths);
  const mean = (image: Tensor) =>
    pool(image, windows, "avgPool2d", (parts) => sumOf(parts).div(parts.length));
  const isPadded = windows.pads.some(([a, b]) => a > 0 || b > 0);
  const sums = mean(padded(x, windows, 0));
  if (!isPadded) return sums;
  // The share of a window that counts: inside the image, or inside its padding.
  const ones = x.onesLike([1, 1, ...lengths]);
  const counted = call.int("count_include_pad", 0) === 1
    ? padded(ones, plain, 1)
    : padded(ones, plain, 0);
  const rest = windows.pads.map(([, after], k): [number, number] => [0, after - plain.pads[k]![1]]);
  return sums.div(mean(counted.pad([[0, 0], [0, 0], ...rest], 0)));
};

const lpPool: Operator = (call) => {
  const x = call.tensor(0), lengths = x.shape.slice(2), p = call.int("p", 2);
  const windows = grown(call, windowsOf(call, call.neededInts("kernel_shape"), lengths), lengths);
  return sumOf(taps(padded(x.abs().pow(p), windows, 0), windows)).pow(1 / p);
};

function globalPool(fn: (x: Tensor, axes: number[]) => Tensor): Operator {
  return (call) => {
    const x = call.tensor(0);
    return fn(x, x.shape.map((_, k) => k).slice(2));
  };
}

/** Puts what a pooling took back to its place. */
const maxUnpool: Operator = (call) => {
  const x = call.tensor(0), kernel = call.neededInts("kernel_shape"), lengths = x.shape.slice(2);
  const { strides, pads } = windowsOf(call, kernel, lengths);
  const inner = lengths.map((n, k) =>
    (n - 1) * strides[k]! + kernel[k]! - pads[k]![0] - pads[k]![1]
  );
  const shape = [...x.shape.slice(0, 2), ...inner];
  const wanted = call.numbers(2)?.slice() ?? shape;
  const size = sizeOf(shape);
  const flat = x.zerosLike([size]).scatter(0, call.tensor(1).flatten(), x.flatten());
  const rest = wanted.map((n, k): [number, number] => [0, n - shape[k]!]);
  return flat.reshape(shape).pad(rest, 0);
};

/** Pooling, by its kinds. */
export const pools: Operators = {
  MaxPool: maxPool,
  AveragePool: averagePool,
  LpPool: lpPool,
  MaxUnpool: maxUnpool,
  GlobalAveragePool: globalPool((x, axes) => x.mean(axes, { keepDims: true })),
  GlobalMaxPool: globalPool((x, axes) => x.max(axes, { keepDims: true })),
  GlobalLpPool: (call) => {
    const x = call.tensor(0), p = call.int("p", 2), axes = x.shape.map((_, k) => k).slice(2);
    return x.abs().pow(p).sum(axes, { keepDims: true }).pow(1 / p);
  },
};
