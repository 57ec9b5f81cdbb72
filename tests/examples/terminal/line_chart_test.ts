import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { replay, textOf } from "../../../examples/tools/gallery/terminal_cells.ts";
import {
  beside,
  type Chart,
  drawChart,
  type Point,
} from "../../../examples/terminal/line_chart.ts";

const size = { title: "loss", from: 0, until: 10, width: 29, height: 5 };

function drawn(points: readonly Point[], more: Partial<Chart> = {}): string[] {
  const lines = drawChart({ ...size, lines: [{ points, colour: 34 }], ...more });
  return textOf(replay(lines.join("\n")));
}

Deno.test("a line goes from the lower left to the upper right", () => {
  assertEquals(drawn([[0, 1], [10, 3]]), [
    "         loss",
    "      3 ┤                ⣀⠤⠒⠉",
    "        │            ⣀⠤⠒⠉",
    "        │        ⣀⠤⠒⠉",
    "        │    ⣀⠤⠒⠉",
    "      1 ┤⣀⠤⠒⠉",
    "        └────────────────────",
  ]);
});

Deno.test("on a logarithmic scale 10 lies halfway between 1 and 100", () => {
  const rows = drawn([[0, 1], [5, 10], [10, 100]], { isLogarithmic: true });
  assert(rows[3]!.length > 18 && rows[3]!.length < 24, rows.join("\n"));
});

Deno.test("whatever the values are, a chart is as wide and as high as it was asked for", () => {
  const value = fc.oneof(fc.double(), fc.constantFrom(0, -1, NaN, Infinity, 1e-300));
  const points = fc.array(fc.tuple(fc.integer({ min: -5, max: 20 }), value), { maxLength: 40 });
  fc.assert(fc.property(points, fc.boolean(), (points, isLogarithmic) => {
    const rows = drawn(points, { isLogarithmic });
    assertEquals(rows.length, size.height + 2);
    for (const row of rows) assert(row.length <= size.width, row);
    assert(!/NaN|Infinity|undefined/.test(rows.join("")));
  }));
});

Deno.test("lines have names below, colours of their own, and a place beside another chart", () => {
  const lines = [
    { points: [[0, 1], [10, 1]] as const, colour: 34, name: "training" },
    { points: [[0, 2], [10, 2]] as const, colour: 33, name: "unseen" },
  ];
  const chart = drawChart({ ...size, lines });
  const rows = replay(beside(chart, ["right"], 29).join("\n"));
  assertEquals(textOf(rows).at(-1), "         ━━ training   ━━ unseen");
  assertEquals(textOf(rows)[0], "         loss                  right");
  const colours = rows.map((row) => new Set(row.map(({ colour }) => colour)));
  assert(colours[1]!.has(33) && !colours[1]!.has(34), "the upper line");
  assert(colours[5]!.has(34) && !colours[5]!.has(33), "the lower line");
});
