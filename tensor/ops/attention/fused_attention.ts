/**
 * Attention as one operation for `backward`: in tiles, whose memory grows with the lengths, not with
 * their product; or by products of whole matrices, of which nothing stays but a number a row.
 */
import {
  backendOf,
  broadcastShapes,
  type DType,
  dtypes,
  Node,
  type Shape,
  sizeOf,
} from "../../../backend/internal.ts";
import { isHalf, presentHalfType } from "../../core/autocast.ts";
import { result } from "../../core/apply.ts";
import type { Repetition } from "../../core/grad_fn.ts";
import { isGradEnabled, withoutGrad } from "../../core/modes/grad_mode.ts";
import { nodeOf } from "../../core/internals.ts";
import { promote } from "../../core/rules/promotion.ts";
import { nextRandom, type RandomKey, repeatRandomKeys } from "../../core/random_state.ts";
import { expand } from "../shaping/views.ts";
import type { Tensor } from "../../core/mod.ts";
import { productAttention, productGradients } from "./product_attention.ts";

/** Queries, keys and values. */
export interface AttentionParts {
  readonly query: Tensor;
  readonly key: Tensor;
  readonly value: Tensor;
}

/** Options of attention, all given. */
export interface FusedAttentionOptions {
  readonly mask: Tensor | null;
  readonly isCausal: boolean;
  /** Probability to drop a weight, and the function that does. */
  readonly dropout: number;
  readonly drop: (weights: Tensor) => Tensor;
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

/**
 * Scores of a turn, where whole products take turns, for each of those that would be kept: 128 MiB on GPUs, which fill
 * one with products of heads, and of which the caches of a large one have most.
 */
const KEPT_OF_TURN = 32;

/** More scores of a head take turns: see `nn/attention/scaled_dot_product_attention.ts`. */
export const MAX_WHOLE_SCORES = 2 ** 20;

/** The element type that it is computed in. */
export function computedType({ query, key, value }: AttentionParts): DType {
  const own = promote(promote(query.dtype, key.dtype), value.dtype);
  return own === "float64" ? own : presentHalfType() ?? own;
}

/** Way to compute it: in tiles, or by whole matrices' products; null: operations as written. */
function wayFor(
  parts: AttentionParts,
  { mask }: FusedAttentionOptions,
  dtype: DType,
): "tiles" | "products" | null {
  const { query, key, value } = parts, [l, e] = query.shape.slice(-2) as [number, number];
  const s = key.shape.at(-2)!, scores = l * s;
  if (mask?.requiresGrad || l < MIN_QUERIES) return null;
  const { capabilities } = backendOf(query.device);
  if (capabilities.attention.has(dtype)) {
    const fits = Math.max(e, value.shape.at(-1)!) <= MAX_FEATURES;
    return fits && scores >= capabilities.minAttentionScores ? "tiles" : null;
  }
  const bytes = sizeOf(leadOf(parts)) * scores * dtypes[dtype].bytes;
  const isLearned = isGradEnabled() && [query, key, value].some((x) => x.requiresGrad);
  const isWide = dtype === "float32" || dtype === "float64";
  if (!isLearned || !isWide || scores > MAX_WHOLE_SCORES) return null;
  return bytes > capabilities.keptAttentionBytes ? "products" : null;
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
  const { query, key, value } = parts;
  const dtype = computedType(parts), way = wayFor(parts, options, dtype);
  if (way === null || options.dropout >= 1) return null;
  const lead = leadOf(parts);
  const heads = (x: Tensor): Tensor => expand(x.cast(dtype), [...lead, ...x.shape.slice(-2)]);
  const whole = { query: heads(query), key: heads(key), value: heads(value) };
  if ([whole.query, whole.key, whole.value].some(({ size }) => size === 0)) return null;
  const draw = options.dropout > 0 ? nextRandom() as RandomKey : null;
  const inputs = [whole.query, whole.key, whole.value];
  const isLearned = isGradEnabled() && inputs.some((x) => x.requiresGrad);
  const passes = withoutGrad(() =>
    way === "tiles"
      ? tilePasses(whole, options, draw, isLearned)
      : productPasses(whole, options, draw)
  );
  if (!isLearned) return result("attention", inputs, passes.output, null);
  const again = (): Tensor =>
    draw === null ? composed(whole) : repeatRandomKeys([draw], () => composed(whole));
  const { output: made, gradients, kept } = passes;
  // Second derivatives are those of the operations.
  const run = (): Tensor[] | null => isGradEnabled() ? [again()] : null;
  const repetition: Repetition = { run, kept: null, hasHooks: false };
  return result("attention", inputs, made, gradients, { kept: kept ?? [], repetition });
}

/** Passes of attention, forward and backward. */
interface AttentionPasses {
  /** (..., L, V). */
  readonly output: Node | Tensor;
  /** Nodes that the gradients are made from. */
  readonly kept?: readonly Node[];
  /** Those of query, key and value. */
  gradients(gradient: Tensor, output: Tensor): (Tensor | null)[];
}

/** One kernel a pass, which has scores in tiles only. */
function tilePasses(
  { query, key, value }: AttentionParts,
  { mask, scale, isCausal, dropout }: FusedAttentionOptions,
  draw: RandomKey | null,
  isLearned: boolean,
): AttentionPasses {
  const inputs = [query, key, value], lead = query.shape.slice(0, -2);
  const isInterleaved = backendOf(query.device).capabilities.interleavesHeads &&
    liesInterleaved(nodeOf(query));
  const rows = [...lead, query.shape.at(-2)!];
  const settings = {
    isInterleaved,
    scale,
    isCausal,
    mask: mask === null
      ? "none" as const
      : mask.dtype === "bool"
      ? "bool" as const
      : "added" as const,
    dropout: draw && { probability: dropout, ...draw },
    filled: null,
  };
  const masks = mask === null ? [] : [alignedMask(mask, lead.length + 2)];
  const operands = [...inputs, ...masks], { dtype } = query;
  // Where one key has nearly all the weight, gradients are what is left of the output's beyond a half's digits.
  const isRounded = isLearned && isHalf(dtype);
  const matrix = inMemory([...rows, value.shape.at(-1)!], isInterleaved);
  const call: AttentionCall = {
    pass: "forward",
    ...settings,
    outputs: [
      { shape: matrix, dtype: isRounded ? "float32" : dtype },
      { shape: rows, dtype: "float32" },
      ...isRounded ? [{ shape: matrix, dtype }] : [],
    ],
  };
  // A node that nobody lets go of would hold what it is made from.
  const stored = isRounded ? outputNode(call, 0, operands) : null;
  const sums = isLearned ? outputNode(call, 1, operands) : null;
  const whole = (node: Node): Tensor => result("attention", inputs, node, null);
  // Halves lie in memory as the kernel gives them: a product behind then reads rows side by side.
  const meant = (x: Tensor): Tensor => isInterleaved ? x.transpose(-3, -2) : x;
  return {
    output: matrixNode(call, isRounded ? 2 : 0, operands),
    kept: [stored, sums].filter((node) => node !== null),
    // Tensors of nodes are made here: as long as one is not disposed of, it would hold what it is made from.
    gradients: (g, output) => {
      const exact = stored ? meant(whole(stored)) : output.cast("float32");
      const products = g.cast("float32").mul(exact).sum(-1);
      const outputs = inputs.map(({ shape }) => ({ shape: inMemory(shape, isInterleaved), dtype }));
      const backward: AttentionCall = { pass: "backward", ...settings, outputs };
      const read = [...inputs, g, whole(sums!), products, ...masks];
      return inputs.map(({ requiresGrad }, k) =>
        requiresGrad ? result("attention", inputs, matrixNode(backward, k, read), null) : null
      );
    },
  };
}

/** Products of whole matrices: each pass has the scores, and gives their memory back. */
function productPasses(
  parts: AttentionParts,
  settings: FusedAttentionOptions,
  draw: RandomKey | null,
): AttentionPasses {
  const drop = draw &&
    ((weights: Tensor) => repeatRandomKeys([draw], () => settings.drop(weights)));
  const { keptAttentionBytes } = backendOf(parts.query.device).capabilities;
  const options = { ...settings, drop, turnBytes: KEPT_OF_TURN * keptAttentionBytes };
  return {
    output: productAttention(parts, options),
    gradients: (g) => productGradients(parts, options, g),
  };
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

/** Operations behind a projection that are looked through: turning by the position takes four. */
const MAX_BEHIND = 8;

/**
 * True for heads whose rows lie side by side, as projections give them, also where something was computed of each
 * element since: what attention gives then lies so, too, as the projection behind it reads it.
 */
function liesInterleaved(node: Node): boolean {
  for (let k = 0; k < MAX_BEHIND; k++) {
    const { op, inputs, shape } = node, rank = shape.length;
    if (op.kind === "permute") {
      return rank > 2 && op.axes[rank - 1] === rank - 1 && op.axes[rank - 2] === rank - 3 &&
        op.axes[rank - 3] === rank - 2;
    }
    if (op.kind !== "cast" && op.kind !== "elementwise") return false;
    const same = inputs.find((input) => input.size === node.size && input.shape.length === rank);
    if (same === undefined) return false;
    node = same;
  }
  return false;
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
