/** Weights of few bits in blocks, each with a scale and a zero point: products and tables of language models. */
import type { Tensor } from "../../../../core/mod.ts";
import type { Call, Operators } from "../../core/call.ts";
import type { NodeProto } from "../../format/schema.ts";
import { matmul } from "../images/convolutions.ts";

/** Numbers of `bits` bits out of bytes, the first in the lowest: the last axis is `8 / bits` times as long. */
function unpacked(bytes: Tensor, bits: number): Tensor {
  if (bits === 8) return bytes.cast("int32");
  const whole = bytes.cast("int32").unsqueeze(-1), count = 8 / bits;
  const shifts = whole.indexLike([count]).mul(bits);
  const parts = whole.bitwiseRightShift(shifts).bitwiseAnd(2 ** bits - 1);
  return parts.reshape([...bytes.shape.slice(0, -1), -1]);
}

/** The bits of a node's numbers; those that lie across bytes are not read. */
function bitsOf(call: Call): number {
  const bits = call.int("bits", 4);
  if (bits === 2 || bits === 4 || bits === 8) return bits;
  throw new TypeError(`its weights are of ${bits} bits: 2, 4 and 8 are run`);
}

/** (N, K) of blocks: (N, blocks, bytes), from input `at` on, with (N, blocks) scales and packed zero points. */
function weightsOf(call: Call, at: number): Tensor {
  const bits = bitsOf(call), n = call.int("N", 0), k = call.int("K", 0);
  const block = call.int("block_size", 32), blocks = Math.ceil(k / block);
  const whole = unpacked(call.tensor(at).reshape([n, blocks, -1]), bits);
  const scales = call.tensor(at + 1).reshape([n, blocks, 1]), zeros = call.optional(at + 2);
  const zero = zeros
    ? zeros.dtype === scales.dtype
      ? zeros.reshape([n, blocks, 1])
      : unpacked(zeros.reshape([n, -1]), bits).slice(null, [0, blocks]).unsqueeze(2)
    : 2 ** (bits - 1);
  const centered = typeof zero === "number" ? whole.sub(zero) : whole.cast(scales.dtype).sub(zero);
  return centered.cast(scales.dtype).mul(scales).reshape([n, -1]).slice(null, [0, k]);
}

function packedProduct(call: Call): Tensor {
  if (call.has(4)) throw new TypeError("its blocks are in another order, which is not run");
  const x = call.tensor(0), weights = weightsOf(call, 1).cast(x.dtype);
  const product = matmul(x, weights.transpose()), bias = call.optional(5);
  return bias ? product.add(bias) : product;
}

/** The node of a product as two: its weights, which follow from constants, and what is done with an input. */
export function dividedProduct(node: NodeProto): NodeProto[] {
  const [x = "", b = "", scales = "", zeros = "", order = "", bias = ""] = node.input;
  if (node.domain !== "com.microsoft" || node.op_type !== "MatMulNBits" || order) return [node];
  const weights = `${node.output[0]} weights`, product = bias ? `${node.output[0]} product` : "";
  const plain = (op_type: string, input: string[], output: string[]): NodeProto => {
    return { name: node.name ?? "", op_type, input, output, attribute: [] };
  };
  return [
    { ...node, op_type: "UnpackedNBits", input: [b, scales, zeros], output: [weights] },
    plain("MatMul", [x, weights], product ? [product] : node.output),
    ...bias ? [plain("Add", [product, bias], node.output)] : [],
  ];
}

/** Rows of a table, of which each block along its last axis has a scale. */
function packedRows(call: Call): Tensor {
  const data = call.tensor(0), places = call.tensor(1), block = call.int("block_size", 128);
  if (call.int("gather_axis", 0) !== 0) throw new TypeError("it gathers along another axis than 0");
  const isPacked = call.value(0).type.name === "uint8" && bitsOf(call) < 8, bits = bitsOf(call);
  const at = places.flatten(), rows = (t: Tensor) => t.indexSelect(0, at);
  const unpack = (t: Tensor) => isPacked ? unpacked(t, bits) : t.cast("int32");
  const whole = unpack(rows(data)), scales = rows(call.tensor(2)), zeros = call.optional(3);
  const each = (t: Tensor) => t.repeatInterleave(block, -1).slice(null, [0, whole.shape.at(-1)!]);
  const zero = zeros
    ? each(unpack(rows(zeros)).slice(null, [0, scales.shape.at(-1)!]))
    : isPacked
    ? 2 ** (bits - 1)
    : 0;
  const out = whole.sub(zero).cast(scales.dtype).mul(each(scales));
  return out.reshape([...places.shape, whole.shape.at(-1)!]);
}

/** Products with packed weights, and their rows, by their kinds. */
export const packedWeights: Operators = {
  MatMulNBits: packedProduct,
  UnpackedNBits: (call) => weightsOf(call, 0).transpose(),
  GatherBlockQuantized: packedRows,
};
