/**
 * Boxes of bytes: parts of matrices and volumes.
 *
 * @module
 */
import { toSize } from "../host/size.ts";
import * as takes from "../host/option_rules.ts";
import { checkOptions, type Rules } from "../host/options.ts";

/** Three whole numbers: x, y, z. In bytes, rows, slices for buffers; in elements for images. */
export type Triple = readonly [x: number, y: number, z: number];

/** The default origin of boxes. */
export const corner: Triple = [0, 0, 0];

/** The place of a box in memory. */
export interface RectLayout {
  /** Its first corner: x in bytes, y in rows, z in slices; all 0 by default. */
  readonly origin?: Triple;
  /** Bytes from row to row; the box's width by default. */
  readonly rowPitch?: number;
  /** Bytes from slice to slice; by default the row pitch times the box's height. */
  readonly slicePitch?: number;
}

const layoutRules: Rules<RectLayout> = {
  origin: takes.wholeNumbers,
  rowPitch: takes.whole,
  slicePitch: takes.whole,
};

/** Three sizes for C, which reads three whatever the array has. */
export function triple(values: Triple, what: string): BigUint64Array {
  checkTriple(values, what);
  return new BigUint64Array(values.map((value) => toSize(value, what)));
}

function checkTriple(values: Triple, what: string): void {
  if (values.length === 3) return;
  throw new RangeError(`Cannot use [${values}] as ${what}: three numbers are needed`);
}

/** The distances between rows and slices of a box; C takes 0 for "densely packed". */
export function pitches(layout: RectLayout): readonly [row: bigint, slice: bigint] {
  const { rowPitch = 0, slicePitch = 0 } = layout;
  return [toSize(rowPitch, "a row pitch"), toSize(slicePitch, "a slice pitch")];
}

/** Refuses a part of an image that ends beyond the image; all of them count elements. */
export function checkRegion(origin: Triple, region: Triple, extent: Triple, what: string): void {
  triple(origin, "an origin");
  triple(region, "a region");
  if (extent.every((size, axis) => origin[axis]! + region[axis]! <= size)) return;
  throw new RangeError(
    `Cannot use [${region}] elements from [${origin}] of ${what}: it has [${extent}]`,
  );
}

/** The place of a box, with the distances that C takes where they are 0 or left out. */
function placeOf(region: Triple, layout: RectLayout): Required<RectLayout> {
  const { origin = corner } = layout;
  const rowPitch = layout.rowPitch || region[0];
  return { origin, rowPitch, slicePitch: layout.slicePitch || rowPitch * region[1] };
}

/**
 * Refuses a box that does not lie within memory of that size: C would read or write beyond it.
 *
 * @param region The box's width in bytes, height in rows, depth in slices.
 */
export function checkRect(region: Triple, layout: RectLayout, nbytes: number, what: string): void {
  checkOptions(`lay a box out in ${what}`, layout, layoutRules);
  for (const size of triple(region, "a region")) {
    if (size === 0n) throw new RangeError(`Cannot move [${region}] bytes: the box is empty`);
  }
  triple(layout.origin ?? corner, "an origin");
  pitches(layout);
  const [width, height, depth] = region;
  const { origin: [x, y, z], rowPitch, slicePitch } = placeOf(region, layout);
  if (rowPitch < width || slicePitch < rowPitch * height) {
    throw new RangeError(
      `Cannot move [${region}] bytes with rows ${rowPitch} and slices ${slicePitch} bytes apart: ` +
        "they would overlap",
    );
  }
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
  const { origin: [x, y, z], rowPitch, slicePitch } = placeOf(region, layout);
  for (let slice = 0; slice < depth; slice++) {
    for (let row = 0; row < height; row++) {
      const from = (slice * height + row) * width;
      const to = (z + slice) * slicePitch + (y + row) * rowPitch + x;
      into.set(packed.subarray(from, from + width), to);
    }
  }
}
