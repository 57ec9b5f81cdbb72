/** Attention of queries to keys, as one function: what {@linkcode MultiheadAttention} computes for its heads. */
import { compute } from "../../core/operations.ts";
import { broadcastShapes, isFloat } from "../../../backend/internal.ts";
import { aTensor, sameDevice } from "../../core/apply.ts";
import { checkpoint } from "../../autograd/checkpoint.ts";
import { isHalf, withoutAutocast } from "../../core/autocast.ts";
import { dtypeError, type ShapeError, shapeError } from "../../core/rules/errors.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";
import type { SliceRange } from "../../core/arguments.ts";
import { Tensor } from "../../class/tensor.ts";
import { dropout } from "../layers/dropout.ts";
import {
  computedType,
  fusedAttention,
  MAX_WHOLE_SCORES,
} from "../../ops/attention/fused_attention.ts";
import { laterKeys } from "../../ops/attention/product_attention.ts";

/** Options of {@linkcode scaledDotProductAttention}. */
export interface ScaledDotProductAttentionOptions {
  /** Broadcasts to (..., L, S): bool, true where a query may look; or numbers to add to the scores. */
  mask?: Tensor;
  /** True when query i may look at the keys 0 to i only; false by default. */
  isCausal?: boolean;
  /** Probability to drop a weight; default 0. It drops whenever it is given. */
  dropout?: number;
  /** Factor of the scores; default `1 / sqrt(E)`. */
  scale?: number;
}

const rules: Rules<ScaledDotProductAttentionOptions> = {
  mask: aTensor(),
  isCausal: takes.bool,
  dropout: takes.share,
  scale: takes.finite,
};

/** So many scores a head are there at a time then. */
const SCORES_PER_TURN = 2 ** 18;

/**
 * `softmax(query keyᵀ * scale) value`: queries (..., L, E) look at keys (..., S, E) and give means of
 * their values, (..., L, V). Leading axes broadcast. A query that may look nowhere gives zeros.
 *
 * It is one operation: scores are computed in tiles, so memory grows with L and S, not with their product,
 * and `backward` computes them again. Elements of float64, rows of more than 256 features and masks that
 * require a gradient take several operations.
 *
 * @param query (..., L, E).
 * @param key (..., S, E).
 * @param value (..., S, V).
 * @param options Who may look where; dropout; the scale.
 * @throws {ShapeError} When shapes do not fit each other.
 * @throws {DTypeError} When the elements are not floating point, or the mask is neither that nor bool.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const x = Tensor.randn([2, 4, 10, 8]);
 * const y = nn.scaledDotProductAttention(x, x, x, { isCausal: true });
 * assertEquals(y.shape, [2, 4, 10, 8]);
 * // The first query sees the first key only.
 * assertEquals(await y.slice(0, 0, 0).toArray(), await x.slice(0, 0, 0).toArray());
 * ```
 */
export function scaledDotProductAttention(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  options: ScaledDotProductAttentionOptions = {},
): Tensor {
  checkOptions("attend", options, rules);
  check(query, key, value, options.mask);
  return compute(attention, query, key, value, options);
}

/** Attention as one operation, where it can be computed so. */
function attention(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  options: ScaledDotProductAttentionOptions,
): Tensor {
  const parts = { query, key, value };
  const { mask = null, isCausal = false, scale = 1 / Math.sqrt(query.shape.at(-1)!) } = options;
  const { dropout: share = 0 } = options;
  const drop = (weights: Tensor): Tensor => dropout(weights, share);
  const settings = { mask, isCausal, scale, dropout: share, drop };
  return fusedAttention(parts, settings, (parts) => composedAttention(parts, options)) ??
    composedAttention(parts, options);
}

/** The same by several operations: for float64, masks that learn, second derivatives. */
function composedAttention(parts: Parts, options: ScaledDotProductAttentionOptions): Tensor {
  const { query, key, value } = parts;
  const l = query.shape.at(-2)!, s = key.shape.at(-2)!;
  // With more, queries take turns, and `backward` computes their scores again.
  if (l * s <= MAX_WHOLE_SCORES) return attend(parts, options, 0);
  const rows = Math.max(1, Math.floor(SCORES_PER_TURN / s));
  const turns = Array.from({ length: Math.ceil(l / rows) }, (_, turn) => turn * rows);
  return Tensor.concat(
    turns.map((start) => {
      const { mask } = options;
      const queries = rowsOf(query, start, Math.min(l, start + rows));
      const visible = mask && (mask.ndim < 2 || mask.shape.at(-2) === 1)
        ? mask
        : mask && rowsOf(mask, start, Math.min(l, start + rows));
      return checkpoint(
        (query: Tensor, key: Tensor, value: Tensor, mask?: Tensor) =>
          attend({ query, key, value }, mask ? { ...options, mask } : options, start),
        queries,
        key,
        value,
        visible,
      );
    }),
    -2,
  );
}

/** Rows `start` to `end` of the last matrix. */
function rowsOf(x: Tensor, start: number, end: number): Tensor {
  return x.slice(...x.shape.map((_, k): SliceRange => k === x.ndim - 2 ? [start, end] : null));
}

interface Parts {
  readonly query: Tensor;
  readonly key: Tensor;
  readonly value: Tensor;
}

/** Attention of queries of which the first has the position `start`. */
function attend(
  parts: Parts,
  options: ScaledDotProductAttentionOptions,
  start: number,
): Tensor {
  return inSingle(parts, (query, key, value) => {
    const weights = attentionWeights(query, key, options, start);
    const used = options.dropout ? dropout(weights, options.dropout) : weights;
    return used.matmul(value);
  });
}

/** Computes with the numbers of a half type in float32, as tiles do: a row's gradients are small differences. */
function inSingle(
  parts: Parts,
  fn: (query: Tensor, key: Tensor, value: Tensor) => Tensor,
): Tensor {
  const { query, key, value } = parts, dtype = computedType(parts);
  if (!isHalf(dtype)) return fn(query, key, value);
  const single = (x: Tensor): Tensor => x.cast(dtype).cast("float32");
  return withoutAutocast(() => fn(single(query), single(key), single(value))).cast(dtype);
}

/** Weights of queries, (..., L, S): rows sum to 1, or are 0 where a query may look nowhere. */
export function attentionWeights(
  query: Tensor,
  key: Tensor,
  { mask, isCausal, scale = 1 / Math.sqrt(query.shape.at(-1)!) }: ScaledDotProductAttentionOptions,
  start = 0,
): Tensor {
  return inSingle({ query, key, value: key }, (query, key) => {
    const scores = query.matmul(key.transpose()).mul(scale);
    return weightsOf(scores, isCausal ? laterKeys(scores, start) : null, mask);
  });
}

function weightsOf(scores: Tensor, later: Tensor | null, mask?: Tensor): Tensor {
  if (!mask) return (later ? scores.maskedFill(later, -Infinity) : scores).softmax(-1);
  if (mask.dtype === "bool") {
    const closed = later ? mask.logicalNot().logicalOr(later) : mask.logicalNot();
    return zeroWhere(allClosed(closed), scores.maskedFill(closed, -Infinity).softmax(-1));
  }
  const added = later
    ? mask.cast(scores.dtype).maskedFill(later, -Infinity)
    : mask.cast(scores.dtype);
  const dead = added.detach().eq(-Infinity).all(-1, { keepDims: true });
  // Their scores must stay finite, so that no gradient is NaN.
  const open = dead.where(0, scores.add(added));
  return zeroWhere(dead, open.softmax(-1));
}

function allClosed(closed: Tensor): Tensor {
  return closed.ndim === 0 ? closed : closed.all(-1, { keepDims: true });
}

function zeroWhere(dead: Tensor, weights: Tensor): Tensor {
  return weights.maskedFill(dead, 0);
}

function check(query: Tensor, key: Tensor, value: Tensor, mask?: Tensor): void {
  sameDevice("attend", [query, key, value, ...(mask ? [mask] : [])]);
  for (const { dtype } of [query, key, value]) {
    if (isFloat(dtype)) continue;
    throw dtypeError("scaledDotProductAttention")`
      Cannot attend with tensors of ${dtype}: cast them with .cast("float32")`;
  }
  const fail = (why: string): ShapeError =>
    shapeError("scaledDotProductAttention")`
      Cannot attend with a query of shape ${query.shape}, keys of ${key.shape} and values of
      ${value.shape}: ${why}`;
  if ([query, key, value].some((x) => x.ndim < 2)) throw fail("pass (..., length, features)");
  if (query.shape.at(-1) !== key.shape.at(-1)) throw fail("queries and keys are of other lengths");
  if (key.shape.at(-2) !== value.shape.at(-2)) throw fail("each key must have a value");
  const lead = [key, value].reduce(
    (shape: readonly number[] | null, x) => shape && broadcastShapes(shape, x.shape.slice(0, -2)),
    query.shape.slice(0, -2),
  );
  if (!lead) throw fail("their leading axes do not broadcast");
  if (mask) checkMask(mask, [...lead, query.shape.at(-2)!, key.shape.at(-2)!]);
}

function checkMask(mask: Tensor, scores: readonly number[]): void {
  if (mask.dtype !== "bool" && !isFloat(mask.dtype)) {
    throw dtypeError("scaledDotProductAttention")`
      Cannot attend with a mask of ${mask.dtype}: pass bool, true where a query may look, or
      floating point numbers to add`;
  }
  const shape = broadcastShapes(mask.shape, scores);
  if (shape && `${shape}` === `${scores}`) return;
  throw shapeError("scaledDotProductAttention")`
    Cannot attend with a mask of shape ${mask.shape}: it must broadcast to ${scores}`;
}
