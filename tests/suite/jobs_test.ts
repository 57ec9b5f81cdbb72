/** Tests that are named elsewhere are there: a test that moves must not lose what is said of it. */
import { assert, assertEquals } from "@std/assert";
import { tests as leftOut } from "../rusticl/left_out.ts";
import { named, suite } from "./jobs.ts";

const files = suite().map(({ name }) => name).filter((name) => name.endsWith("_test.ts"));

Deno.test("what the suite runs alone, first or quickly is a file or a folder of tests", () => {
  assert(files.includes("tests/suite/jobs_test.ts"));
  const isThere = (part: string): boolean =>
    part.endsWith("/")
      ? files.some((file) => file.startsWith(`tests/${part}`))
      : files.includes(`tests/${part}_test.ts`) ||
        files.some((file) => file.startsWith(`tests/${part}/`));
  assertEquals(named.filter((part) => !isThere(part)), []);
});

Deno.test("what is left out on rusticl is named by a file of tests that there is", () => {
  assertEquals(
    leftOut.map(([file]) => `tests/${file}`).filter((file) => !files.includes(file)),
    [],
  );
});
