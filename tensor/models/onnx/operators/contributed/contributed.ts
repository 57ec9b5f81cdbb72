/**
 * Operators that onnxruntime adds to ONNX's, under the name com.microsoft: those that its quantization writes,
 * and those into which its optimizer joins others.
 *
 * This folder (`contributed/`) has nothing but them. It imports ONNX's own operators, of which most are made.
 */
import type { Tensor } from "../../../../core/mod.ts";
import { asValue, type Call, type Given, type Operator, type Operators } from "../../core/call.ts";
import { Value } from "../../core/value.ts";
import { elementwise } from "../elementwise.ts";
import { matmul, products } from "../images/convolutions.ts";
import { pools } from "../images/windows.ts";
import { normalizations } from "../normalization.ts";
import { centered, dynamicQuantize, quantized, quantizedOperators } from "../quantized.ts";
import { activations, recurrentLayer } from "../recurrent.ts";
import { reductions } from "../reductions.ts";
import { shapes } from "../shapes.ts";
import { contributedAttention } from "./attention.ts";
import { embeddingNorm } from "./embedding_norm.ts";
import { packedWeights } from "./packed_weights.ts";

/** One number as such, several as they are. */
function plain(x: Tensor): Tensor {
  return x.size === 1 ? x.reshape([]) : x;
}

/** A quantized input, its scale and its zero point behind it, as floats. */
function dequantized(call: Call, at: number): Tensor {
  const zero = call.optional(at + 2), x = call.tensor(at).cast("float32");
  return (zero ? x.sub(plain(zero).cast("float32")) : x).mul(plain(call.tensor(at + 1)));
}

/** A result as whole numbers, whose scale and zero point are inputs; the type is the zero point's. */
function requantized(x: Tensor, call: Call, scale: number, like: number): Value {
  const zero = call.optional(scale + 1), type = call.value(zero ? scale + 1 : like).type;
  return quantized(x, plain(call.tensor(scale)), zero && plain(zero), type);
}

/** The first result of one of ONNX's operators. */
function firstOf(operator: Operator, call: Call): Tensor {
  const given: Given | Given[] = operator(call);
  return (asValue(Array.isArray(given) ? given[0] as Given : given, call) as Value).tensor;
}

/** The same for these inputs. */
function tensorOf(operator: Operator, call: Call, inputs: readonly Tensor[], opset?: number) {
  return firstOf(operator, call.withTensors(inputs, opset));
}

/** An operator of so many quantized inputs, each with scale and zero point; those of the result follow. */
function onQuantized(operator: Operator | undefined, count: number): Operator {
  return (call) => {
    if (call.int("channels_last", 0) === 1) throw new TypeError("it has its channels last");
    const inputs = Array.from({ length: count }, (_, k) => dequantized(call, 3 * k));
    const opset = call.says("opset") ? call.int("opset", call.opset) : undefined;
    return requantized(tensorOf(operator!, call, inputs, opset), call, 3 * count, 0);
  };
}

/** The result's scale and zero point come first. */
function concatenate(call: Call): Value {
  const parts = Array.from(
    { length: (call.inputs.length - 2) / 3 },
    (_, k) => dequantized(call, 2 + 3 * k),
  );
  return requantized(tensorOf(shapes["Concat"]!, call, parts), call, 0, 2);
}

function where(call: Call): Value {
  const chosen = call.tensor(0).where(dequantized(call, 1), dequantized(call, 4));
  return requantized(chosen, call, 7, 1);
}

/** Without the scale and the zero point of a result it gives floats. */
function gemm(call: Call): Value | Tensor {
  const factor = plain(call.tensor(1)).mul(plain(call.tensor(4))).mul(call.float("alpha", 1));
  const turned = (x: Tensor, name: string): Tensor => call.int(name, 0) === 1 ? x.transpose() : x;
  const a = turned(centered(call.tensor(0), call.optional(2)), "transA");
  const b = turned(call.tensor(3), "transB"), zero = call.optional(5);
  const sums = a.matmul(centered(b, zero)), bias = call.optional(6);
  const all = bias ? sums.add(bias.cast(sums.dtype)) : sums, x = all.mul(factor).cast("float32");
  return call.has(7) ? requantized(x, call, 7, 0) : x;
}

/** A product of whole numbers, times their scales, with a bias; the inputs are numbered. */
function scaledProduct(
  call: Call,
  left: Tensor,
  scale: Tensor,
  { b, bScale, bZero, bias }: Readonly<Record<"b" | "bScale" | "bZero" | "bias", number>>,
): Tensor {
  const sums = left.matmul(centered(call.tensor(b), call.optional(bZero)));
  const factor = plain(scale).mul(plain(call.tensor(bScale))), more = call.optional(bias);
  const x = sums.mul(factor.cast(sums.dtype)).cast("float32");
  return more ? x.add(more) : x;
}

/** The whole numbers that a tensor is quantized to by its extremes, without their zero point. */
function dynamically(x: Tensor, call: Call): { whole: Tensor; scale: Tensor } {
  const [y, scale, zero] = dynamicQuantize(call.withTensors([x])) as [Value, Tensor, Value];
  return { whole: centered(y.tensor, zero.tensor), scale };
}

function dynamicProduct(call: Call): Tensor {
  const { whole, scale } = dynamically(call.tensor(0), call);
  return scaledProduct(call, whole, scale, { b: 1, bScale: 2, bZero: 3, bias: 4 });
}

function productToFloat(call: Call): Tensor {
  const left = centered(call.tensor(0), call.optional(4));
  return scaledProduct(call, left, call.tensor(2), { b: 1, bScale: 3, bZero: 5, bias: 6 });
}

/** An LSTM whose weights are whole numbers, and whose inputs and states are quantized before each product. */
const dynamicLSTM: Operator = (call) => {
  const weights = (at: number, scale: number): Tensor => {
    const x = call.tensor(at), axes = [x.shape[0]!, 1, -1], zero = call.optional(scale + 1);
    const whole = x.cast("float32");
    const moved = zero ? whole.sub(zero.cast("float32").reshape(axes)) : whole;
    // (directions, inputs, gates), the other way round than an LSTM's.
    return moved.mul(call.tensor(scale).reshape(axes)).transpose(1, 2);
  };
  const rest = Array.from({ length: 5 }, (_, k) => call.inputs[3 + k] ?? null);
  const own = call.withInputs(
    [call.value(0), Value.of(weights(1, 8)), Value.of(weights(2, 10)), ...rest],
    "LSTM",
  );
  return recurrentLayer(own, (x) => {
    const { whole, scale } = dynamically(x, call);
    return whole.cast("float32").mul(scale);
  });
};

/** A product or a convolution, what is added to it, and the activation behind it. */
function activated(operator: Operator): Operator {
  return (call) => {
    const x = firstOf(operator, call.withInputs(call.inputs.slice(0, 3))), more = call.optional(3);
    const sum = more ? x.add(more) : x, name = call.text("activation", "");
    if (name === "") return sum;
    const [first, second] = call.floats("activation_params") ?? [];
    if (name === "Clip") return sum.clamp(first!, second!);
    const activation = activations[name];
    if (!activation) throw new TypeError(`its activation "${name}" is not known`);
    return activation(first ?? call.float("activation_alpha", 0.01), second)(sum);
  };
}

function fusedProduct(call: Call): Tensor {
  const turned = (x: Tensor, name: string): Tensor => {
    // Rows come before the batches.
    const isFirst = call.int(`transBatch${name}`, 0) === 1 && x.ndim > 2;
    const rows = x.ndim - 2, axes = x.shape.map((_, k) => k);
    const own = isFirst ? x.permute([...axes.slice(1, rows + 1), 0, rows + 1]) : x;
    return call.int(`trans${name}`, 0) === 1 ? own.transpose(-2, -1) : own;
  };
  const product = matmul(turned(call.tensor(0), "A"), turned(call.tensor(1), "B"));
  return product.mul(call.float("alpha", 1));
}

/** The norm of a sum; the sum itself is the fourth result. */
function skipNorm(norm: Operator, biasAt: number): Operator {
  return (call) => {
    const bias = call.optional(biasAt), both = call.tensor(0).add(call.tensor(1));
    const sum = bias ? both.add(bias) : both;
    const factors = [2, ...biasAt > 3 ? [3] : []].flatMap((k) => call.optional(k) ?? []);
    return [tensorOf(norm, call, [sum, ...factors]), null, null, sum].slice(0, call.outputs);
  };
}

function biased(call: Call): Tensor {
  const bias = call.optional(1);
  return bias ? call.tensor(0).add(bias) : call.tensor(0);
}

/** Operators of com.microsoft, by their kinds. */
export const contributed: Operators = {
  QuantizeLinear: quantizedOperators["QuantizeLinear"]!,
  DequantizeLinear: quantizedOperators["DequantizeLinear"]!,
  QLinearAdd: onQuantized(elementwise["Add"], 2),
  QLinearMul: onQuantized(elementwise["Mul"], 2),
  QLinearSigmoid: onQuantized(elementwise["Sigmoid"], 1),
  QLinearLeakyRelu: onQuantized(elementwise["LeakyRelu"], 1),
  QLinearSoftmax: onQuantized(reductions["Softmax"], 1),
  QLinearReduceMean: onQuantized(reductions["ReduceMean"], 1),
  QLinearAveragePool: onQuantized(pools["AveragePool"], 1),
  QLinearGlobalAveragePool: onQuantized(pools["GlobalAveragePool"], 1),
  QLinearConcat: concatenate,
  QLinearWhere: where,
  QGemm: gemm,
  DynamicQuantizeMatMul: dynamicProduct,
  MatMulIntegerToFloat: productToFloat,
  DynamicQuantizeLSTM: dynamicLSTM,
  Gelu: (call) => call.tensor(0).gelu(),
  BiasGelu: (call) => biased(call).gelu(),
  FastGelu: (call) => biased(call).gelu("tanh"),
  QuickGelu: (call) => {
    const x = call.tensor(0);
    return x.mul(x.mul(call.float("alpha", 1.702)).sigmoid());
  },
  FusedMatMul: fusedProduct,
  FusedGemm: activated(products["Gemm"]!),
  FusedConv: activated(products["Conv"]!),
  ...contributedAttention,
  ...packedWeights,
  EmbedLayerNormalization: embeddingNorm,
  SimplifiedLayerNormalization: normalizations["SimplifiedLayerNormalization"]!,
  SkipLayerNormalization: skipNorm(normalizations["LayerNormalization"]!, 4),
  SkipSimplifiedLayerNormalization: skipNorm(normalizations["RMSNormalization"]!, 3),
};
