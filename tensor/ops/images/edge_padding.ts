/** Padding by what stands at the edges: made of views, so that its gradient is a sum of views. */
import { shapeError } from "../../core/rules/errors.ts";
import { shown } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import { concat } from "../shaping/joining.ts";
import type { SliceRange } from "../../core/arguments.ts";

type Widths = readonly (readonly [number, number])[];

/** Mirrors the last axes at their first and last elements. */
export function padReflect(x: Tensor, widths: Widths): Tensor {
  return padAxes("padReflect", x, widths, {
    most: (n) => n - 1,
    before: (part, axis, width) => part(axis, [1, width + 1]).flip(axis),
    after: (part, axis, width, n) => part(axis, [n - 1 - width, n - 1]).flip(axis),
  });
}

/** Repeats the first and last elements of the last axes. */
export function padReplicate(x: Tensor, widths: Widths): Tensor {
  const repeated = (edge: Tensor, axis: number, width: number): Tensor =>
    edge.expand(edge.shape.map((n, k) => k === axis ? width : n));
  return padAxes("padReplicate", x, widths, {
    most: (n) => n === 0 ? 0 : Infinity,
    before: (part, axis, width) => repeated(part(axis, [0, 1]), axis, width),
    after: (part, axis, width, n) => repeated(part(axis, [n - 1, n]), axis, width),
  });
}

type Part = (axis: number, range: [number, number]) => Tensor;

/** Values beside an axis of length n. */
interface Edges {
  /** The largest width. */
  readonly most: (n: number) => number;
  readonly before: (part: Part, axis: number, width: number, n: number) => Tensor;
  readonly after: (part: Part, axis: number, width: number, n: number) => Tensor;
}

function padAxes(op: string, x: Tensor, widths: Widths, edges: Edges): Tensor {
  const first = checkWidths(op, x, widths, edges);
  return widths.reduce((inner, [before, after], k) => {
    const axis = first + k, n = inner.shape[axis]!;
    const part: Part = (at, range) =>
      inner.slice(...inner.shape.map((_, d): SliceRange => d === at ? range : null));
    const parts = [
      ...(before > 0 ? [edges.before(part, axis, before, n)] : []),
      inner,
      ...(after > 0 ? [edges.after(part, axis, after, n)] : []),
    ];
    return parts.length === 1 ? inner : concat(parts, axis);
  }, x);
}

/** The first of the axes that are padded. */
function checkWidths(op: string, x: Tensor, widths: Widths, { most }: Edges): number {
  const isList = Array.isArray(widths) && widths.length <= x.ndim &&
    widths.every((pair) => Array.isArray(pair) && pair.length === 2);
  const first = isList ? x.ndim - widths.length : 0;
  const fits = isList &&
    widths.every((pair, k) =>
      pair.every((w: number) => Number.isInteger(w) && w >= 0 && w <= most(x.shape[first + k]!))
    );
  if (fits) return first;
  throw shapeError(op)`
    Cannot ${op} a tensor of shape ${x.shape} by ${shown(widths)}: pass [before, after] for each
    of the last axes, ${op === "padReflect" ? "less than their lengths" : "and no empty axis"}`;
}
