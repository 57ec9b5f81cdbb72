/** Products: matrices, convolutions and their transposes, sums by an equation. */
import { isFloat } from "../../../../../backend/internal.ts";
import type { Tensor } from "../../../../core/mod.ts";
import { einsum } from "../../../../ops/einsum.ts";
import { type Call, type Operators, typed } from "../../core/call.ts";
import { spanOf, type Windows, windowsOf } from "./windows.ts";

/** A convolution of one to three axes. */
export function convolve(
  x: Tensor,
  weight: Tensor,
  bias: Tensor | null,
  { strides, dilations, pads }: Windows,
  groups: number,
): Tensor {
  const isEven = pads.every(([before, after]) => before === after && before >= 0);
  const image = isEven ? x : x.pad([[0, 0], [0, 0], ...pads], 0);
  const padding = isEven ? pads.map(([before]) => before) : pads.map(() => 0);
  const options = { stride: strides, dilation: dilations, padding, groups, ...bias && { bias } };
  if (strides.length === 1) return image.conv1d(weight, options);
  return strides.length === 2 ? image.conv2d(weight, options) : image.conv3d(weight, options);
}

function conv(call: Call): Tensor {
  const x = call.tensor(0), weight = call.tensor(1);
  const windows = windowsOf(call, weight.shape.slice(2), x.shape.slice(2));
  return convolve(x, weight, call.optional(2), windows, call.int("group", 1));
}

function convTranspose(call: Call): Tensor {
  const x = call.tensor(0), weight = call.tensor(1), bias = call.optional(2);
  const kernel = weight.shape.slice(2), lengths = x.shape.slice(2);
  const { strides, dilations, pads } = windowsOf(call, kernel, lengths);
  const extra = call.ints("output_padding") ?? kernel.map(() => 0);
  const full = lengths.map((n, k) =>
    (n - 1) * strides[k]! + spanOf(kernel[k]!, dilations[k]!) + extra[k]!
  );
  const cuts = cutsOf(call, full, pads, lengths.map((n, k) => n * strides[k]!));
  // All that the taps reach, and the ends cut off: pads may differ in front and behind.
  const options = {
    stride: strides,
    dilation: dilations,
    groups: call.int("group", 1),
    ...bias && { bias },
  };
  const whole = kernel.length === 1
    ? x.convTranspose1d(weight, options)
    : kernel.length === 2
    ? x.convTranspose2d(weight, options)
    : x.convTranspose3d(weight, options);
  const spatial = whole.shape.slice(2);
  const missing = cuts.map(([, to], k): [number, number] => [0, Math.max(0, to - spatial[k]!)]);
  const bounds = cuts.map(([from, to]) => [from, to] as const);
  // Beyond the last tap stands the bias alone.
  const isShort = missing.some(([, n]) => n > 0);
  const grown = isShort ? lengthened(whole, missing, bias) : whole;
  return grown.slice(null, null, ...bounds);
}

function lengthened(x: Tensor, widths: [number, number][], bias: Tensor | null): Tensor {
  const all = [[0, 0], [0, 0], ...widths] as [number, number][];
  if (!bias) return x.pad(all, 0);
  const rest = bias.reshape([1, -1, ...widths.map(() => 1)]);
  return x.sub(rest).pad(all, 0).add(rest);
}

/** The part of the whole output that is kept along each axis. */
function cutsOf(
  call: Call,
  full: readonly number[],
  pads: readonly (readonly [number, number])[],
  same: readonly number[],
): [from: number, to: number][] {
  const auto = call.text("auto_pad", "NOTSET");
  const wanted = call.ints("output_shape")?.slice(-full.length) ??
    (auto.startsWith("SAME") ? same : undefined);
  return full.map((length, k) => {
    if (!wanted) return [pads[k]![0], length - pads[k]![1]];
    const total = length - wanted[k]!, less = Math.floor(total / 2);
    const before = auto === "SAME_UPPER" ? less : total - less;
    return [before, before + wanted[k]!];
  });
}

function gemm(call: Call): Tensor {
  const [a, b] = [call.tensor(0), call.tensor(1)];
  const left = call.int("transA", 0) === 1 ? a.transpose() : a;
  const right = call.int("transB", 0) === 1 ? b.transpose() : b;
  const alpha = call.float("alpha", 1), beta = call.float("beta", 1), c = call.optional(2);
  const product = matmul(left, right), scaled = alpha === 1 ? product : product.mul(alpha);
  const sum = !c || beta === 0 ? scaled : scaled.add(beta === 1 ? c : c.mul(beta));
  return sum.cast(a.dtype);
}

/** The library multiplies floats; doubles hold the sums of products of whole numbers exactly. */
export function matmul(a: Tensor, b: Tensor): Tensor {
  if (isFloat(a.dtype)) return a.matmul(b);
  return a.cast("float64").matmul(b.cast("float64")).cast(a.dtype);
}

function det(x: Tensor): Tensor {
  const n = x.shape.at(-1)!;
  if (n === 1) return x.reshape(x.shape.slice(0, -2));
  // Along the first row, by the minors: few columns are usual.
  const parts = Array.from({ length: n }, (_, k) => {
    const front = x.ndim - 2, all = new Array<null>(front).fill(null);
    const rest = x.slice(...all, [1, n]);
    const minor = rest.slice(...all, null, [0, k]), behind = rest.slice(...all, null, [k + 1, n]);
    const own = k === 0 ? behind : k === n - 1 ? minor : minorOf(minor, behind);
    const term = det(own).mul(x.slice(...all, 0, k));
    return k % 2 === 0 ? term : term.neg();
  });
  return parts.reduce((a, b) => a.add(b));
}

function minorOf(left: Tensor, right: Tensor): Tensor {
  const width = right.shape.at(-1)!,
    none = left.shape.slice(0, -1).map((): [number, number] => [0, 0]);
  const wide = left.pad([...none, [0, width]], 0);
  return wide.add(right.pad([...none, [left.shape.at(-1)!, 0]], 0));
}

/** Products, by their kinds. */
export const products: Operators = {
  Conv: conv,
  ConvTranspose: convTranspose,
  Gemm: gemm,
  MatMul: (call) => {
    const { type } = call.value(0);
    return typed(matmul(call.tensor(0), call.tensor(1)), type);
  },
  Einsum: (call) => einsum(call.text("equation", ""), ...call.tensors()),
  Det: (call) => det(call.tensor(0)),
};
