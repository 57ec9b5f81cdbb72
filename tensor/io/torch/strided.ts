import { sizeOf, type TypedArray } from "../../../backend/internal.ts";
import type { Tensor } from "../../core/mod.ts";

/** A part of a storage: its first element, and the step of each axis. */
export interface Strided {
  /** The element of the storage that its first one is. */
  readonly offset: number;
  /** The shape. */
  readonly shape: readonly number[];
  /** Elements of the storage from one to the next along each axis. */
  readonly strides: readonly number[];
}

/**
 * The axes as they lie in memory, the slowest first: those of one element and those that repeat
 * (stride 0) are left out.
 */
function axesInMemory({ shape, strides }: Strided): number[] {
  return shape.map((_, axis) => axis).filter((axis) => shape[axis] !== 1 && strides[axis] !== 0)
    .sort((a, b) => strides[b]! - strides[a]! || shape[b]! - shape[a]!);
}

/** True where the elements fill a stretch of the storage in order of their axes. */
export function isContiguous(part: Strided): boolean {
  let step = 1;
  for (let axis = part.shape.length - 1; axis >= 0; axis--) {
    if (part.shape[axis] !== 1 && part.strides[axis] !== step) return false;
    step *= part.shape[axis]!;
  }
  return true;
}

/**
 * A part of a storage as a view: its axes are those of a block that is sliced, permuted and expanded.
 *
 * @param storage All elements, along one axis.
 * @param part Which of them.
 * @returns The view, or null where the axes overlap, or the block reaches beyond the storage.
 */
export function stridedView(storage: Tensor, part: Strided): Tensor | null {
  const { offset, shape, strides } = part, axes = axesInMemory(part);
  // Each axis of the block is as long as the step of the one outside it.
  const lengths = axes.map((axis, k) => {
    const outer = k === 0 ? strides[axis]! * shape[axis]! : strides[axes[k - 1]!]!;
    return outer / strides[axis]!;
  });
  const innermost = axes.length === 0 ? 1 : strides[axes.at(-1)!]!;
  const size = lengths.reduce((product, n) => product * n, innermost);
  const fits = axes.every((axis, k) => Number.isInteger(lengths[k]) && shape[axis]! <= lengths[k]!);
  if (!fits || offset + size > storage.size) return null;
  const block = storage.slice([offset, offset + size]).reshape([...lengths, innermost]);
  const cut = block.slice(...axes.map((axis) => [0, shape[axis]!] as const), 0);
  const order = shape.map((_, axis) => axes.indexOf(axis)).filter((k) => k >= 0);
  const rest = shape.map((n, axis) => axes.includes(axis) ? n : 1);
  return cut.permute(order).reshape(rest).expand(shape);
}

/** A part of a storage, copied in order. */
export function stridedCopy(data: TypedArray, { offset, shape, strides }: Strided): TypedArray {
  const size = sizeOf(shape);
  const out = data.slice(0, 0).constructor as new (length: number) => TypedArray;
  const copy = new out(size), index = new Array<number>(shape.length).fill(0);
  let from = offset;
  for (let to = 0; to < size; to++) {
    copy[to] = data[from]!;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      from += strides[axis]!;
      if (++index[axis]! < shape[axis]!) break;
      from -= strides[axis]! * shape[axis]!;
      index[axis] = 0;
    }
  }
  return copy;
}
