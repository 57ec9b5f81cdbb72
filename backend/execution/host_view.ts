/** Views of values in memory, as steps from element to element: they are read without a kernel. */
import type { Node } from "../graph/node.ts";
import type { Op } from "../graph/op.ts";
import { type Shape, sizeOf, stridesOf } from "../graph/shape.ts";

/** Position of a node's elements in the memory of another. */
export interface HostView {
  /** A value in memory. */
  readonly base: Node;
  readonly shape: Shape;
  /** Elements of the base from one element of the view to the next, by axis. */
  readonly strides: readonly number[];
  /** The place of the element [0, 0, ...]. */
  readonly start: number;
  /** The smallest and the largest place of any element. */
  readonly first: number;
  /** See `first`. */
  readonly last: number;
  /** The elements lie one behind the other. */
  readonly isContiguous: boolean;
}

interface Steps {
  readonly shape: Shape;
  readonly strides: readonly number[];
  readonly start: number;
}

/** Layout of a node's elements in memory; null: not there, or not in regular steps. */
export function hostViewOf(node: Node): HostView | null {
  const views: Node[] = [];
  let base = node;
  while (!base.isLeaf) {
    const { kind } = base.op;
    if (kind !== "reshape" && kind !== "permute" && kind !== "expand" && kind !== "slice") {
      return null;
    }
    views.push(base);
    base = base.inputs[0]!;
  }
  base.unspill();
  let steps: Steps | null = { shape: base.shape, strides: stridesOf(base.shape), start: 0 };
  for (const view of views.reverse()) {
    steps = through(view.op, view.shape, steps);
    if (steps === null) return null;
  }
  return viewOf(base, steps);
}

function viewOf(base: Node, { shape, strides, start }: Steps): HostView {
  let first = start, last = start;
  shape.forEach((n, axis) => {
    const reach = strides[axis]! * Math.max(0, n - 1);
    if (reach < 0) first += reach;
    else last += reach;
  });
  const isContiguous = isRowMajor(shape, strides);
  return { base, shape, strides, start, first, last, isContiguous };
}

function isRowMajor(shape: Shape, strides: readonly number[]): boolean {
  const dense = stridesOf(shape);
  return sizeOf(shape) === 0 || shape.every((n, axis) => n === 1 || strides[axis] === dense[axis]);
}

function through(op: Op, shape: Shape, from: Steps): Steps | null {
  switch (op.kind) {
    case "permute": {
      const strides = op.axes.map((axis) => from.strides[axis]!);
      return { ...from, shape, strides };
    }
    case "expand": {
      const lead = shape.length - from.shape.length;
      const strides = shape.map((_, axis) => {
        const own = axis - lead;
        return own < 0 || from.shape[own] === 1 ? 0 : from.strides[own]!;
      });
      return { ...from, shape, strides };
    }
    case "slice": {
      const start = op.starts.reduce((sum, s, axis) => sum + s * from.strides[axis]!, from.start);
      return { shape, strides: from.strides.map((s, axis) => s * op.steps[axis]!), start };
    }
    case "reshape":
      return reshaped(shape, from);
    default:
      return null;
  }
}

/** Axes of one element come and go; others are joined or divided only in row-major memory. */
function reshaped(shape: Shape, from: Steps): Steps | null {
  if (isRowMajor(from.shape, from.strides)) return { ...from, shape, strides: stridesOf(shape) };
  const kept = from.strides.filter((_, axis) => from.shape[axis] !== 1);
  const sizes = from.shape.filter((n) => n !== 1);
  const wanted = shape.filter((n) => n !== 1);
  if (sizes.length !== wanted.length || sizes.some((n, k) => n !== wanted[k])) return null;
  let at = 0;
  return { ...from, shape, strides: shape.map((n) => n === 1 ? 0 : kept[at++]!) };
}
