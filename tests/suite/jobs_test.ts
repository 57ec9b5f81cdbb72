/** Tests that are named elsewhere are there: a test that moves must not lose what is said of it. */
import { assert, assertEquals } from "@std/assert";
import { tests as leftOut } from "../rusticl/left_out.ts";
import { alone, type Job, named, suite } from "./jobs.ts";

const files = suite().flatMap((job) => job.files);

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

Deno.test("each file of tests is in one process, which none with other variables shares", () => {
  assertEquals(new Set(files).size, files.length);
  const isOne = ({ files, args }: Job): boolean =>
    files.length <= 1 || args[3] === "tests/suite/together.ts";
  assertEquals(suite().filter((job) => !isOne(job)), []);
});

Deno.test("alone runs a file as the suite does, in a process of its own", () => {
  const file = "tests/backend/shutdown_test.ts";
  const [one, ...others] = alone([file, "tests/no_test.ts"]);
  assertEquals(others, []);
  assertEquals([one!.files, one!.args.at(-1)], [[file], file]);
  assertEquals(one!.env, suite().find(({ files }) => files.includes(file))!.env);
});
