/** Lists of tests name those that there are: a test that gets another name would run where it cannot pass, or nowhere. */
import { assertEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import { hasOpenCL } from "../../opencl.ts";
import { tests as onRusticl } from "../../rusticl/left_out.ts";
import { leftOut as onRuntimes } from "../../runtimes/left_out.ts";
import { runDeno } from "../../run_deno.ts";
import { leftOut as onArm64 } from "../../systems/arm64_left_out.ts";
import { leftOut as inWine } from "../../systems/wine_left_out.ts";
import { type LeftOutTests, reasonFor } from "./left_out.ts";

const root = new URL("../../../", import.meta.url);
const cwd = fileURLToPath(root);
const tables = [onRusticl, inWine, onArm64, ...onRuntimes.node, ...onRuntimes.bun];

/** The names of the tests of each file. */
async function namesIn(files: readonly string[]): Promise<Record<string, string[]>> {
  const program = "tests/suite/left_out/test_names.ts";
  const args = ["run", "-A", "--no-check", program, ...files.map((file) => `tests/${file}`)];
  const { success, out, err } = await runDeno(args, { cwd });
  if (!success) throw new Error(err);
  return JSON.parse(out.trimEnd().split("\n").at(-1)!);
}

/** Names of a table that files do not have. */
function missing(table: LeftOutTests, names: Record<string, string[]>): string[] {
  return Object.entries(table).flatMap(([file, tests]) =>
    Object.keys(tests)
      .filter((part) => !names[`tests/${file}`]!.some((name) => name.includes(part)))
      .map((part) => `${file}: ${part}`)
  );
}

Deno.test("reasonFor finds the reason by the file and a part of the name", () => {
  const tests = { "a/b_test.ts": { "is left": "one" }, "c_test.ts": { "": "all" } };
  assertEquals(reasonFor(tests, "file:///x/tests/a/b_test.ts", "f is left out"), "one");
  assertEquals(reasonFor(tests, "tests/a/b_test.js", "f is left out"), "one");
  assertEquals(reasonFor(tests, "tests/a/b_test.ts", "f is not"), undefined);
  assertEquals(reasonFor(tests, "tests/b_test.ts", "f is left out"), undefined);
  assertEquals(reasonFor(tests, "tests/c_test.ts", "whatever"), "all");
});

// Some are named by what a device has.
Deno.test("LeftOutTests: each name that a table has is part of the name of a test of its file", {
  ignore: !hasOpenCL,
}, async () => {
  const names = await namesIn([...new Set(tables.flatMap(Object.keys))]);
  const fault = missing({ "a_test.ts": { "no such": "" } }, { "tests/a_test.ts": ["a test"] });
  assertEquals(fault, ["a_test.ts: no such"]);
  assertEquals(tables.flatMap((table) => missing(table, names)), []);
});

/** Files in which checks name the tests that they run. */
const lists = [
  ".ci/run",
  "tests/compilers/check.ts",
  "tests/intel/check.ts",
  "tests/oclgrind/check.ts",
  "tests/runtimes/check.ts",
  "tests/rusticl/check.ts",
  "tests/systems/arm64_check.ts",
  "tests/systems/wine_check.ts",
  "deno.json",
  "README.md",
];

Deno.test("lists of tests that a check runs name files and folders that there are", async () => {
  const faults: string[] = [];
  for (const list of lists) {
    const text = await Deno.readTextFile(new URL(list, root));
    for (const [path] of text.matchAll(/\btests\/[a-z]\w*(?:\/\w+)*(?:\.\w+)?/g)) {
      const isThere = await Deno.stat(new URL(path, root)).then(() => true, () => false);
      if (!isThere && !path.endsWith(".js")) faults.push(`${list}: ${path}`);
    }
  }
  assertEquals(faults, []);
});
