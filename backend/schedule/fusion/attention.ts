/** The kernel of an attention node: its operands are read where they lie, through views if need be. */
import type { AttentionCall } from "../../graph/attention.ts";
import type { AttentionKernel, HeadMatrix } from "../../kernel/attention.ts";
import { type AffineExpr, coefficient, linearize, symbol, zero } from "../../kernel/affine.ts";
import type { Node } from "../../graph/node.ts";
import { stridesOf } from "../../graph/shape.ts";
import { type Access, isView, viewAccess } from "../../kernel/view.ts";
import { inputInfo, isServed, type NodeInfo } from "./node_info.ts";

/** An operand: the value in memory behind it, and where its elements lie there. */
export interface AttentionOperand {
  readonly node: Node;
  readonly at: HeadMatrix;
}

/**
 * The operands of a call, which are in memory from now on.
 *
 * @param info One of its outputs; their inputs are the same.
 * @param readsViews Whether the backend reads operands by steps; else they lie row by row.
 */
export function attentionOperands(info: NodeInfo, readsViews: boolean): AttentionOperand[] {
  for (const input of info.inputs) input.accounted++;
  const seen = new Set<NodeInfo>();
  const rank = info.node.inputs[0]!.shape.length;
  return info.node.inputs.map((_, k) => {
    const start = inputInfo(info, k), { node, index } = sourceOf(start, readsViews ? seen : null);
    return { node, at: matrixAt(index, rank, k, start.node) };
  });
}

/** The kernel of a call that stores the given outputs. */
export function attentionKernel(
  call: AttentionCall,
  stored: readonly NodeInfo[],
  operands: readonly AttentionOperand[],
): AttentionKernel {
  const [query, key, value, ...others] = operands.map(({ at }) => at) as [
    HeadMatrix,
    HeadMatrix,
    HeadMatrix,
    ...HeadMatrix[],
  ];
  const [q, , v] = stored[0]!.node.inputs as [Node, Node, Node];
  const isForward = call.pass === "forward";
  const [gradient, logSums, products] = others;
  const [length, keyScales, valueScales] = others;
  const scales = keyScales && valueScales ? { key: keyScales, value: valueScales } : null;
  return {
    kind: "attention",
    pass: call.pass,
    inputs: operands.map(({ node }) => node.dtype),
    outputs: stored.map(({ node: { dtype, size } }) => ({ dtype, size })),
    stored: stored.map(({ node: { op } }) => op.kind === "attention" ? op.output : -1),
    lead: q.shape.slice(0, -2),
    queries: q.shape.at(-2)!,
    keys: v.shape.at(-2)!,
    features: q.shape.at(-1)!,
    valueFeatures: v.shape.at(-1)!,
    query,
    key,
    value,
    filled: call.filled && { ...call.filled, at: length!, scales },
    mask: call.mask === "none" ? null : { kind: call.mask, at: others.at(-1)! },
    backward: isForward ? null : { gradient: gradient!, logSums: logSums!, products: products! },
    scale: call.scale,
    isCausal: call.isCausal,
    isInterleaved: call.isInterleaved,
    dropout: call.dropout,
    label: isForward ? "attention" : "attention_backward",
  };
}

/** A matrix of each head, in attention of so many axes. Of one number a row the last axis is missing: no step. */
function matrixAt(index: AffineExpr, rank: number, input: number, node: Node): HeadMatrix {
  const steps = Array.from(
    { length: rank },
    (_, k) => k < node.shape.length ? coefficient(index, k) : 0,
  );
  return {
    input,
    dtype: node.dtype,
    offset: index.offset,
    lead: steps.slice(0, -2),
    row: steps.at(-2)!,
    column: steps.at(-1)!,
  };
}

/**
 * The value in memory behind an operand, and the place of its elements there; marks it as stored.
 *
 * @param seen The views that were passed through so far; null where it must not pass through any.
 */
function sourceOf(
  start: NodeInfo,
  seen: Set<NodeInfo> | null,
): { readonly node: Node; readonly index: AffineExpr } {
  const { shape } = start.node;
  let info = start;
  let access: Access = { coords: shape.map((n, k) => n === 1 ? zero : symbol(k)), bounds: [] };
  while (seen && !info.node.isLeaf && !info.materialized) {
    const { op, shape: viewed } = info.node;
    if (!isView(op)) break;
    const next = inputInfo(info, 0);
    const mapped = viewAccess(op, viewed, next.node.shape, access, shape);
    if (mapped === null || "factor" in mapped || mapped.bounds.length > 0) break;
    if (!seen.has(info) && isServed(info)) next.accounted++;
    seen.add(info);
    info = next;
    access = mapped;
  }
  if (!info.node.isLeaf) info.materialized = true;
  return { node: info.node, index: linearize(access.coords, stridesOf(info.node.shape)) };
}
