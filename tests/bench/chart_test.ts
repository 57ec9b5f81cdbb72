import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { barsOf, type BenchRecord, drawChart } from "../../bench/chart.ts";

const record: BenchRecord = {
  date: "2026-11-22T12:00:00Z",
  titles: { netcl: "netcl on <device>", torch: "PyTorch 2" },
  results: [
    { work: "step", unit: "ms", figures: { netcl: 2, torch: 6 } },
    { work: "matmul", unit: "TFLOP/s", figures: { netcl: 20, torch: 40 } },
    { work: "not offered", unit: "ms", figures: { netcl: 1 } },
  ],
};

Deno.test("a bar says how many times as fast netcl is, for times and for rates", () => {
  assertEquals(barsOf(record, "torch").map(({ label, ratio }) => [label, ratio]), [
    ["step", 3],
    ["matmul", 0.5],
  ]);
});

Deno.test("the chart is one SVG for light and dark pages, with text that is escaped", () => {
  const chart = drawChart(record, "torch");
  assertStringIncludes(chart, "prefers-color-scheme: dark");
  assertStringIncludes(chart, "netcl on &lt;device>");
  assertStringIncludes(chart, "How many times as fast as PyTorch 2");
  assertEquals(chart.match(/<rect /g)?.length, 2);
});

Deno.test("a chart of nothing is an error that names the peer", () => {
  assertThrows(() => drawChart(record, "jax"), RangeError, "no work has figures of netcl and jax");
});
