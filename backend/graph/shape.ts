/** Shapes: arrays of whole numbers, row-major, the last axis the fastest. */

/** The size of each axis. */
export type Shape = readonly number[];

/** The number of elements of a tensor of `shape`; 1 for a scalar. */
export function sizeOf(shape: Shape): number {
  let size = 1;
  for (const n of shape) size *= n;
  return size;
}

/** Row-major strides, in elements. */
export function stridesOf(shape: Shape): number[] {
  const strides = new Array<number>(shape.length);
  let stride = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = stride;
    stride *= shape[axis]!;
  }
  return strides;
}

/** True when both shapes have the same axes. */
export function sameShape(a: Shape, b: Shape): boolean {
  if (a === b) return true;
  if (a.length !== b.length) return false;
  for (let axis = 0; axis < a.length; axis++) if (a[axis] !== b[axis]) return false;
  return true;
}

/** A shape as people write it: `[2, 3]`. */
export const formatShape = (shape: Shape): string => `[${shape.join(", ")}]`;

/** The shape that both broadcast to by NumPy's rules, or null when they do not fit. */
export function broadcastShapes(a: Shape, b: Shape): Shape | null {
  if (sameShape(a, b)) return a;
  const rank = Math.max(a.length, b.length);
  const out = new Array<number>(rank);
  for (let k = 1; k <= rank; k++) {
    const m = a[a.length - k] ?? 1, n = b[b.length - k] ?? 1;
    if (m !== n && m !== 1 && n !== 1) return null;
    out[rank - k] = m === 1 ? n : m;
  }
  return out;
}
