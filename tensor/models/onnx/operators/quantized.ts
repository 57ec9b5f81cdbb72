/**
 * Operators on whole numbers of 8 and 16 bits that stand for floats. Products are computed of floats,
 * which hold products of 8 bits and their sums exactly up to 2^24, and doubles beyond.
 */
import type { Tensor } from "../../../core/mod.ts";
import { type Call, type Operators, typed } from "../core/call.ts";
import { fromFront } from "../core/places.ts";
import type { Value } from "../core/value.ts";
import { boundsOf, type OnnxType, typeByNumber, typeNamed } from "../format/types.ts";
import { convolve } from "./images/convolutions.ts";
import { windowsOf } from "./images/windows.ts";

/** Brings a scale to the shape that broadcasts to x: one number, one an axis, or one a block. */
function spread(scale: Tensor, x: Tensor, call: Call): Tensor {
  if (scale.size === 1) return scale.reshape([]);
  const given = call.int("axis", 1), axis = fromFront(given, x.ndim);
  const block = call.int("block_size", 0);
  if (block > 0) {
    return scale.repeatInterleave(block, axis).slice(...x.shape.map((n) => [0, n] as const));
  }
  return scale.reshape(x.shape.map((_, k) => k === axis ? scale.size : 1));
}

/** Rounds to even, adds the zero point and cuts at the ends of the type. */
export function quantized(x: Tensor, scale: Tensor, zero: Tensor | null, type: OnnxType): Value {
  const whole = x.div(scale).round(), [low, high] = boundsOf(type);
  const moved = zero ? whole.add(zero.cast(x.dtype)) : whole;
  return typed(moved.clamp(low, high).cast(type.dtype), type);
}

function quantize(call: Call): Value {
  const given = call.tensor(0), scale = call.tensor(1), zero = call.optional(2);
  const number = call.int("output_dtype", 0);
  const type = zero ? call.value(2).type : number ? typeByNumber(number) : typeNamed("uint8");
  if (type.name.includes("float")) throw new TypeError(`${type.name} is no type to quantize to`);
  const x = given.cast("float32"), own = (t: Tensor) => spread(t, x, call);
  return quantized(x, own(scale.cast("float32")), zero && own(zero), type);
}

function dequantize(call: Call): Tensor {
  const x = call.tensor(0), scale = call.tensor(1), zero = call.optional(2);
  const number = call.int("output_dtype", 0),
    dtype = number ? typeByNumber(number).dtype : scale.dtype;
  const wide = x.cast("int32"), own = (t: Tensor) => spread(t, x, call);
  const moved = zero ? wide.sub(own(zero).cast("int32")) : wide;
  return moved.cast("float32").mul(own(scale).cast("float32")).cast(dtype);
}

/** Without its zero point, as numbers that products hold exactly. */
export function centered(x: Tensor, zero: Tensor | null, shape?: readonly number[]): Tensor {
  const wide = x.cast("float64");
  if (!zero) return wide;
  const own = zero.cast("float64");
  return wide.sub(
    own.size > 1 && shape ? own.reshape(shape) : own.size === 1 ? own.reshape([]) : own,
  );
}

/** One number a row of the left matrix. */
function perRow(zero: Tensor | null): Tensor | null {
  return zero && zero.ndim === 1 && zero.size > 1 ? zero.unsqueeze(-1) : zero;
}

function integerProduct(call: Call, a: number, az: number, b: number, bz: number): Tensor {
  const left = centered(call.tensor(a), perRow(call.optional(az)));
  return left.matmul(centered(call.tensor(b), call.optional(bz)));
}

function integerConvolution(call: Call, w: number, xz: number, wz: number): Tensor {
  const weight = call.tensor(w), x = centered(call.tensor(0), call.optional(xz));
  const own = centered(weight, call.optional(wz), [-1, ...weight.shape.slice(1).map(() => 1)]);
  const windows = windowsOf(call, weight.shape.slice(2), x.shape.slice(2));
  return convolve(x, own, null, windows, call.int("group", 1));
}

function quantizedProduct(call: Call): Value {
  const sums = integerProduct(call, 0, 2, 3, 5), wide = sums.cast("float64");
  const factor = call.tensor(1).cast("float64").mul(call.tensor(4).cast("float64"));
  const scaled = wide.mul(factor), out = call.tensor(6).cast("float64");
  return quantized(
    scaled,
    out.size === 1 ? out.reshape([]) : out,
    call.tensor(7),
    call.value(7).type,
  );
}

function quantizedConvolution(call: Call): Value {
  const sums = integerConvolution(call, 3, 2, 5), bias = call.optional(8);
  const channels = (t: Tensor) => t.reshape([-1, ...sums.shape.slice(2).map(() => 1)]);
  const all = bias ? sums.add(channels(bias.cast("float64"))) : sums;
  const scale = call.tensor(4).cast("float64"),
    own = scale.size > 1 ? channels(scale) : scale.reshape([]);
  const scaled = all.mul(own.mul(call.tensor(1).cast("float64").reshape([])));
  const out = call.tensor(6).cast("float64").reshape([]);
  return quantized(scaled, out, call.tensor(7).reshape([]), call.value(7).type);
}

/** Scale and zero point from the extremes, 0 among them. */
export function dynamicQuantize(call: Call): (Value | Tensor)[] {
  const x = call.tensor(0), type = typeNamed("uint8");
  const low = x.min().minimum(0), high = x.max().maximum(0);
  const scale = high.sub(low).div(255);
  const zero = low.neg().div(scale).round().clamp(0, 255);
  return [quantized(x, scale, zero, type), scale, typed(zero.cast("uint8"), type)];
}

/** Operators on quantized numbers, by their kinds. */
export const quantizedOperators: Operators = {
  QuantizeLinear: quantize,
  DequantizeLinear: dequantize,
  DynamicQuantizeLinear: dynamicQuantize,
  MatMulInteger: (call) => typed(integerProduct(call, 0, 2, 1, 3).cast("int32"), "int32"),
  ConvInteger: (call) => typed(integerConvolution(call, 1, 2, 3).cast("int32"), "int32"),
  QLinearMatMul: quantizedProduct,
  QLinearConv: quantizedConvolution,
};
