/** Attention as one operation of the graph: memory grows with the lengths, not with their product. */
import {
  backendOf,
  broadcastShapes,
  type DType,
  Node,
  type Shape,
} from "../../../backend/internal.ts";
import { gradientsBelow } from "../../autograd/autograd.ts";
import { presentHalfType } from "../../core/autocast.ts";
import { result } from "../../core/apply.ts";
import { isGradEnabled, withoutGrad } from "../../core/modes/grad_mode.ts";
import { nodeOf } from "../../core/internals.ts";
import { promote } from "../../core/rules/promotion.ts";
import { nextRandom, type RandomKey, repeatRandomKeys } from "../../core/random_state.ts";
import { expand } from "../../ops/shaping/views.ts";
import type { Tensor } from "../../core/tensor.ts";

/** Queries, keys and values. */
export interface AttentionParts {
  readonly query: Tensor;
  readonly key: Tensor;
  readonly value: Tensor;
}

/** How attention looks, all said. */
export interface FusedAttentionOptions {
  readonly mask: Tensor | null;
  readonly isCausal: boolean;
  readonly dropout: number;
  readonly scale: number;
}

/** Attention of several operations, for what the one operation does not do. */
export type ComposedAttention = (parts: AttentionParts) => Tensor;

type AttentionOp = Extract<ConstructorParameters<typeof Node>[0], { kind: "attention" }>;
type AttentionCall = AttentionOp["call"];

/** Tiles of longer rows would not fit into the local memory of small devices. */
const MAX_FEATURES = 256;

/** Fewer queries, as when a text grows word by word, are products of a vector: tiles would be empty. */
const MIN_QUERIES = 4;

/** The element type that it is computed in; null where several operations must do, or do better. */
function computedType({ query, key, value }: AttentionParts): DType | null {
  const own = promote(promote(query.dtype, key.dtype), value.dtype);
  const dtype = own === "float64" ? own : presentHalfType() ?? own;
  const { attention, minAttentionScores } = backendOf(query.device).capabilities;
  const scores = query.shape.at(-2)! * key.shape.at(-2)!;
  return attention.has(dtype) && scores >= minAttentionScores ? dtype : null;
}

/**
 * Attention as one operation; null where its operands are not of its kind: float64, very long rows, few
 * queries, no elements, a mask that learns.
 *
 * @param parts Tensors whose shapes fit each other.
 * @param options Who may look where; dropout; the scale.
 * @param composed The same by several operations: second derivatives need it.
 */
export function fusedAttention(
  parts: AttentionParts,
  options: FusedAttentionOptions,
  composed: ComposedAttention,
): Tensor | null {
  const { query, key, value } = parts, { mask } = options;
  const dtype = computedType(parts);
  const [l, e] = query.shape.slice(-2) as [number, number];
  const v = value.shape.at(-1)!;
  if (dtype === null || Math.max(e, v) > MAX_FEATURES || options.dropout >= 1) return null;
  if (mask?.requiresGrad || l < MIN_QUERIES) return null;
  const lead = leadOf(parts);
  const heads = (x: Tensor): Tensor => expand(x.cast(dtype), [...lead, ...x.shape.slice(-2)]);
  const whole = { query: heads(query), key: heads(key), value: heads(value) };
  if ([whole.query, whole.key, whole.value].some(({ size }) => size === 0)) return null;
  const draw = options.dropout > 0 ? nextRandom() : null;
  const isInterleaved = lead.length > 0 && backendOf(query.device).capabilities.interleavesHeads;
  const settings = {
    isInterleaved,
    scale: options.scale,
    isCausal: options.isCausal,
    mask: mask === null
      ? "none" as const
      : mask.dtype === "bool"
      ? "bool" as const
      : "added" as const,
    dropout: draw && { probability: options.dropout, ...draw },
  };
  const inputs = [whole.query, whole.key, whole.value];
  const masks = mask === null ? [] : [alignedMask(mask, lead.length + 2)];
  const call: AttentionCall = {
    pass: "forward",
    ...settings,
    outputs: [
      { shape: inMemory([...lead, l, v], isInterleaved), dtype },
      { shape: [...lead, l], dtype: "float32" },
    ],
  };
  const operands = [...inputs, ...masks];
  if (!isGradEnabled() || inputs.every((x) => !x.requiresGrad)) {
    return result("attention", inputs, matrixNode(call, 0, operands), null);
  }
  const sums = withoutGrad(() => result("attention", inputs, outputNode(call, 1, operands), null));
  const again = (): Tensor =>
    draw === null ? composed(whole) : repeatRandomKeys([draw as RandomKey], () => composed(whole));
  return result("attention", inputs, matrixNode(call, 0, operands), (g, output) => {
    if (isGradEnabled()) return gradientsBelow([again()], [g], inputs);
    const products = g.cast("float32").mul(output.cast("float32")).sum(-1);
    const backward: AttentionCall = {
      pass: "backward",
      ...settings,
      outputs: inputs.map(({ shape }) => ({ shape: inMemory(shape, isInterleaved), dtype })),
    };
    const read = [...inputs, g, sums, products, ...masks];
    return inputs.map(({ requiresGrad }, k) =>
      requiresGrad ? result("attention", inputs, matrixNode(backward, k, read), null) : null
    );
  });
}

/** The leading axes of the result. */
function leadOf({ query, key, value }: AttentionParts): Shape {
  return [key, value].reduce(
    (lead: Shape, x) => broadcastShapes(lead, x.shape.slice(0, -2))!,
    query.shape.slice(0, -2),
  );
}

/** A mask of so many axes; those along which it is the same are 1. */
function alignedMask(mask: Tensor, rank: number): Tensor {
  const single = mask.dtype === "float64" ? mask.cast("float32") : mask;
  return single.detach().reshape([...Array(rank - mask.ndim).fill(1), ...mask.shape]);
}

/** The shape in memory of a matrix of each head. */
function inMemory(shape: Shape, isInterleaved: boolean): Shape {
  return isInterleaved ? shape.with(-3, shape.at(-2)!).with(-2, shape.at(-3)!) : shape;
}

/** One of a call's outputs that has a matrix for each head, as it is meant. */
function matrixNode(call: AttentionCall, output: number, inputs: readonly Tensor[]): Node {
  const stored = outputNode(call, output, inputs), { shape, dtype } = stored;
  if (!call.isInterleaved) return stored;
  const axes = [...shape.keys()], last = axes.length - 1;
  const op = { kind: "permute", axes: [...axes.slice(0, -3), last - 1, last - 2, last] } as const;
  return new Node(op, [stored], inMemory(shape, true), dtype);
}

/** One of a call's outputs. */
function outputNode(call: AttentionCall, output: number, inputs: readonly Tensor[]): Node {
  const { shape, dtype } = call.outputs[output]!;
  return new Node(
    { kind: "attention", call, output },
    inputs.map(nodeOf),
    shape,
    dtype,
  );
}
