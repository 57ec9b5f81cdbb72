/**
 * Boxes of bytes: parts of matrices and volumes.
 *
 * @module
 */
import { toSize } from "./size.ts";

/** Three whole numbers: x, y, z. In bytes, rows, slices for buffers; in elements for images. */
export type Triple = readonly [x: number, y: number, z: number];

/** Where boxes begin by default. */
export const corner: Triple = [0, 0, 0];

/** Where a box lies in memory. */
export interface RectLayout {
  /** Its first corner: x in bytes, y in rows, z in slices; all 0 by default. */
  readonly origin?: Triple;
  /** Bytes from row to row; the box's width by default. */
  readonly rowPitch?: number;
  /** Bytes from slice to slice; by default the row pitch times the box's height. */
  readonly slicePitch?: number;
}

/** Three sizes for C. */
export function triple(values: Triple, what: string): BigUint64Array {
  return new BigUint64Array(values.map((value) => toSize(value, what)));
}

/** The distances between rows and slices of a box; C takes 0 for "densely packed". */
export function pitches(layout: RectLayout): readonly [row: bigint, slice: bigint] {
  const { rowPitch = 0, slicePitch = 0 } = layout;
  return [toSize(rowPitch, "a row pitch"), toSize(slicePitch, "a slice pitch")];
}

/**
 * Refuses a box that does not lie within memory of that size: C would read or write beyond it.
 *
 * @param region The box's width in bytes, height in rows, depth in slices.
 */
export function checkRect(region: Triple, layout: RectLayout, nbytes: number, what: string): void {
  const [width, height, depth] = region;
  const { origin: [x, y, z] = corner } = layout;
  const { rowPitch = width } = layout;
  const { slicePitch = rowPitch * height } = layout;
  const end = (z + depth - 1) * slicePitch + (y + height - 1) * rowPitch + x + width;
  if (end > nbytes) {
    throw new RangeError(
      `Cannot move [${region}] bytes from [${[x, y, z]}] of ${what}: ` +
        `they end at byte ${end}, it has ${nbytes}`,
    );
  }
}

/** Copies a densely packed box into its place in an array. */
export function unpack(
  packed: Uint8Array,
  into: Uint8Array,
  region: Triple,
  layout: RectLayout,
): void {
  const [width, height, depth] = region;
  const { origin: [x, y, z] = corner } = layout;
  const { rowPitch = width } = layout;
  const { slicePitch = rowPitch * height } = layout;
  for (let slice = 0; slice < depth; slice++) {
    for (let row = 0; row < height; row++) {
      const from = (slice * height + row) * width;
      const to = (z + slice) * slicePitch + (y + row) * rowPitch + x;
      into.set(packed.subarray(from, from + width), to);
    }
  }
}
