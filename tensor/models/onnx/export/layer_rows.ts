/** The form of convolutions, pooling, norms and attention in ONNX. */
import type { GridSampleOptions } from "../../../nn/layers/grid_sample.ts";
import {
  type Attributes,
  input,
  type Row,
  shapesOfResult,
  typeOfResult,
  type Written,
} from "./row.ts";
import type { Used } from "./recording.ts";

function list(value: unknown, count: number, fallback: number): number[] {
  const given = value === undefined ? [fallback] : [value as number | number[]].flat();
  return given.length === 1 ? new Array<number>(count).fill(given[0]!) : given;
}

interface WindowOptions {
  readonly stride?: unknown;
  readonly padding?: unknown;
  readonly dilation?: unknown;
  readonly groups?: number;
  readonly bias?: Used;
  readonly outputPadding?: unknown;
  readonly countIncludePad?: boolean;
}

function windowAttributes(options: WindowOptions, axes: number, stride: unknown): Attributes {
  const padding = list(options.padding, axes, 0);
  return {
    strides: list(options.stride ?? stride, axes, 1),
    pads: [...padding, ...padding],
    dilations: list(options.dilation, axes, 1),
  };
}

function convolution(kind: string, axes: number): Row {
  return (w) => {
    const dtype = typeOfResult(w), options = (w.call.args[2] ?? {}) as WindowOptions;
    const inputs = [input(w), input(w, 1), ...options.bias ? [options.bias] : []];
    const attributes = { ...windowAttributes(options, axes, 1), group: options.groups ?? 1 };
    const extra = options.outputPadding === undefined
      ? {}
      : { output_padding: list(options.outputPadding, axes, 0) };
    return w.graph.emit(kind, inputs.map((t) => w.graph.operand(t, dtype)), {
      ...attributes,
      ...extra,
    });
  };
}

function pooling(kind: string): Row {
  return (w) => {
    const options = (w.call.args[2] ?? {}) as WindowOptions, kernel = list(w.call.args[1], 2, 1);
    const attributes = windowAttributes(options, 2, kernel);
    const { dilations, ...rest } = attributes;
    const own = kind === "MaxPool"
      ? { dilations: dilations! }
      : { count_include_pad: Number(options.countIncludePad ?? true) };
    return w.graph.emit(kind, [w.graph.name(input(w))], { ...rest, ...own, kernel_shape: kernel });
  };
}

/** Windows of regions that divide the image evenly; others are written by their parts. */
function adaptive(kind: string): Row {
  return (w) => {
    const { shape } = input(w).tensor, size = list(w.call.args[1], 2, 1);
    const kernel = size.map((n, k) => shape[2 + k]! / n);
    if (size.every((n) => n === 1)) {
      return w.graph.emit(`Global${kind}`, [w.graph.name(input(w))]);
    }
    if (!kernel.every(Number.isInteger)) {
      throw new TypeError(
        `Cannot save ${w.call.name}: [${size}] does not divide [${shape.slice(2)}]`,
      );
    }
    return w.graph.emit(kind, [w.graph.name(input(w))], { kernel_shape: kernel, strides: kernel });
  };
}

interface Interpolation {
  readonly size?: unknown;
  readonly scaleFactor?: unknown;
  readonly mode?: string;
  readonly alignCorners?: boolean;
}

const interpolate: Row = (w) => {
  const { size, scaleFactor, mode = "nearest", alignCorners } = w.call.args[1] as Interpolation;
  const axes = input(w).tensor.ndim - 2, x = w.graph.name(input(w));
  const places = mode === "nearest" ? "asymmetric" : alignCorners ? "align_corners" : "half_pixel";
  const attributes = {
    mode: mode === "nearest" ? "nearest" : "linear",
    coordinate_transformation_mode: places,
    nearest_mode: "floor",
  };
  if (size !== undefined) {
    return w.graph.emit(
      "Resize",
      [x, "", "", w.graph.shape(...shapesOfResult(w), false)],
      attributes,
    );
  }
  const data = Float32Array.from([1, 1, ...list(scaleFactor, axes, 1)]);
  const scales = w.graph.constant({ data, shape: [data.length], dtype: "float32" });
  return w.graph.emit("Resize", [x, "", scales], attributes);
};

/** `(x - mean) / sqrt(variance + eps)`, then perhaps a factor and an offset. */
const standardize: Row = (w) => {
  const x = input(w),
    axes = (w.call.args[1] as number[]).slice(),
    { graph } = w,
    { dtype } = x.tensor;
  const affine = w.call.args[3] as [Used, Used] | undefined;
  const centred = graph.emit("Sub", [
    graph.name(x),
    graph.emit("ReduceMean", [graph.name(x)], { axes, keepdims: 1 }),
  ]);
  const squares = graph.emit("Mul", [centred, centred]);
  const variance = graph.emit("ReduceMean", [squares], { axes, keepdims: 1 });
  const shifted = graph.emit("Add", [variance, graph.scalar(w.call.args[2] as number, dtype)]);
  const out = graph.emit("Div", [centred, graph.emit("Sqrt", [shifted])]);
  if (!affine) return out;
  const scaled = graph.emit("Mul", [out, graph.operand(affine[0], dtype)]);
  return graph.emit("Add", [scaled, graph.operand(affine[1], dtype)]);
};

const rootMeanSquare: Row = (w) => {
  const x = input(w), axes = (w.call.args[1] as number[]).slice(), { graph } = w;
  const squares = graph.emit("Mul", [graph.name(x), graph.name(x)]);
  const mean = graph.emit("ReduceMean", [squares], { axes, keepdims: 1 });
  const shifted = graph.emit("Add", [mean, graph.scalar(w.call.args[2] as number, x.tensor.dtype)]);
  return graph.emit("Div", [graph.name(x), graph.emit("Sqrt", [shifted])]);
};

interface AttentionOptions {
  readonly mask?: Used;
  readonly isCausal?: boolean;
  readonly scale?: number;
}

/** softmax(q kᵀ scale + mask) v. */
const attention: Row = (w) => {
  const { graph } = w, dtype = typeOfResult(w);
  const { mask, isCausal, scale } = (w.call.args[3] ?? {}) as AttentionOptions;
  const [q, k, v] = [0, 1, 2].map((at) => input(w, at)) as [Used, Used, Used];
  const { ndim, shape } = k.tensor, perm = Array.from({ length: ndim }, (_, axis) => axis);
  perm.push(...perm.splice(-2).reverse());
  const transposed = graph.emit("Transpose", [graph.operand(k, dtype)], { perm });
  const factor = graph.scalar(scale ?? 1 / Math.sqrt(q.tensor.shape.at(-1)!), dtype);
  let scores = graph.emit("Mul", [
    graph.emit("MatMul", [graph.operand(q, dtype), transposed]),
    factor,
  ]);
  if (mask) {
    const added = mask.tensor.dtype === "bool"
      ? graph.emit("Where", [
        graph.name(mask),
        graph.scalar(0, dtype),
        graph.scalar(-Infinity, dtype),
      ])
      : graph.operand(mask, dtype);
    scores = graph.emit("Add", [scores, added]);
  }
  if (isCausal) {
    const lengths = [q.tensor.shape.at(-2)!, shape.at(-2)!] as const,
      others = w.other.args as Used[];
    if (
      others[0]!.tensor.shape.at(-2) !== lengths[0] || others[1]!.tensor.shape.at(-2) !== lengths[1]
    ) {
      throw new TypeError("Cannot save attention to the past over an axis of any length: fix it");
    }
    const data = Float32Array.from(
      { length: lengths[0] * lengths[1] },
      (_, at) => at % lengths[1] <= Math.floor(at / lengths[1]) ? 0 : -Infinity,
    );
    const past = graph.constant({ data, shape: lengths, dtype: "float32" });
    scores = graph.emit("Add", [scores, dtype === "float32" ? past : graph.cast(past, dtype)]);
  }
  return graph.emit("MatMul", [
    graph.emit("Softmax", [scores], { axis: -1 }),
    graph.operand(v, dtype),
  ]);
};

/** Bags of equal size, side by side. */
const bags: Row = (w) => {
  const [weight, mode, ids, options] = w.call.args as [Used, string, Used, Record<string, unknown>];
  if (Object.values(options).some((option) => option !== undefined)) {
    throw new TypeError("Cannot save EmbeddingBag with offsets or weights: ONNX has no form of it");
  }
  const { graph } = w;
  const looked = graph.emit("Gather", [graph.name(weight), graph.operand(ids, "int64")], {
    axis: 0,
  });
  const kind = { sum: "ReduceSum", mean: "ReduceMean", max: "ReduceMax" }[mode]!;
  return kind === "ReduceSum"
    ? graph.emit(kind, [looked, graph.ints([1])], { keepdims: 0 })
    : graph.emit(kind, [looked], { axes: [1], keepdims: 0 });
};

/** (x - mean) / sqrt(variance + eps) by numbers that are known, a channel each; then a factor and a term. */
const batchNorm: Row = (w) => {
  const { graph } = w, dtype = typeOfResult(w);
  const [x, statistics, epsilon, affine] = w.call.args as [Used, Used[], number, (Used | null)[]];
  const count = statistics[0]!.tensor.size;
  const filled = (value: number) =>
    graph.cast(
      graph.constant({
        data: new Float32Array(count).fill(value),
        shape: [count],
        dtype: "float32",
      }),
      dtype,
    );
  const [weight, bias] = affine.map((t, k) => t ? graph.operand(t, dtype) : filled(1 - k));
  const inputs = [graph.operand(x, dtype), weight!, bias!];
  inputs.push(...statistics.map((t) => graph.operand(t, dtype)));
  return graph.emit("BatchNormalization", inputs, { epsilon });
};

interface Unfolding {
  readonly kernel: readonly [number, number];
  readonly stride: readonly number[];
  readonly padding: readonly number[];
  readonly dilation: readonly number[];
}

/** Filters that pick one element of a window each, for each channel by itself. */
function pickers(w: Written, channels: number, { kernel: [rows, columns] }: Unfolding): string {
  const area = rows * columns, data = new Float32Array(channels * area * area);
  for (let k = 0; k < channels * area; k++) data[k * area + k % area] = 1;
  const shape = [channels * area, 1, rows, columns];
  return w.graph.cast(w.graph.constant({ data, shape, dtype: "float32" }), typeOfResult(w));
}

function unfoldingAttributes({ kernel, stride, padding, dilation }: Unfolding): Attributes {
  return {
    kernel_shape: kernel,
    strides: stride,
    pads: [...padding, ...padding],
    dilations: dilation,
  };
}

/** Windows as columns: a convolution that picks their elements. */
const columns: Row = (w) => {
  const x = input(w), windows = w.call.args[1] as Unfolding, group = x.tensor.shape[1]!;
  const picked = w.graph.emit("Conv", [w.graph.name(x), pickers(w, group, windows)], {
    ...unfoldingAttributes(windows),
    group,
  });
  const shape = w.graph.shape(...shapesOfResult(w), true);
  return w.graph.emit("Reshape", [picked, shape]);
};

/** Columns added up where their windows lie. */
const folded: Row = (w) => {
  const x = input(w), windows = w.call.args[2] as Unfolding, { kernel, stride, padding } = windows;
  const size = w.call.args[1] as number[], group = x.tensor.shape[1]! / kernel[0] / kernel[1];
  const free = size.map((n, k) =>
    n + 2 * padding[k]! - (kernel[k]! - 1) * windows.dilation[k]! - 1
  );
  const places = free.map((n, k) => Math.floor(n / stride[k]!) + 1);
  const shapes = [w.call, w.other].map(({ args }) => {
    const { shape } = (args[0] as Used).tensor;
    return [shape[0]!, shape[1]!, ...places];
  });
  const image = w.graph.emit("Reshape", [
    w.graph.operand(x, typeOfResult(w)),
    w.graph.shape(shapes[0]!, shapes[1]!, true),
  ]);
  return w.graph.emit("ConvTranspose", [image, pickers(w, group, windows)], {
    ...unfoldingAttributes(windows),
    group,
    output_padding: free.map((n, k) => n % stride[k]!),
  });
};

/** Layers, by the operations that they are. */
export const layerRows: Readonly<Record<string, Row>> = {
  conv1d: convolution("Conv", 1),
  conv2d: convolution("Conv", 2),
  conv3d: convolution("Conv", 3),
  convTranspose1d: convolution("ConvTranspose", 1),
  convTranspose2d: convolution("ConvTranspose", 2),
  convTranspose3d: convolution("ConvTranspose", 3),
  maxPool2d: pooling("MaxPool"),
  avgPool2d: pooling("AveragePool"),
  adaptiveAvgPool2d: adaptive("AveragePool"),
  adaptiveMaxPool2d: adaptive("MaxPool"),
  interpolate,
  standardizedBy: standardize,
  scaledBy: standardize,
  scaleToUnit: rootMeanSquare,
  attention,
  sampled: (w) => {
    const { mode = "bilinear", paddingMode = "zeros", alignCorners = false } =
      (w.call.args[2] ?? {}) as GridSampleOptions;
    const inputs = [0, 1].map((k) => w.graph.operand(input(w, k), typeOfResult(w)));
    const attributes = { mode, padding_mode: paddingMode, align_corners: Number(alignCorners) };
    return w.graph.emit("GridSample", inputs, attributes);
  },
  columnsOf: columns,
  imagesOf: folded,
  reducedBags: bags,
  normalizedByStatistics: batchNorm,
};
