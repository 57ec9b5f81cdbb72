/** Axes as users write them: from the front or, negative, from the back. */
import type { Shape } from "../../../backend/internal.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { shown } from "../../core/rules/options.ts";
import type { Axes, Sizes } from "../../core/arguments.ts";

/** The axis counted from the front. @throws {ShapeError} When there is no such axis. */
export function normalizeAxis(op: string, axis: number, shape: Shape, rank = shape.length): number {
  const at = Number.isInteger(axis) ? axis < 0 ? axis + rank : axis : -1;
  if (at >= 0 && at < rank) return at;
  throw shapeError(op, axis)`
    Cannot ${op} along axis ${shown(axis)}: a tensor of shape ${shape} has
    ${rank === 0 ? "no axes" : `the axes ${-rank} to ${rank - 1}`}`;
}

/** `count` axes from `start` on. */
export function axesFrom(start: number, count: number): number[] {
  const axes = new Array<number>(count);
  for (let k = 0; k < count; k++) axes[k] = start + k;
  return axes;
}

/**
 * Distinct axes in ascending order; all of them where none is named. A scalar has none, and takes 0
 * and -1 for it, as in PyTorch.
 */
export function normalizeAxes(op: string, axes: Axes | undefined, shape: Shape): number[] {
  if (axes === undefined) return shape.map((_, axis) => axis);
  const rank = Math.max(1, shape.length);
  const list = [axes].flat().map((axis) => normalizeAxis(op, axis, shape, rank));
  if (new Set(list).size !== list.length) {
    throw shapeError(op)`Cannot ${op} along the axes ${shown(axes)}: one is named twice`;
  }
  return shape.length === 0 ? [] : list.sort((a, b) => a - b);
}

/** The shape with the given axes kept as 1. */
export function keptShape(shape: Shape, axes: readonly number[]): number[] {
  return shape.map((n, axis) => axes.includes(axis) ? 1 : n);
}

/** Two numbers for height and width, from one or two; without a fallback they must be given. */
export function pair(
  op: string,
  what: string,
  value: Sizes | undefined,
  fallback?: number,
): [number, number] {
  const [height, width] = tuple(op, what, value === undefined ? fallback : value, 2);
  return [height!, width!];
}

const counted = ["none", "one", "two", "three"];

/** A number for each of `count` axes, from one for all or one for each. */
export function tuple(op: string, what: string, value: Sizes | undefined, count: number): number[] {
  const list = typeof value === "number" ? new Array<number>(count).fill(value) : value;
  if (!Array.isArray(list) || list.length !== count || list.some((n) => !Number.isInteger(n))) {
    const others = count === 1 ? "" : `, or ${counted[count] ?? count}`;
    throw shapeError(op)`
      Cannot ${op} with ${what} ${shown(value)}: pass one whole number${others}`;
  }
  return [...list];
}
