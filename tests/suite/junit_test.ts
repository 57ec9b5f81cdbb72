/** The report of a process that ran several files of tests, file by file. */
import { assertEquals } from "@std/assert";
import { addUp, reportsOf } from "./junit.ts";

const testcase = (name: string, body = ""): string =>
  `<testcase name="${name}" classname="./tests/suite/together.ts" time="0.5" line="1" col="1">
    ${body}</testcase>`;

const xml = [
  testcase("tests/a_test.ts: adds"),
  testcase(
    "tests/a_test.ts: fails",
    '<failure message="1 !== &quot;2&quot;\nhere">tests/b_test.ts: x</failure>',
  ),
  testcase("tests/a_test.ts: adds &gt; a step of it"),
  testcase("tests/b_test.ts: needs a GPU", "<skipped/>"),
].join("\n");

Deno.test("tests are counted in their files, steps too, whose time is that of their test", () => {
  const reports = reportsOf(xml, ["tests/a_test.ts", "tests/b_test.ts", "tests/c_test.ts"]);
  assertEquals(reports, [
    {
      name: "tests/a_test.ts",
      counts: { all: 3, ignored: 0, failed: 1 },
      failures: ['fails: 1 !== "2"'],
      seconds: 1,
    },
    {
      name: "tests/b_test.ts",
      counts: { all: 1, ignored: 1, failed: 0 },
      failures: [],
      seconds: 0.5,
    },
    {
      name: "tests/c_test.ts",
      counts: { all: 0, ignored: 0, failed: 0 },
      failures: [],
      seconds: 0,
    },
  ]);
  assertEquals(addUp(reports.map(({ counts }) => counts)), { all: 4, ignored: 1, failed: 1 });
});

Deno.test("a process with one file has all the tests, whatever their names", () => {
  const [report] = reportsOf(testcase("adds"), ["tests/a_test.ts"]);
  assertEquals(report!.counts, { all: 1, ignored: 0, failed: 0 });
});
