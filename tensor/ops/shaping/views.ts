/**
 * Views: the same elements in another shape or order; they cost nothing until they are read.
 *
 * This folder (`shaping/`) has views, parts and joins; it imports `elementwise/` and `core/`.
 */
import { sameShape, type Shape } from "../../../backend/internal.ts";
import { derived } from "../../core/apply.ts";
import { type ShapeError, shapeError } from "../../core/rules/errors.ts";
import { shown } from "../../core/rules/options.ts";
import { normalizeAxis } from "./axes.ts";
import { unbroadcast } from "../elementwise/elementwise.ts";
import { isTensor } from "../../core/internals.ts";
import type { Tensor } from "../../core/mod.ts";

/** The same elements in another shape; one axis may be -1 and is computed. */
export function reshape(x: Tensor, shape: Shape): Tensor {
  const from = x.shape, wanted = inferShape(x, shape);
  if (sameShape(wanted, from)) return x;
  return derived("reshape", x, { kind: "reshape" }, wanted, x.dtype, (g) => [g.reshape(from)]);
}

function inferShape(x: Tensor, shape: Shape): number[] {
  const { size } = x, open = listOf("reshape", shape).indexOf(-1);
  const fail = (why: string): ShapeError =>
    shapeError("reshape")`Cannot reshape a tensor of shape ${x.shape} to ${shape}: ${why}`;
  let rest = 1;
  for (let k = 0; k < shape.length; k++) {
    const n = shape[k]!;
    if (k === open) continue;
    if (!Number.isInteger(n) || n < 0) throw fail("axes are whole numbers, and at most one is -1");
    rest *= n;
  }
  if (open < 0 && rest !== size) throw fail(`${size} elements do not fill ${rest}`);
  if (open >= 0 && (rest === 0 || size % rest !== 0)) {
    throw fail(`${size} elements do not divide by ${rest}`);
  }
  const wanted = shape.slice();
  if (open >= 0) wanted[open] = size / rest;
  return wanted;
}

/** Checks for an array, from a caller without types. */
export function listOf<T>(op: string, value: readonly T[]): readonly T[] {
  if (Array.isArray(value)) return value;
  throw new TypeError(`Cannot ${op} by ${shown(value)}: pass an array of whole numbers`);
}

/** The axes in another order. */
export function permute(x: Tensor, axes: readonly number[]): Tensor {
  const from = x.shape;
  const order = listOf("permute", axes).map((axis) => normalizeAxis("permute", axis, from));
  const inverse = from.map((_, axis) => order.indexOf(axis));
  if (order.length !== from.length || inverse.includes(-1)) {
    throw shapeError("permute")`
      Cannot permute a tensor of shape ${x.shape} by ${shown(axes)}: name each axis once`;
  }
  if (order.every((axis, k) => axis === k)) return x;
  const shape = order.map((axis) => from[axis]!);
  return derived(
    "permute",
    x,
    { kind: "permute", axes: order },
    shape,
    x.dtype,
    (g) => [g.permute(inverse)],
  );
}

/** Repeats axes of size 1 (and adds leading ones) without copying; -1 keeps an axis. */
export function expand(x: Tensor, shape: Shape): Tensor {
  const lead = listOf("expand", shape).length - x.ndim;
  const wanted = shape.map((n, k) => n === -1 && k >= lead ? x.shape[k - lead]! : n);
  const fits = lead >= 0 && x.shape.every((n, k) => n === 1 || n === wanted[k + lead]) &&
    wanted.every((n) => Number.isInteger(n) && n >= 0);
  if (!fits) {
    throw shapeError("expand")`
      Cannot expand a tensor of shape ${x.shape} to ${shape}: only axes of size 1 grow, and new
      ones stand in front`;
  }
  if (lead === 0 && wanted.every((n, k) => n === x.shape[k])) return x;
  const from = x.shape;
  return derived("expand", x, { kind: "expand" }, wanted, x.dtype, (g) => [unbroadcast(g, from)]);
}

/** The axes from `start` to `end`, both included, joined to one; a scalar becomes [1]. */
export function flatten(x: Tensor, start = 0, end = -1): Tensor {
  const { shape, ndim } = x;
  if (ndim === 0) return reshape(x, [1]);
  const [a, b] = [normalizeAxis("flatten", start, shape), normalizeAxis("flatten", end, shape)];
  if (a > b) {
    throw shapeError("flatten")`Cannot flatten the axes ${start} to ${end} of ${shape}`;
  }
  const joined = shape.slice(a, b + 1).reduce((x, y) => x * y, 1);
  return reshape(x, [...shape.slice(0, a), joined, ...shape.slice(b + 1)]);
}

/** Two axes exchanged; by default the last two. */
export function transpose(x: Tensor, a = -2, b = -1): Tensor {
  if (x.ndim < 2 && a === -2 && b === -1) return x;
  const order = x.shape.map((_, axis) => axis), rank = Math.max(1, x.ndim);
  const [p, q] = [a, b].map((axis) => normalizeAxis("transpose", axis, x.shape, rank)) as [
    number,
    number,
  ];
  if (x.ndim === 0) return x;
  [order[p], order[q]] = [q, p];
  return permute(x, order);
}

/** Without the axes of size 1, or without one of them. */
export function squeeze(x: Tensor, axis?: number): Tensor {
  if (axis === undefined) return reshape(x, x.shape.filter((n) => n !== 1));
  const at = normalizeAxis("squeeze", axis, x.shape, Math.max(1, x.ndim));
  return x.shape[at] === 1 ? reshape(x, x.shape.filter((_, k) => k !== at)) : x;
}

/** Result of operations along an axis: one tensor, or values and where they were. */
type Along = Tensor | { values: Tensor; indices: Tensor };

/** Has an operation along an axis take a scalar as a line of one element: its axis is 0, or -1. */
export function asLine<T extends Along>(
  op: string,
  x: Tensor,
  axis: number,
  run: (line: Tensor) => T,
): T {
  normalizeAxis(op, axis, x.shape, 1);
  const out: Along = run(reshape(x, [1]));
  const scalars: Along = isTensor(out)
    ? reshape(out, [])
    : { values: reshape(out.values, []), indices: reshape(out.indices, []) };
  return scalars as T;
}

/** With a new axis of size 1 in front of an axis. */
export function unsqueeze(x: Tensor, axis: number): Tensor {
  const at = normalizeAxis("unsqueeze", axis, x.shape, x.ndim + 1);
  return reshape(x, [...x.shape.slice(0, at), 1, ...x.shape.slice(at)]);
}

/** The same value, in memory of its own. */
export function clone(x: Tensor): Tensor {
  return derived("clone", x, { kind: "copy" }, x.shape, x.dtype, (g) => [g]);
}

/** The same value, held in memory while a schedule runs. */
export function contiguous(x: Tensor): Tensor {
  return derived("contiguous", x, { kind: "copy" }, x.shape, x.dtype, (g) => [g]);
}

/** The same value, cut off from `backward`. */
export function detach(x: Tensor): Tensor {
  return derived("detach", x, { kind: "reshape" }, x.shape, x.dtype, null);
}
