/**
 * Picking elements by indices that are themselves tensors.
 *
 * This folder (`indexing/`) imports `shaping/` and `core/`.
 */
import {
  backendOf,
  type DType,
  Node,
  type Op,
  sameShape,
  type ScatterMode,
  type Shape,
} from "../../../backend/internal.ts";
import { derived, result, sameDevice } from "../../core/apply.ts";
import { atLeastSingle, isHalf } from "../../core/autocast.ts";
import { isGradEnabled } from "../../core/modes/grad_mode.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { positionType, promote, requireInteger } from "../../core/rules/promotion.ts";
import type { Tensor } from "../../core/mod.ts";
import { normalizeAxis } from "../shaping/axes.ts";
import { asLine } from "../shaping/views.ts";
import { checkOptions, type Rules, shown, takes } from "../../core/rules/options.ts";
import type { IndexAddOptions, SortOptions, TopkOptions } from "../../core/arguments.ts";
import { nodeOf } from "../../core/internals.ts";

/** `out[..., i, ...] = x[..., indices[..., i, ...], ...]` along `axis`. */
export function gather(x: Tensor, axis: number, indices: Tensor, op = "gather"): Tensor {
  if (x.ndim === 0 && indices.ndim === 0) {
    return asLine(op, x, axis, (line) => gather(line, 0, indices.reshape([1]), op));
  }
  const at = normalizeAxis(op, axis, x.shape);
  sameDevice(op, [x, indices]);
  requireInteger(op, "indices", indices.dtype);
  const fits = indices.ndim === x.ndim &&
    indices.shape.every((n, k) => k === at || n <= x.shape[k]!);
  if (!fits) {
    throw shapeError(op, axis)`
      Cannot ${op} from a tensor of shape ${x.shape} along axis ${axis} by indices of shape
      ${indices.shape}: other axes may not be longer`;
  }
  return gatherAt(op, x, at, indices, indices.shape);
}

/** Gathers with indices that broadcast to `shape`. */
function gatherAt(op: string, x: Tensor, axis: number, indices: Tensor, shape: Shape): Tensor {
  // A view would hold the positions until the collector comes, whatever becomes of `indices`.
  const index = sameShape(indices.shape, shape) ? indices : indices.expand(shape);
  const node = new Node(
    { kind: "gather", axis, opName: op },
    [nodeOf(x), nodeOf(index)],
    shape,
    x.dtype,
  );
  // Backward needs the positions, too: whatever becomes of their tensor, their value stays.
  return result(op, [x, indices], node, (g) => [
    isSparse(x, axis, indices)
      ? sparseGradient(op, x, indices, g)
      : scatterNode(op, "add", x.zerosLike(), axis, indices, g),
    null,
  ]);
}

/** Elements of a gradient from which on the passes over it take longer than a few launches. */
const MIN_SPARSE = 2 ** 18;

/** True when a few of many rows get a gradient, on a device whose memory is what that takes. */
function isSparse(x: Tensor, axis: number, indices: Tensor): boolean {
  const { shape } = unexpanded(nodeOf(indices)), rows = x.shape[0]!;
  return axis === 0 && shape.slice(1).every((n) => n === 1) && 2 * shape[0]! <= rows &&
    shape[0]! > 0 && x.size >= MIN_SPARSE && !isGradEnabled() &&
    backendOf(x.device).capabilities.gathersGradients;
}

/**
 * The gradient of picked rows: their sums, of which each row of `x` has one, or none. What reads it
 * gathers, so that neither zeros nor the sums among them go through memory by themselves.
 */
function sparseGradient(op: string, x: Tensor, indices: Tensor, g: Tensor): Tensor {
  const count = indices.shape[0]!, columns = x.shape.slice(1).map(() => 1);
  const ids = indices.slice(null, ...columns.map((): [number, number] => [0, 1]))
    .reshape([count]);
  const all = x.indexLike([count + 1]);
  // The last of equal indices has the sum of all: row 0 is that of those which were not picked.
  const places = scatterNode(op, "set", all.zerosLike([x.shape[0]!]), 0, ids, all.slice([1, null]));
  const owners = gatherAt(op, places, 0, ids, [count]).reshape([count, ...columns]);
  const sums = scatterNode(op, "add", x.zerosLike([count + 1, ...x.shape.slice(1)]), 0, owners, g);
  return gatherAt(op, sums, 0, places.reshape([x.shape[0]!, ...columns]), x.shape);
}

/** Rows (or columns, ...) of `x` in the order of `indices`; their shape replaces the axis. */
export function indexSelect(x: Tensor, axis: number, indices: Tensor, op = "indexSelect"): Tensor {
  if (x.ndim === 0 && indices.size === 1) {
    return asLine(op, x, axis, (line) => indexSelect(line, 0, indices, op));
  }
  const at = normalizeAxis(op, axis, x.shape);
  sameDevice(op, [x, indices]);
  requireInteger(op, "indices", indices.dtype);
  const lead = x.shape.slice(0, at), tail = x.shape.slice(at + 1);
  const flat = indices.reshape([...lead.map(() => 1), indices.size, ...tail.map(() => 1)]);
  const out = gatherAt(op, x, at, flat, [...lead, indices.size, ...tail]);
  return out.reshape([...lead, ...indices.shape, ...tail]);
}

/** The rows of a table that `indices` name. */
export function embedding(x: Tensor, indices: Tensor): Tensor {
  sameDevice("compute embedding of", [x, indices]);
  return indexSelect(x, 0, indices, "embedding");
}

/** The same indices; reading what is computed from them is an error where one is none of 0 to n - 1. */
export function checkedIndices(op: string, indices: Tensor, n: number): Tensor {
  return indices.size === 0 ? indices : indexSelect(indices.indexLike([n]), 0, indices, op);
}

/** The node of {@linkcode scatterNode}; "write" changes the base itself where nobody else needs it. */
export function scatteredNode(
  op: string,
  mode: ScatterMode,
  base: Tensor,
  axis: number,
  indices: Tensor,
  source: Tensor,
): Node {
  // Where nothing is stored, the base is the result.
  const [how, from]: [Op, Node[]] = indices.size === 0 ? [{ kind: "reshape" }, [nodeOf(base)]] : [
    { kind: "scatter", axis, mode, opName: op },
    [nodeOf(base), unexpanded(nodeOf(indices)), nodeOf(source)],
  ];
  return new Node(how, from, base.shape, base.dtype);
}

/** A copy of `base` with `source` added or stored; the indices broadcast to its shape. */
export function scatterNode(
  op: string,
  mode: "add" | "set",
  base: Tensor,
  axis: number,
  indices: Tensor,
  source: Tensor,
): Tensor {
  if (mode === "add" && isHalf(base.dtype)) {
    // Sums of half types lose every further term once they are 2,048 (256) times as large.
    const [wide, terms] = [atLeastSingle(base), atLeastSingle(source)];
    return scatterNode(op, mode, wide, axis, indices, terms).cast(base.dtype);
  }
  const node = scatteredNode(op, mode, base, axis, indices, source);
  return result(op, [base, source, indices], node, (g) => [
    // Zeros that are added look at the indices: this gradient may be all that is read.
    scatterNode(op, mode, g, axis, indices, source.zerosLike()),
    gatherAt(op, g, axis, indices, source.shape),
    null,
  ]);
}

/** Indices before they were broadcast: lines that share them are scattered together. */
function unexpanded(indices: Node): Node {
  let node = indices;
  while (node.op.kind === "expand" && node.storage === null) {
    const [source] = node.inputs;
    if (source!.shape.length !== node.shape.length) break;
    node = source!;
  }
  return node;
}

function scattered(
  mode: "add" | "set",
  x: Tensor,
  axis: number,
  indices: Tensor,
  source: Tensor,
): Tensor {
  const op = mode === "add" ? "scatterAdd" : "scatter";
  if (x.ndim === 0 && indices.ndim === 0 && source.ndim === 0) {
    const [index, value] = [indices, source].map((each) => each.reshape([1])) as [Tensor, Tensor];
    return asLine(op, x, axis, (line) => scattered(mode, line, 0, index, value));
  }
  const at = normalizeAxis(op, axis, x.shape);
  sameDevice(op, [x, indices, source]);
  requireInteger(op, "indices", indices.dtype);
  const fits = indices.ndim === x.ndim && source.ndim === x.ndim &&
    indices.shape.every((n, k) => n <= source.shape[k]! && (k === at || n <= x.shape[k]!));
  if (!fits) {
    throw shapeError(op, axis)`
      Cannot ${op} a source of shape ${source.shape} by indices of shape ${indices.shape} into a
      tensor of shape ${x.shape} along axis ${axis}`;
  }
  const dtype: DType = promote(x.dtype, source.dtype);
  const values = source.slice(...indices.shape.map((n): [number, number] => [0, n]));
  return scatterNode(op, mode, x.cast(dtype), at, indices, values.cast(dtype));
}

/** A copy of `x` with `source` added at `indices` along `axis`; equal indices add up, in order. */
export function scatterAdd(x: Tensor, axis: number, indices: Tensor, source: Tensor): Tensor {
  return scattered("add", x, axis, indices, source);
}

/** A copy of `x` with `source` stored at `indices` along `axis`; of equal indices the last wins. */
export function scatter(x: Tensor, axis: number, indices: Tensor, source: Tensor): Tensor {
  return scattered("set", x, axis, indices, source);
}

const addRules: Rules<IndexAddOptions> = { alpha: takes.finite };

/** A copy of `x` with slices of `source` added at `indices` along `axis`; equal indices add up, in order. */
export function indexAdd(
  x: Tensor,
  axis: number,
  indices: Tensor,
  source: Tensor,
  options: IndexAddOptions = {},
): Tensor {
  checkOptions("indexAdd", options, addRules);
  const op = "indexAdd", { alpha = 1 } = options, at = normalizeAxis(op, axis, x.shape);
  sameDevice(op, [x, indices, source]);
  const fits = indices.ndim === 1 && sameShape(source.shape, x.shape.with(at, indices.size));
  if (!fits) {
    throw shapeError("indexAdd", axis)`
      Cannot indexAdd a source of shape ${source.shape} at indices of shape ${indices.shape} into
      a tensor of shape ${x.shape} along axis ${axis}: pass a vector of indices, and a slice for
      each`;
  }
  const line = indices.reshape(x.shape.map((_, k) => k === at ? indices.size : 1));
  const slices = alpha === 1 ? source : source.mul(alpha);
  return scatterAdd(x, at, line.expand(source.shape), slices);
}

/** 1 where the class is, else 0, along a new last axis. */
export function oneHot(x: Tensor, classes: number): Tensor {
  requireInteger("oneHot", "classes", x.dtype);
  if (!Number.isInteger(classes) || classes < 1) {
    throw new RangeError(
      `Cannot compute oneHot with ${shown(classes)} classes: pass a whole number of at least 1`,
    );
  }
  // The gather checks the range: a class beyond it is an error, not a row of zeros.
  const eye = x.indexLike([classes]).unsqueeze(1).eq(x.indexLike([classes]).unsqueeze(0));
  return indexSelect(eye.cast("int32"), 0, x, "oneHot");
}

const sortRules: Rules<SortOptions> = { descending: takes.bool };

/** Indices that sort an axis; equal elements keep their order, NaN comes last. */
export function argsort(x: Tensor, axis = -1, options: SortOptions = {}, op = "argsort"): Tensor {
  checkOptions(op, options, sortRules);
  const { descending = false } = options;
  if (x.ndim === 0) return asLine(op, x, axis, (line) => argsort(line, 0, options));
  const at = normalizeAxis("argsort", axis, x.shape);
  return orderOf(x, at, descending, x.shape[at]!);
}

/** The first `count` of the indices that sort an axis. */
function orderOf(x: Tensor, axis: number, descending: boolean, count: number): Tensor {
  const last = x.ndim - 1;
  const moved = axis === last ? x : x.transpose(axis, last);
  const out = derived(
    "argsort",
    moved.detach(),
    { kind: "argsort", descending },
    [...moved.shape.slice(0, -1), count],
    positionType(moved.shape[last]!),
    null,
  );
  return axis === last ? out : out.transpose(axis, last);
}

/** The elements of an axis in order, and where they were. */
export function sort(
  x: Tensor,
  axis = -1,
  options: SortOptions = {},
): { values: Tensor; indices: Tensor } {
  const indices = argsort(x, axis, options, "sort").contiguous();
  if (x.ndim === 0) return { values: x.reshape([]), indices };
  return { values: gather(x, axis, indices), indices };
}

/** The first `k` of the indices that sort an axis, found in one walk where the backend does that. */
function firstPlaces(x: Tensor, axis: number, descending: boolean, k: number): Tensor {
  const { maxPlaces, minRows, maxLength } = backendOf(x.device).capabilities.selection;
  const length = x.shape[axis]!, isShort = length <= maxLength || x.size / length >= minRows;
  if (k > 0 && k <= maxPlaces && isShort) return orderOf(x, axis, descending, k);
  return argsort(x, axis, { descending }).slice(
    ...x.shape.map((_, d): [number, number] | null => d === axis ? [0, k] : null),
  );
}

const topkRules: Rules<TopkOptions> = { largest: takes.bool };

/** The `k` largest (or smallest) elements of an axis, in order, and where they were. */
export function topk(
  x: Tensor,
  k: number,
  axis = -1,
  options: TopkOptions = {},
): { values: Tensor; indices: Tensor } {
  checkOptions("topk", options, topkRules);
  const { largest = true } = options;
  if (x.ndim === 0 && k !== 0) return asLine("topk", x, axis, (line) => topk(line, k, 0, options));
  const at = normalizeAxis("topk", axis, x.shape);
  if (!Number.isInteger(k) || k < 0 || k > x.shape[at]!) {
    throw new RangeError(
      `Cannot compute topk with k ${shown(k)} of ${
        x.shape[at]
      } elements: pass a whole number from 0 to ${x.shape[at]}`,
    );
  }
  const indices = firstPlaces(x, at, largest, k).contiguous();
  return { values: gather(x, at, indices), indices };
}
