/** Operators on each element: arithmetic, comparisons, activations, casts. */
import { dtypes, isFloat } from "../../../../backend/internal.ts";
import type { TensorLike } from "../../../core/arguments.ts";
import type { Tensor } from "../../../core/mod.ts";
import { type Call, type Operators, typed } from "../core/call.ts";
import { fromFront } from "../core/places.ts";
import type { Value } from "../core/value.ts";
import { type OnnxType, typeByNumber, typeNamed } from "../format/types.ts";

/** Whole numbers wrap around at the ends of their type, also where a wider one holds them. */
export function wrapped(x: Tensor, { range, name }: OnnxType): Tensor {
  if (!range) return x;
  const [low, high] = range, mask = high - low;
  if (low === 0) return x.bitwiseAnd(mask);
  return x.sub(low).bitwiseAnd(mask).add(low).cast(typeNamed(name).dtype);
}

function unary(fn: (x: Tensor, call: Call) => Tensor) {
  return (call: Call): Tensor => fn(call.tensor(0), call);
}

/** The second operand; before version 7 it is aligned with the axes of the first from one of them on. */
function second(call: Call): Tensor {
  const b = call.tensor(1), { shape } = call.value(0);
  if (call.opset >= 7 || call.int("broadcast", 0) === 0 || !call.says("axis")) return b;
  const axis = call.int("axis", 0), from = fromFront(axis, shape.length);
  return b.reshape([...b.shape, ...shape.slice(from + b.ndim).map(() => 1)]);
}

function binary(fn: (a: Tensor, b: TensorLike, call: Call) => Tensor) {
  return (call: Call): Value => {
    const { type } = call.value(0);
    const factor = call.operand(1), b = typeof factor === "number" ? factor : second(call);
    return typed(wrapped(fn(call.tensor(0), b, call), type).cast(type.dtype), type);
  };
}

function compare(fn: (a: Tensor, b: Tensor) => Tensor) {
  return (call: Call): Tensor => fn(call.tensor(0), second(call));
}

function joined(fn: (a: Tensor, b: Tensor) => Tensor) {
  return (call: Call): Tensor => call.tensors().reduce(fn);
}

/** As C divides: whole numbers towards 0. */
function divide(a: Tensor, b: TensorLike): Tensor {
  if (typeof b === "number" || isFloat(a.dtype)) return a.div(b);
  const down = a.floorDivide(b);
  const isOff = a.lt(0).logicalXor(b.lt(0)).logicalAnd(down.mul(b).ne(a));
  return down.add(isOff.cast(down.dtype));
}

function modulo(a: Tensor, b: TensorLike, call: Call): Tensor {
  if (call.int("fmod", 0) === 0) return a.remainder(b);
  // The sign of the dividend, as C's fmod has it.
  const positive = a.abs().remainder(typeof b === "number" ? Math.abs(b) : b.abs());
  return a.lt(0).where(positive.neg(), positive);
}

/** Casts that end in a narrow type wrap; floats are cut towards 0. */
export function castTo(value: Value, type: OnnxType): Value {
  const { tensor } = value;
  if (value.type.name === type.name) return value;
  if (type.name === "bool") return typed(tensor.ne(0), type);
  // Beyond 32 bits first: what is cut off then is what a narrow type has not.
  const isNarrowed = type.range !== undefined || type.name === "uint32" ||
    !isFloat(type.dtype) && dtypes[type.dtype].bytes < 4;
  const whole = isNarrowed && isFloat(tensor.dtype) ? tensor.cast("int64") : tensor;
  if (type.name === "uint8" && whole !== tensor) {
    return typed(whole.bitwiseAnd(255).cast("uint8"), type);
  }
  return typed(wrapped(whole, type).cast(type.dtype), type);
}

function clip(call: Call): Tensor {
  const x = call.tensor(0);
  if (call.opset < 11) return x.clamp(call.float("min", -Infinity), call.float("max", Infinity));
  const bounded = call.has(1) ? x.maximum(call.operand(1)) : x;
  return call.has(2) ? bounded.minimum(call.operand(2)) : bounded;
}

function shift(call: Call): Value {
  const { type } = call.value(0), [x, by] = [call.tensor(0), call.tensor(1)];
  const isLeft = call.text("direction", "") === "LEFT";
  const shifted = isLeft ? x.bitwiseLeftShift(by) : x.bitwiseRightShift(by);
  return typed(wrapped(shifted, type).cast(type.dtype), type);
}

function gelu(x: Tensor, call: Call): Tensor {
  return x.gelu(call.text("approximate", "none") === "tanh" ? "tanh" : "none");
}

/** Before version 7 a list of slopes is one a channel. */
function prelu(call: Call): Tensor {
  const x = call.tensor(0), given = call.tensor(1), isOld = call.opset < 7 && given.ndim === 1;
  const slope = isOld ? given.reshape([-1, ...x.shape.slice(2).map(() => 1)]) : given;
  return x.lt(0).where(x.mul(slope), x);
}

/** Operators on each element, by their kinds. */
export const elementwise: Operators = {
  Add: binary((a, b) => a.add(b)),
  Sub: binary((a, b) => a.sub(b)),
  Mul: binary((a, b) => a.mul(b)),
  Div: binary(divide),
  Mod: binary(modulo),
  Pow: (call) => {
    const { type } = call.value(0), x = call.tensor(0), number = call.operand(1);
    if (typeof number === "number" && isFloat(x.dtype)) return x.pow(number);
    const exponent = second(call),
      power = isFloat(x.dtype) === isFloat(exponent.dtype)
        ? x.pow(exponent)
        : x.cast("float32").pow(exponent.cast("float32"));
    return typed(power.cast(type.dtype), type);
  },
  Max: joined((a, b) => a.maximum(b)),
  Min: joined((a, b) => a.minimum(b)),
  Sum: joined((a, b) => a.add(b)),
  Mean: (call) => call.tensors().reduce((a, b) => a.add(b)).div(call.inputs.length),
  And: compare((a, b) => a.logicalAnd(b)),
  Or: compare((a, b) => a.logicalOr(b)),
  Xor: compare((a, b) => a.logicalXor(b)),
  Equal: compare((a, b) => a.eq(b)),
  Less: compare((a, b) => a.lt(b)),
  LessOrEqual: compare((a, b) => a.le(b)),
  Greater: compare((a, b) => a.gt(b)),
  GreaterOrEqual: compare((a, b) => a.ge(b)),
  BitwiseAnd: binary((a, b) => a.bitwiseAnd(b)),
  BitwiseOr: binary((a, b) => a.bitwiseOr(b)),
  BitwiseXor: binary((a, b) => a.bitwiseXor(b)),
  BitwiseNot: (call) => {
    const { type } = call.value(0);
    return typed(wrapped(call.tensor(0).bitwiseNot(), type).cast(type.dtype), type);
  },
  BitShift: shift,
  Not: unary((x) => x.logicalNot()),
  Where: (call) => {
    const { type } = call.value(1);
    return typed(call.tensor(0).where(call.tensor(1), call.tensor(2)), type);
  },
  IsNaN: unary((x) => x.isNaN()),
  IsInf: unary((x, call) => {
    const [up, down] = [call.int("detect_positive", 1), call.int("detect_negative", 1)];
    if (up && down) return x.isInf();
    return up ? x.eq(Infinity) : down ? x.eq(-Infinity) : x.ne(x).logicalAnd(x.eq(x));
  }),
  Abs: unary((x) => x.abs()),
  Neg: unary((x) => x.neg()),
  Sign: unary((x) => x.sign().cast(x.dtype)),
  Floor: unary((x) => x.floor()),
  Ceil: unary((x) => x.ceil()),
  Round: unary((x) => x.round()),
  Reciprocal: unary((x) => x.reciprocal()),
  Sqrt: unary((x) => x.sqrt()),
  Exp: unary((x) => x.exp()),
  Log: unary((x) => x.log()),
  Erf: unary((x) => x.erf()),
  Sin: unary((x) => x.sin()),
  Cos: unary((x) => x.cos()),
  Tan: unary((x) => x.tan()),
  Asin: unary((x) => x.asin()),
  Acos: unary((x) => x.acos()),
  Atan: unary((x) => x.atan()),
  Sinh: unary((x) => x.sinh()),
  Cosh: unary((x) => x.cosh()),
  Tanh: unary((x) => x.tanh()),
  Asinh: unary((x) => x.asinh()),
  Acosh: unary((x) => x.acosh()),
  Atanh: unary((x) => x.atanh()),
  Sigmoid: unary((x) => x.sigmoid()),
  Relu: unary((x) => x.relu()),
  LeakyRelu: unary((x, call) => x.leakyRelu(call.float("alpha", 0.01))),
  PRelu: prelu,
  Elu: unary((x, call) => x.elu(call.float("alpha", 1))),
  Celu: unary((x, call) => {
    const alpha = call.float("alpha", 1);
    return x.maximum(0).add(x.div(alpha).exp().sub(1).mul(alpha).minimum(0));
  }),
  Selu: unary((x, call) => {
    const alpha = call.float("alpha", 1.6732632423543772),
      gamma = call.float("gamma", 1.0507009873554805);
    return x.gt(0).where(x, x.exp().sub(1).mul(alpha)).mul(gamma);
  }),
  Gelu: unary(gelu),
  Mish: unary((x) => x.mish()),
  Softplus: unary((x) => x.softplus()),
  Softsign: unary((x) => x.div(x.abs().add(1))),
  Swish: unary((x, call) => x.mul(x.mul(call.float("alpha", 1)).sigmoid())),
  HardSigmoid: unary((x, call) =>
    x.mul(call.float("alpha", 0.2)).add(call.float("beta", 0.5)).clamp(0, 1)
  ),
  HardSwish: unary((x) => x.mul(x.div(6).add(0.5).clamp(0, 1))),
  ThresholdedRelu: unary((x, call) => x.gt(call.float("alpha", 1)).where(x, 0)),
  Shrink: unary((x, call) => {
    const lambda = call.float("lambd", 0.5), bias = call.float("bias", 0);
    return x.lt(-lambda).where(x.add(bias), x.gt(lambda).where(x.sub(bias), 0)).cast(x.dtype);
  }),
  Clip: clip,
  Cast: (call) => castTo(call.value(0), typeByNumber(call.int("to", 0))),
  CastLike: (call) => castTo(call.value(0), call.value(1).type),
  // Nothing is dropped where nothing is learned.
  Dropout: (call) => {
    const x = call.value(0), isTraining = call.number(2, 0) !== 0;
    if (isTraining && call.number(1, 0.5) > 0) {
      throw new TypeError("it drops elements in training, which is not run");
    }
    return [x, typed(x.tensor.onesLike().cast("bool"), "bool")];
  },
  Identity: (call) => [call.inputs[0] ?? null],
};
