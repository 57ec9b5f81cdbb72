/**
 * Attention that a program wrote as what it is: a product with keys, a factor, a mask, softmax, a product with
 * values. Where no gradient is wanted it becomes the one operation, before any of its scores are computed. Where
 * one is, a program may ask for that of the weights, too, at any time until `backward`: there it stays as written.
 *
 * This folder (`ops/attention/`) has attention in tiles or by whole products, and what is recognised as it. It
 * imports `core/`, `shaping/` and nodes of `backend/`; layers of `nn` call it.
 */
import { broadcastShapes, type Node } from "../../../backend/internal.ts";
import { makeTensor, nodeOf } from "../../core/internals.ts";
import type { Tensor } from "../../core/mod.ts";
import { isGradEnabled } from "../../core/modes/grad_mode.ts";
import { fusedAttention, type FusedAttentionOptions } from "./fused_attention.ts";

/** Scores as they were written. */
interface WrittenScores {
  /** The product of queries and transposed keys. */
  readonly product: Node;
  readonly scale: number;
  /** True, as a bool node, where a key is hidden from a query. */
  readonly hidden: Node | null;
}

/**
 * The product of weights and values as attention; null where the weights are not those of attention, where a
 * gradient may be asked for, or where the device has nothing better than the products.
 *
 * @param weights (..., L, S); their columns meet the rows of `value`.
 * @param value (..., S, V).
 */
export function writtenAttention(weights: Tensor, value: Tensor): Tensor | null {
  if (weights.requiresGrad || isGradEnabled() && value.requiresGrad) return null;
  const scores = softmaxOf(nodeOf(weights)), found = scores && scoresFrom(scores);
  if (!found || broadcastShapes(weights.shape.slice(0, -2), value.shape.slice(0, -2)) === null) {
    return null;
  }
  const tensor = (node: Node): Tensor => makeTensor(node, weights.device);
  const [query, key] = found.product.inputs.map(tensor) as [Tensor, Tensor];
  const hidden = found.hidden && tensor(found.hidden);
  const settings: FusedAttentionOptions = {
    mask: hidden && hidden.logicalNot(),
    isCausal: false,
    scale: found.scale,
    dropout: 0,
    drop: (weights) => weights,
  };
  const parts = { query, key: key.transpose(-2, -1), value };
  const output = fusedAttention(parts, settings, () => weights.matmul(value));
  if (output === null || hidden === null) return output;
  // What is written has no weights where a query may look nowhere.
  return output.maskedFill(hidden.all(-1, { keepDims: true }), NaN);
}

/** The node behind casts, and shapes that change nothing. */
function plain(node: Node): Node {
  let at = node;
  while (!at.isLeaf) {
    const input = at.inputs[0]!;
    const isSame = at.op.kind === "cast" ||
      at.op.kind === "reshape" && `${input.shape}` === `${at.shape}`;
    if (!isSame) return at;
    at = input;
  }
  return at;
}

function isFn(node: Node, fn: string): boolean {
  return !node.isLeaf && node.op.kind === "elementwise" && node.op.fn === fn;
}

/** The value that is reduced along the last axis, which is kept; null for anything else. */
function reducedRows(node: Node, fn: string): Node | null {
  const at = !node.isLeaf && node.op.kind === "reshape" ? node.inputs[0]! : node;
  if (at.isLeaf || at.op.kind !== "reduce" || at.op.fn !== fn) return null;
  const last = at.inputs[0]!.shape.length - 1, { axes } = at.op;
  const isKept = node.shape.length === last + 1 && node.shape[last] === 1;
  return isKept && axes.length === 1 && axes[0] === last ? at.inputs[0]! : null;
}

/** The value of which softmax along the last axis is taken. */
function softmaxOf(weights: Node): Node | null {
  const quotient = plain(weights);
  if (!isFn(quotient, "div")) return null;
  const [exponential, sum] = quotient.inputs as [Node, Node];
  if (!isFn(exponential, "exp") || reducedRows(sum, "sum") !== exponential) return null;
  const difference = exponential.inputs[0]!;
  if (!isFn(difference, "sub")) return null;
  const [scores, top] = difference.inputs as [Node, Node], source = reducedRows(top, "max");
  return source !== null && plain(source) === plain(scores) ? plain(scores) : null;
}

/** The number that a node is everywhere. */
function constantOf(node: Node): number | null {
  return node.op.kind === "constant" ? node.op.value : null;
}

/** A product of matrices that was multiplied by numbers, then masked. */
function scoresFrom(scores: Node): WrittenScores | null {
  let at = scores, scale = 1, hidden: Node | null = null;
  if (isFn(at, "where") && constantOf(at.inputs[1]!) === -Infinity) {
    hidden = at.inputs[0]!;
    at = plain(at.inputs[2]!);
  }
  for (; isFn(at, "mul") || isFn(at, "div"); at = plain(at.inputs[0]!)) {
    const factor = constantOf(at.inputs[1]!);
    if (factor === null) return null;
    scale *= isFn(at, "mul") ? factor : 1 / factor;
  }
  const rank = scores.shape.length, isVisible = hidden === null || hidden.shape.length > 0;
  const isProduct = !at.isLeaf && at.op.kind === "contract" && at.op.m === 1 && at.op.n === 1 &&
    at.op.batch === rank - 2 && at.shape.length === rank;
  return isProduct && isVisible && Number.isFinite(scale) && scale !== 0
    ? { product: at, scale, hidden }
    : null;
}
