import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { drawLossCurve } from "../../examples/train/loss_curve.ts";

function polylines(svg: string): number[][][] {
  return [...svg.matchAll(/points="([^"]*)"/g)].map(([, list]) =>
    list!.split(" ").filter(Boolean).map((point) => point.split(",").map(Number))
  );
}

Deno.test("a loss curve stays within its picture, whatever the losses are", () => {
  const loss = fc.oneof(
    fc.double({ min: 1e-6, max: 1e3, noNaN: true }),
    fc.constantFrom(0, NaN, Infinity),
  );
  fc.assert(
    fc.property(
      fc.array(loss, { maxLength: 200 }),
      fc.integer({ min: 1, max: 50 }),
      (losses, n) => {
        const svg = drawLossCurve(losses, n, "title");
        assert(!svg.includes("NaN") && !svg.includes("Infinity"));
        for (const [x, y] of polylines(svg).flat()) {
          assert(x! >= 0 && x! <= 760 && y! >= 0 && y! <= 440, `${x},${y}`);
        }
      },
    ),
  );
});

Deno.test("a loss that falls is a line that falls, from the left to the right", () => {
  const losses = Array.from({ length: 90 }, (_, i) => 2.3 * Math.exp(-i / 20));
  const svg = drawLossCurve(losses, 45, "digits");
  const longest = polylines(svg).filter((line) => line.length === losses.length);
  assertEquals(longest.length, 2, "each step, and their running mean");
  for (const line of longest) {
    for (let i = 1; i < line.length; i++) {
      assert(line[i]![0]! > line[i - 1]![0]!);
      assert(line[i]![1]! >= line[i - 1]![1]!);
    }
  }
  assert(svg.includes(">0.1<") && svg.includes(">1<") && svg.includes(">2<"));
});

Deno.test("a long run is drawn small, and keeps its extremes", () => {
  const losses = Array.from({ length: 50_000 }, (_, i) => i === 20_000 ? 90 : 0.5);
  const svg = drawLossCurve(losses, 1000, "long");
  assert(svg.length < 200_000);
  const heights = polylines(svg).flat().map(([, y]) => y!);
  assert(Math.min(...heights) < 80, "the one high loss is there");
});

Deno.test("a title cannot break the picture", () => {
  assert(drawLossCurve([1], 1, "a < b & c").includes("a &lt; b &amp; c"));
});
