import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { type Lifetime, placeLifetimes } from "../../../memory/regions/placement.ts";

const rules = { alignment: 512, segmentBytes: [4096] };

/** The most bytes, in whole units, that are in use within a step. */
function mostInUse(lifetimes: readonly Lifetime[]): number {
  const steps = lifetimes.flatMap(({ first }) => first);
  return Math.max(
    0,
    ...steps.map((step) =>
      lifetimes.filter(({ first, last }) => first <= step && step <= last)
        .reduce((sum, { nbytes }) => sum + Math.ceil(nbytes / rules.alignment) * rules.alignment, 0)
    ),
  );
}

const lifetimes = fc.array(
  fc.record({ first: fc.nat(30), length: fc.nat(12), nbytes: fc.integer({ min: 1, max: 9000 }) })
    .map(({ first, length, nbytes }): Lifetime => ({ first, last: first + length, nbytes })),
  { maxLength: 60 },
);

Deno.test("Placement: blocks that are in use at the same time lie apart, within their segment, aligned", () => {
  fc.assert(fc.property(lifetimes, (blocks) => {
    const { places, segments } = placeLifetimes(blocks, rules);
    assertEquals(places.length, blocks.length);
    places.forEach(({ segment, offset }, k) => {
      const { first, last, nbytes } = blocks[k]!;
      assertEquals(offset % rules.alignment, 0);
      assert(offset + nbytes <= segments[segment]!);
      places.forEach((other, l) => {
        const { first: from, last: to, nbytes: bytes } = blocks[l]!;
        if (l === k || other.segment !== segment || from > last || to < first) return;
        assert(offset + nbytes <= other.offset || other.offset + bytes <= offset);
      });
    });
    const largest = Math.max(...rules.segmentBytes, ...blocks.map(({ nbytes }) => nbytes + 511));
    for (const nbytes of segments) assert(nbytes <= largest);
  }));
});

Deno.test("Placement: the same lifetimes get the same places", () => {
  fc.assert(fc.property(lifetimes, (blocks) => {
    assertEquals(placeLifetimes(blocks, rules), placeLifetimes(blocks, rules));
  }));
});

Deno.test("Placement: results of growing and of shrinking layers lie in what is in use at most, and a tenth", () => {
  // Activations from their layer to its gradient, two gradients on the way, as in a training step.
  for (const growth of [0.7, 0.9, 1, 1.3, 2]) {
    const layers = 16, blocks: Lifetime[] = [];
    for (let k = 0; k < layers; k++) {
      const nbytes = Math.ceil(100_000 * growth ** (k / 2)), end = 2 * layers - k;
      blocks.push({ first: k, last: end, nbytes }, { first: end, last: end + 1, nbytes });
      blocks.push({ first: k, last: k, nbytes: nbytes >> 1 });
    }
    const segmentBytes = [4 * Math.max(...blocks.map(({ nbytes }) => nbytes))];
    const { segments } = placeLifetimes(blocks, { alignment: 512, segmentBytes });
    const total = segments.reduce((sum, nbytes) => sum + nbytes, 0);
    assert(total <= 1.1 * mostInUse(blocks), `${total / mostInUse(blocks)} at growth ${growth}`);
  }
});

Deno.test("Placement: nothing needs no memory", () => {
  assertEquals(placeLifetimes([], rules), { places: [], segments: [] });
});
