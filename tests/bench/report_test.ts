import { assertEquals, assertStringIncludes } from "@std/assert";
import { judgeAll, type Row, table } from "../../bench/report.ts";
import { nameOf, type Work, works } from "../../bench/works.ts";

const work: Work = {
  kind: "chain",
  size: 1e6,
  unit: "us",
  figure: (seconds) => seconds * 1e6,
  targets: { cl: [{ of: ["torch", "numpy"], ratio: 1.5 }], gpu: [{ atMost: 130 }] },
};

function verdicts(values: Row["values"], device: "cl" | "gpu"): (boolean | null)[] {
  return judgeAll({ work, values }, device).map(({ met }) => met);
}

Deno.test("A target is a share of the best of its peers", () => {
  assertEquals(verdicts({ netcl: 1, torch: 3, numpy: 1.5 }, "cl"), [true]);
  assertEquals(verdicts({ netcl: 1, torch: 3, numpy: 1.4 }, "cl"), [false]);
  assertEquals(verdicts({ netcl: 1, torch: 3 }, "cl"), [true]);
});

Deno.test("A target whose peers did not run is neither met nor missed", () => {
  assertEquals(verdicts({ netcl: 1, tfjs: 3 }, "cl"), [null]);
  assertEquals(verdicts({ torch: 3 }, "cl"), [null]);
});

Deno.test("Who is faster than the machine can be met a busy machine", () => {
  const limited: Work = { ...work, targets: { cl: [{ of: ["machine"], ratio: 0.88 }] } };
  const judged = (machine: number) =>
    judgeAll({ work: limited, values: { netcl: 1, machine } }, "cl").map(({ met }) => met);
  assertEquals([judged(0.8), judged(0.9), judged(1.5)], [[false], [true], [null]]);
});

Deno.test("A target may be a figure", () => {
  assertEquals(verdicts({ netcl: 130e-6 }, "gpu"), [true]);
  assertEquals(verdicts({ netcl: 131e-6 }, "gpu"), [false]);
});

Deno.test("The table has a column a peer, and the verdict at the end", () => {
  const lines = table([{ work, values: { netcl: 2e-4, torch: 2e-4 } }], ["torch"], "cl").split(
    "\n",
  );
  assertEquals(lines.length, 2);
  assertStringIncludes(lines[0]!, "netcl  torch");
  assertStringIncludes(lines[1]!, "200    200  1.00 (1.5 of torch or numpy: not met)");
});

Deno.test("Works have names of their own", () => {
  const names = works.map((work) => `${nameOf(work)} ${work.devices ?? ""}`);
  assertEquals(new Set(names).size, names.length);
});
