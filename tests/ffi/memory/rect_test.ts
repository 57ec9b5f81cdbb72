import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { checkRect, type RectLayout, type Triple, unpack } from "../../../ffi/memory/rect.ts";

const extent = fc.integer({ min: 1, max: 4 });
const start = fc.integer({ min: 0, max: 3 });

/** A box, and a place for it in memory that has gaps between rows and slices. */
const placed = fc.record({
  region: fc.tuple(extent, extent, extent),
  origin: fc.tuple(start, start, start),
  gap: start,
  sliceGap: start,
}).map(({ region, origin, gap, sliceGap }) => {
  const rowPitch = origin[0] + region[0] + gap;
  const slicePitch = (origin[1] + region[1]) * rowPitch + sliceGap;
  return { region, layout: { origin, rowPitch, slicePitch } };
});

/** The place of element [x, y, z] of the box. */
function addressOf(
  [x, y, z]: Triple,
  { origin, rowPitch, slicePitch }: Required<RectLayout>,
): number {
  return (origin[2] + z) * slicePitch + (origin[1] + y) * rowPitch + origin[0] + x;
}

function elements([width, height, depth]: Triple): Triple[] {
  const all: Triple[] = [];
  for (let z = 0; z < depth; z++) {
    for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) all.push([x, y, z]);
  }
  return all;
}

Deno.test("unpack puts every byte of a box where its layout says, and no other byte anywhere", () => {
  fc.assert(fc.property(placed, ({ region, layout }) => {
    const boxes = elements(region);
    const packed = Uint8Array.from(boxes, (_, i) => i + 1);
    const into = new Uint8Array(600), expected = new Uint8Array(600);
    boxes.forEach((element, i) => expected[addressOf(element, layout)] = packed[i]!);
    unpack(packed, into, region, layout);
    assertEquals(into, expected);
  }));
});

Deno.test("checkRect accepts just the memory that ends with the box's last byte", () => {
  fc.assert(fc.property(placed, ({ region, layout }) => {
    const last = Math.max(...elements(region).map((element) => addressOf(element, layout)));
    checkRect(region, layout, last + 1, "memory");
    let refused = "";
    try {
      checkRect(region, layout, last, "memory");
    } catch (error) {
      refused = String(error);
    }
    assert(refused.includes(`they end at byte ${last + 1}, it has ${last}`), refused);
  }));
});
