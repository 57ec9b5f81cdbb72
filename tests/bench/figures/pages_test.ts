import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { type BenchRecord, drawChart } from "../../../bench/figures/chart.ts";
import {
  behindOf,
  passages,
  peers,
  placeOf,
  readRecord,
  shownOf,
  tableOf,
} from "../../../bench/figures/pages.ts";
import { isIdle } from "../../../bench/run.ts";
import { root } from "../../module_graph.ts";

const read = (path: string): string => Deno.readTextFileSync(new URL(path, root));
/** Without what the formatter decides: line ends, padding of cells. */
const plain = (text: string): string =>
  text.replaceAll(/-{3,}/g, "---").replaceAll(/\s+/g, " ").trim();

Deno.test("figures on pages are those of the record: chart, table and what is behind", () => {
  const record = readRecord();
  for (const { page, name, text } of passages(record)) {
    const found = placeOf(name).exec(read(page));
    assert(found !== null, `${page} has a place for "${name}"`);
    assertEquals(plain(found[0]), plain(`${found[1]} ${text} ${found[2]}`), page);
  }
  assertEquals(read("examples/guide/images/bench.svg"), drawChart(shownOf(record), peers));
});

Deno.test("figures on pages are of a whole run on an idle machine", () => {
  const { quick, loads } = JSON.parse(read("bench/figures/h200.json"));
  assertEquals([quick, isIdle(loads.before)], [false, true]);
});

const record: BenchRecord = {
  date: "2026-11-22T12:00:00Z",
  titles: {},
  results: [
    { work: "a", label: "fast", unit: "ms", figures: { netcl: 2, torch: 6 } },
    { work: "b", label: "slow", unit: "GB/s", figures: { netcl: 2, torch: 1, "torch-graphs": 4 } },
  ],
};

Deno.test("behindOf names what the faster mode wins, and by how much", () => {
  assertStringIncludes(behindOf(record), "slow (0.50).");
  assert(!behindOf(record).includes("fast ("));
});

Deno.test("tableOf has a line a work, with a cell left empty where a mode was not measured", () => {
  assertStringIncludes(tableOf(record), "| fast | 2 ms | 6 ms |  |");
  assertStringIncludes(tableOf(record), "| slow | 2 GB/s | 1 GB/s | 4 GB/s |");
});
