import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { type BenchRecord, comparisons, drawChart } from "../../../bench/figures/chart.ts";

const record: BenchRecord = {
  date: "2026-11-22T12:00:00Z",
  titles: { netcl: "netcl on <device>", torch: "PyTorch 2" },
  results: [
    { work: "step", label: "a step", unit: "ms", figures: { netcl: 2, torch: 6 } },
    { work: "matmul", label: "a <product>", unit: "TFLOP/s", figures: { netcl: 20, torch: 40 } },
    { work: "not offered", label: "none", unit: "ms", figures: { netcl: 1 } },
  ],
};

Deno.test("a bar says how many times as fast netcl is, for times and for rates", () => {
  const found = comparisons(record, ["torch"]);
  assertEquals(found.map(({ label, peers }) => [label, peers[0]!.ratio]), [
    ["a step", 3],
    ["a <product>", 0.5],
  ]);
});

Deno.test("the chart is one SVG for light and dark pages, with text that is escaped", () => {
  const chart = drawChart(record, ["torch"]);
  assertStringIncludes(chart, "prefers-color-scheme: dark");
  assertStringIncludes(chart, "netcl on &lt;device>");
  assertStringIncludes(chart, "a &lt;product>");
  assertStringIncludes(chart, "PyTorch 2");
  assertEquals(chart.match(/<rect class="peer0" x="\d+\.\d"/g)?.length, 2);
});

Deno.test("a chart of nothing is an error that names the peer", () => {
  assertThrows(
    () => drawChart(record, ["jax"]),
    RangeError,
    "no work has figures of netcl and jax",
  );
});
