/** Mapping of a view's result coordinates to those of its input. */
import {
  add,
  type AffineExpr,
  affineKey,
  delinearize,
  linearize,
  scale,
  type SymbolSplit,
  zero,
} from "./affine.ts";
import type { Bound } from "./kernel.ts";
import type { ViewOp } from "../graph/op.ts";
import { type Shape, stridesOf } from "../graph/shape.ts";

/** Read of a node by a kernel: one index per axis, valid only inside the bounds. */
export interface Access {
  readonly coords: readonly AffineExpr[];
  readonly bounds: readonly Bound[];
}

/** A text that is equal for equal accesses. */
export function accessKey({ coords, bounds }: Access): string {
  let key = coords.map(affineKey).join();
  for (const { index, size } of bounds) key += `|${affineKey(index)}<${size}`;
  return key;
}

/** The access to a value of the accessed shape but for axes of one element. */
export function rowAccess(
  { shape }: { readonly shape: Shape },
  accessed: { readonly shape: Shape },
  coords: readonly AffineExpr[],
): Access {
  const rest = coords.filter((_, k) => accessed.shape[k] !== 1);
  let at = 0;
  return { coords: shape.map((n) => n === 1 ? zero : rest[at++]!), bounds: [] };
}

const viewKinds = new Set(["reshape", "permute", "expand", "slice", "pad", "im2col"]);

/** True for the operations that only rearrange elements. */
export const isView = (op: { readonly kind: string }): op is ViewOp => viewKinds.has(op.kind);

/** The access to an input of `shape` that broadcasts to the accessed shape. */
export function broadcastAccess(access: Access, shape: Shape): Access {
  const lead = access.coords.length - shape.length;
  if (lead === 0 && shape.every((n) => n !== 1)) return access;
  return {
    coords: shape.map((n, k) => n === 1 ? zero : access.coords[k + lead]!),
    bounds: access.bounds,
  };
}

/**
 * The access to a view's input. A reshape may need a loop index split first, or may not be
 * expressible at all (null). A pad adds bounds; its value outside them is the caller's to supply.
 */
export function viewAccess(
  op: ViewOp,
  shape: Shape,
  inputShape: Shape,
  access: Access,
  sizes: readonly number[],
): Access | SymbolSplit | null {
  const { coords, bounds } = access;
  switch (op.kind) {
    case "reshape": {
      const mapped = reshapeCoords(shape, inputShape, coords, sizes);
      return Array.isArray(mapped) ? { coords: mapped, bounds } : mapped;
    }
    case "permute": {
      const mapped = new Array<AffineExpr>(coords.length);
      op.axes.forEach((axis, k) => mapped[axis] = coords[k]!);
      return { coords: mapped, bounds };
    }
    case "expand":
      return broadcastAccess(access, inputShape);
    case "slice":
      return { coords: coords.map((c, k) => scale(c, op.steps[k]!, op.starts[k]!)), bounds };
    case "pad": {
      const added: Bound[] = [];
      const mapped = coords.map((c, k) => {
        const before = op.before[k]!, n = inputShape[k]!;
        if (shape[k] === n) return c;
        const index = scale(c, 1, -before);
        added.push({ index, size: n });
        return index;
      });
      return { coords: mapped, bounds: [...bounds, ...added] };
    }
    case "im2col": {
      const w = op.kernel.length, lead = inputShape.length - w;
      const mapped = coords.slice(0, lead);
      for (let k = 0; k < w; k++) {
        const position = scale(coords[lead + k]!, op.stride[k]!);
        mapped.push(add(position, scale(coords[lead + w + k]!, op.dilation[k]!)));
      }
      return { coords: mapped, bounds };
    }
  }
}

/** Reshape works on the smallest groups of axes with equal products, so unrelated axes stay free. */
function reshapeCoords(
  shape: Shape,
  inputShape: Shape,
  coords: readonly AffineExpr[],
  sizes: readonly number[],
): AffineExpr[] | SymbolSplit | null {
  const mapped: AffineExpr[] = new Array<AffineExpr>(inputShape.length).fill(zero);
  // Nothing is ever read of an empty tensor, and products of 0 would form no groups.
  if (inputShape.includes(0)) return mapped;
  let i = 0, o = 0;
  while (i < inputShape.length || o < shape.length) {
    const i0 = i, o0 = o;
    let a = inputShape[i++] ?? 1, b = shape[o++] ?? 1;
    while (a !== b) {
      if (a < b) a *= inputShape[i++]!;
      else b *= shape[o++]!;
    }
    if (i0 >= inputShape.length) continue; // only axes of size 1 are left
    if (i - i0 === 1 && o - o0 === 1) {
      mapped[i0] = coords[o0] ?? zero;
      continue;
    }
    const index = linearize(coords.slice(o0, o), stridesOf(shape.slice(o0, o)));
    const group = inputShape.slice(i0, i);
    const divided = delinearize(index, group, sizes);
    if (!Array.isArray(divided)) return divided;
    divided.forEach((c, k) => mapped[i0 + k] = c);
  }
  return mapped;
}
