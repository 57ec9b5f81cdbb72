/** Elements picked by truth values and by index tensors on several axes, and put back there. */
import { sizeOf } from "../../../backend/internal.ts";
import { requireTensor, result, sameDevice } from "../../core/apply.ts";
import { dtypeError, shapeError } from "../../core/rules/errors.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import {
  checkOptions,
  phraseOf,
  requireValue,
  type Rules,
  shown,
  takes,
} from "../../core/rules/options.ts";
import { positionType, requireInteger } from "../../core/rules/promotion.ts";
import type { Tensor } from "../../core/mod.ts";
import { normalizeAxis } from "../shaping/axes.ts";
import { checkedIndices, indexSelect, scatterNode } from "./indexing.ts";
import { repeatEach, stack } from "../shaping/joining.ts";
import { commonShape, lastOf, runningCount, searchsorted } from "./searching.ts";
import { readSize, type Sized, sizedLater, sizedNow } from "./sized.ts";
import type { Index, IndexPutOptions, RepeatOptions } from "../../core/arguments.ts";

/** The true elements of a vector: where they are, and how many there are up to each element. */
export interface Hits {
  /** Ascending. */
  readonly positions: Tensor;
  readonly counts: Tensor;
}

/** An operation on the true elements of a vector, up to where their number is read. */
export function counted<R>(
  op: string,
  remedy: string,
  mask: Tensor,
  finish: (hits: Hits) => R,
): Sized<R> {
  const counts = withoutGrad(() => runningCount(mask.detach()).realize());
  return {
    op,
    remedy,
    size: mask.size === 0 ? null : withoutGrad(() => lastOf(counts)),
    finish: (count) => {
      const positions = withoutGrad(() =>
        searchsorted(counts, counts.indexLike([count]).add(1)).realize()
      );
      return finish({ positions, counts });
    },
  };
}

/** The coordinates of the elements that are not zero, (count, axes). */
function nonzeroOf(x: Tensor): Sized<Tensor> {
  const { shape } = x;
  const isHit = withoutGrad(() => (x.dtype === "bool" ? x : x.ne(0)).detach().reshape([x.size]));
  const remedy = "use where(), or sum() of x.ne(0) for their number";
  return counted("nonzero", remedy, isHit, ({ positions }) => {
    if (shape.length === 0) return positions.zerosLike([positions.size, 0]);
    return withoutGrad(() => stack(coordinatesOf(positions, shape), 1));
  });
}

export const nonzero = sizedLater(nonzeroOf), nonzeroSync = sizedNow(nonzeroOf);

/** Row-major positions as one vector an axis. */
function coordinatesOf(positions: Tensor, shape: readonly number[]): Tensor[] {
  return shape.map((n, axis) => {
    const stride = Math.max(1, sizeOf(shape.slice(axis + 1)));
    return positions.floorDivide(stride).remainder(Math.max(1, n));
  });
}

function requireMask(op: string, mask: Tensor): void {
  requireTensor(op, mask);
  if (mask.dtype === "bool") return;
  throw dtypeError(op)`Cannot ${op} by a mask of ${mask.dtype}: make it bool with .ne(0)`;
}

/** The elements where the mask is true, in row-major order. */
function maskedSelectOf(x: Tensor, mask: Tensor): Sized<Tensor> {
  requireMask("maskedSelect", mask);
  sameDevice("maskedSelect", [x, mask]);
  const shape = commonShape("maskedSelect", [x, mask]), n = sizeOf(shape);
  const isHit = mask.detach().expand(shape).reshape([n]), flat = x.expand(shape).reshape([n]);
  const remedy = "use Tensor.where(mask, x, 0), or pick a fixed number with topk()";
  return counted("maskedSelect", remedy, isHit, ({ positions, counts }) => {
    const picked = withoutGrad(() => indexSelect(flat.detach(), 0, positions));
    // Positions are distinct and ascending, so each element finds its gradient by its own count. As an
    // input, the counts stay for backward and no longer.
    return result("maskedSelect", [flat, isHit, counts], picked, (g) => {
      const spread = g.size === 0
        ? flat.zerosLike()
        : isHit.where(indexSelect(g, 0, counts.sub(1).maximum(0)), 0);
      return [spread, null, null];
    });
  });
}

export const maskedSelect = sizedNow(maskedSelectOf);
export const maskedSelectAsync = sizedLater(maskedSelectOf);

/** An index on several axes, as one on the rows of a matrix. */
interface Located {
  /** The indexed axes as rows, the others as columns. */
  readonly matrix: Tensor;
  readonly rows: Tensor;
  /** The shape of what is picked, with the shape of the indices in front. */
  readonly shape: readonly number[];
  /** Order of the axes of `shape` in the result. */
  readonly order: readonly number[];
  /** Axes of the tensor brought to front. */
  readonly front: readonly number[];
}

/** One integer tensor an axis: masks become the positions of what is true. */
function integersOf(op: string, x: Tensor, indices: readonly Index[]): Index[] {
  requireValue(op, "indices", indices, takes.list);
  const list = indices.flatMap((index): Index[] => {
    if (index === null) return [null];
    requireTensor(op, index, ", or null for all of an axis");
    if (index.dtype !== "bool") return [requireIntegers(op, index)];
    if (index.ndim === 0) {
      throw shapeError(op)`Cannot ${op} by a bool scalar: a mask has one axis at least`;
    }
    return nonzeroSync(index).unbind(1);
  });
  let axis = 0;
  for (const index of indices) {
    const sizes = index?.dtype === "bool" ? index.shape : [x.shape[axis]];
    if (sizes.some((n, k) => n !== x.shape[axis + k])) {
      throw shapeError(op, axis)`
        Cannot ${op} a tensor of shape ${x.shape} by a mask of shape ${index!.shape} from axis
        ${axis} on: their sizes differ`;
    }
    axis += sizes.length;
  }
  if (list.length <= x.ndim) return list;
  throw shapeError(op)`
    Cannot ${op} a tensor of shape ${x.shape} by ${list.length} indices: it has ${x.ndim} axes`;
}

function requireIntegers(op: string, index: Tensor): Tensor {
  requireInteger(op, "indices", index.dtype);
  return index;
}

function locate(op: string, x: Tensor, indices: readonly Index[]): Located | null {
  const list = integersOf(op, x, indices);
  const axes = list.flatMap((index, axis) => index === null ? [] : [axis]);
  const tensors = list.filter((index) => index !== null);
  if (axes.length === 0) return null;
  sameDevice(op, [x, ...tensors]);
  const common = commonShape(op, tensors);
  const rest = x.shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis));
  const sizes = axes.map((axis) => x.shape[axis]!), tail = rest.map((axis) => x.shape[axis]!);
  const front = [...axes, ...rest];
  const matrix = x.permute(front).reshape([sizeOf(sizes), sizeOf(tail)]);
  const rows = withoutGrad(() =>
    tensors.map((index, k) =>
      rowsOf(op, index, sizes[k]!).mul(sizeOf(sizes.slice(k + 1))).expand(common)
    ).reduce((a, b) => a.add(b)).reshape([sizeOf(common)])
  );
  // Indices side by side leave their axes where they were, others come to the front.
  const isTogether = axes.every((axis, k) => axis === axes[0]! + k);
  const lead = isTogether ? rest.filter((axis) => axis < axes[0]!).length : 0;
  const picked = common.map((_, k) => k), others = tail.map((_, k) => common.length + k);
  const order = [...others.slice(0, lead), ...picked, ...others.slice(lead)];
  return { matrix, rows, shape: [...common, ...tail], order, front };
}

/** Positions along an axis of `n`, counted from its beginning; the kernel checks that they exist. */
function rowsOf(op: string, index: Tensor, n: number): Tensor {
  const dtype = positionType(n);
  const wide = index.dtype === "int64" ? index : index.cast(dtype);
  // What no axis has stays as it was given, for the error.
  const isFromEnd = wide.lt(0).logicalAnd(wide.ge(-n));
  const positive = isFromEnd.where(wide.add(n), wide);
  return checkedIndices(op, positive, n).cast(dtype);
}

function inverse(order: readonly number[]): number[] {
  return order.map((_, k) => order.indexOf(k));
}

/** NumPy's advanced indexing. */
export function index(x: Tensor, indices: readonly Index[]): Tensor {
  const located = locate("index", x, indices);
  if (!located) return x.reshape(x.shape);
  const { matrix, rows, shape, order } = located;
  return indexSelect(matrix, 0, rows, "index").reshape(shape).permute(order);
}

const putRules: Rules<IndexPutOptions> = { accumulate: takes.bool };

/** A copy of `x` with values where `index` would read. */
export function indexPut(
  x: Tensor,
  indices: readonly Index[],
  values: Tensor | number,
  options: IndexPutOptions = {},
): Tensor {
  checkOptions("indexPut", options, putRules);
  if (typeof values !== "number") requireTensor("indexPut", values, " or a number");
  const located = locate("indexPut", x, indices);
  const source = (typeof values === "number" ? x.fullLike(values, []) : values).cast(x.dtype);
  if (!located) return options.accumulate ? x.add(source) : source.expand(x.shape);
  const { matrix, rows, shape, order, front } = located;
  const placed = source.expand(order.map((axis) => shape[axis]!)).permute(inverse(order));
  const columns = matrix.shape[1]!;
  const mode = options.accumulate ? "add" : "set";
  const out = scatterNode(
    "indexPut",
    mode,
    matrix,
    0,
    rows.reshape([rows.size, 1]),
    placed.reshape([rows.size, columns]),
  );
  return out.reshape(front.map((axis) => x.shape[axis]!)).permute(inverse(front));
}

const repeatRules: Rules<RepeatOptions> = { outputSize: takes.whole };

/** Every element along an axis several times in a row. */
export function repeatInterleave(
  x: Tensor,
  repeats: Tensor | number,
  axis?: number,
  options: RepeatOptions = {},
): Tensor {
  const op = "repeatInterleave";
  checkOptions(op, options, repeatRules);
  if (typeof repeats === "number") {
    requireValue(op, "repeats", repeats, takes.whole);
    return repeatEach(x, repeats, axis);
  }
  requireTensor(op, repeats, " or a number");
  requireInteger(op, "repeats", repeats.dtype);
  if (axis === undefined) return repeatInterleave(x.reshape([x.size]), repeats, 0, options);
  const at = normalizeAxis(op, axis, x.shape), n = x.shape[at]!;
  if (repeats.size !== 1 && (repeats.ndim !== 1 || repeats.size !== n)) {
    throw shapeError(op)`
      Cannot ${op} an axis of ${n} elements by repeats of shape ${repeats.shape}: pass one number,
      or one for each element`;
  }
  const each = withoutGrad(() => repeats.detach().reshape([repeats.size]).expand([n]));
  const ends = withoutGrad(() => each.cumsum(0));
  const size = options.outputSize ?? (n === 0 ? 0 : sizeOfRepeats(each, ends));
  const out = indexSelect(x, at, searchsorted(ends, x.indexLike([size]), { right: true }), op);
  ends.dispose();
  return out;
}

/** The sum of repeats, none of which may be negative. */
function sizeOfRepeats(each: Tensor, ends: Tensor): number {
  const op = "repeatInterleave", remedy = "pass { outputSize }";
  const least = readSize(op, each.min(), remedy);
  if (least >= 0) return readSize(op, lastOf(ends.realize()), remedy);
  throw new RangeError(
    `Cannot ${phraseOf(op)} by ${shown(least)}: pass whole numbers of at least 0`,
  );
}
