import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { testOnBackends } from "../opencl.ts";
import { runExample } from "./run_example.ts";

testOnBackends("linear regression finds the line", async (backend) => {
  const args = ["--steps", "60", "--device", backend, "--seed", "4"];
  const { code, out, err } = await runExample("linear_regression.ts", args);
  assertEquals(code, 0, err);
  assertEquals(out.match(/^step /gm)?.length, 3);
  const [, slope, offset] = /^y = (\S+) x \+ (\S+)$/m.exec(out) ?? [];
  assert(Math.abs(Number(slope) - 3) < 0.1 && Math.abs(Number(offset) - 2) < 0.1, out);
});

Deno.test("linear regression is 20 lines, and imports the package by its name", async () => {
  const source = new URL("../../examples/linear_regression.ts", import.meta.url);
  const text = await Deno.readTextFile(source);
  assert(text.trimEnd().split("\n").length <= 20);
  assertStringIncludes(text, 'from "@netcl/netcl"');
});

Deno.test("linear regression's help lists its flags, and mistakes are said", async () => {
  const { code, out } = await runExample("linear_regression.ts", ["--help"]);
  assertEquals(code, 0);
  for (const flag of ["steps", "device", "seed", "help"]) assertStringIncludes(out, `--${flag} `);
  const wrong = await runExample("linear_regression.ts", ["--device", "cl:99:0"]);
  assertEquals([wrong.code, wrong.out], [2, ""]);
  assertMatch(wrong.err, /cl:99:0|OpenCL/);
});
