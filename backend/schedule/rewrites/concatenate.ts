/** Values one behind the other, which are one view where they lie so in memory. */
import { isFloat } from "../../graph/dtype.ts";
import type { Node } from "../../graph/node.ts";
import type { Op } from "../../graph/op.ts";
import { sameShape, type Shape, sizeOf } from "../../graph/shape.ts";
import { isView } from "../../kernel/view.ts";
import { planned } from "./rewriting.ts";

/** One kernel stores so many. */
export const MAX_COPIED = 16;

type Slice = Op & { readonly kind: "slice" };

/** A part of a value along one axis. */
interface Part {
  readonly base: Node;
  readonly axis: number;
  readonly start: number;
}

/** The part that a value is, behind views of its elements; null for another value. */
export function partOf(node: Node): Part | null {
  let at = node;
  while (!at.isLeaf && (at.op.kind === "reshape" || at.op.kind === "permute")) at = at.inputs[0]!;
  return at.isLeaf || at.op.kind !== "slice" ? null : sliceOf(at, at.op);
}

function sliceOf({ shape, inputs }: Node, { starts, steps }: Slice): Part | null {
  const base = inputs[0]!;
  const cut = shape.flatMap((n, k) => n === base.shape[k] && starts[k] === 0 ? [] : [k]);
  if (cut.length !== 1 || steps.some((step, k) => step !== 1 && shape[k] !== 1)) return null;
  return { base, axis: cut[0]!, start: starts[cut[0]!]! };
}

/** Concatenations of a graph: equal ones are one value. */
export class Concatenations {
  readonly #copies = new Map<string, Node>();

  /** Values of one shape, one behind the other along an axis; null where one kernel cannot copy so many. */
  of(values: readonly Node[], axis: number): Node | null {
    return viewOf(values, axis) ??
      (values.length > MAX_COPIED ? null : this.#copyOf(values, axis));
  }

  /** The values copied to one place, below the transpositions that they share. */
  #copyOf(values: readonly Node[], axis: number): Node {
    const [first] = values as [Node], { op, shape, dtype } = first;
    const long = shape.with(axis, shape[axis]! * values.length);
    if (op.kind === "permute" && values.every((value) => isAlike(value, first))) {
      const inner = this.#copyOf(values.map((value) => value.inputs[0]!), op.axes[axis]!);
      return planned(op, [inner], long, dtype);
    }
    const key = `${axis}:${values.map(({ id }) => id)}`;
    const copy = this.#copies.get(key) ?? copied(values, axis, long);
    this.#copies.set(key, copy);
    return copy;
  }
}

/** A copy of the sum of values that are padded with nothing to add. */
function copied(values: readonly Node[], axis: number, long: Shape): Node {
  const { shape, dtype } = values[0]!, value = isFloat(dtype) ? -0 : 0;
  const padded = values.map((part, k) => {
    const before = shape.map((_, at) => at === axis ? k * shape[axis]! : 0);
    return planned({ kind: "pad", before, value }, [part], long, dtype);
  });
  const add = { kind: "elementwise", fn: "add" } as const;
  const whole = padded.reduce((a, b) => planned(add, [a, b], long, dtype));
  return planned({ kind: "copy" }, [whole], long, dtype);
}

/** The values as one view of what they are parts of; null where they do not follow each other. */
function viewOf(values: readonly Node[], axis: number): Node | null {
  const [first] = values as [Node];
  if (first.isLeaf || !values.every((value) => isAlike(value, first))) return null;
  const { op, shape, dtype } = first, inputs = values.map((value) => value.inputs[0]!);
  const long = shape.with(axis, shape[axis]! * values.length);
  switch (op.kind) {
    case "permute": {
      const inner = viewOf(inputs, op.axes[axis]!);
      return inner && planned(op, [inner], long, dtype);
    }
    case "reshape": {
      if (sizeOf(shape.slice(0, axis)) !== 1) return null;
      // One behind the other in memory: along any axis that has nothing but single elements before it.
      const before = inputs[0]!.shape, last = before.findIndex((n) => n > 1);
      for (let at = 0; at <= Math.max(last, 0) && at < before.length; at++) {
        const inner = viewOf(inputs, at);
        if (inner) return planned(op, [inner], long, dtype);
      }
      return null;
    }
    case "slice": {
      const parts = values.map((value) => sliceOf(value, value.op as Slice));
      const follows = parts.every((part, k) =>
        part !== null && part.base === parts[0]!.base && part.axis === axis &&
        part.start === parts[0]!.start + k * shape[axis]!
      );
      return follows ? planned(op, [parts[0]!.base], long, dtype) : null;
    }
    default:
      return null;
  }
}

/** True where a copy of a value has no more elements than what it is a view of: no window, nothing repeated. */
export function isPlain(node: Node): boolean {
  let at = node;
  while (!at.isLeaf && isView(at.op)) {
    if (at.op.kind === "im2col" || at.op.kind === "expand" || at.op.kind === "pad") return false;
    at = at.inputs[0]!;
  }
  return true;
}

/** True for views of the same form; slices begin where they like. */
function isAlike(a: Node, b: Node): boolean {
  if (a.isLeaf || !isView(a.op) || a.op.kind !== b.op.kind) return false;
  if (!sameShape(a.shape, b.shape) || !sameShape(a.inputs[0]!.shape, b.inputs[0]!.shape)) {
    return false;
  }
  return a.op.kind !== "permute" || sameShape(a.op.axes, (b.op as typeof a.op).axes);
}
