/** The jobs of the suite: every test is in one, in the manner that its file and its folders ask for. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { alone, type Job, suite } from "./jobs.ts";
import { mannerOf, wordsIn } from "./words.ts";

const files = suite("").flatMap((job) => job.files);

Deno.test("wordsIn reads how a file of tests wants to be run, and refuses words that there are not", () => {
  assertEquals(wordsIn("// Suite: alone, quick kernels; a reason.\nimport", "x"), [
    "alone",
    "quick kernels",
  ]);
  assertEquals(wordsIn("/** Tests. */", "x"), []);
  assertThrows(
    () => wordsIn("// Suite: alon; a reason.", "x_test.ts"),
    Error,
    'x_test.ts has unknown words of the suite ("alon")',
  );
});

Deno.test("mannerOf: a file's words count before those of its folders, the nearest first", () => {
  const large = mannerOf("tests/tensor/execution/large_test.ts");
  assertEquals([large.isAlone, large.waits, large.hasQuickKernels], [true, true, false]);
  const reading = mannerOf("tests/tensor/execution/printing_test.ts");
  assertEquals([reading.isAlone, reading.hasQuickKernels], [false, true]);
  assertEquals(reading.folder, "tests/tensor");
  assertEquals(mannerOf("tests/suite/jobs_test.ts").folder, "tests");
});

Deno.test("suite: what waits has a lane of its own, and a folder's quick kernels are not those of its others", () => {
  const lane = suite().filter(({ place }) => place === "waiting lane").flatMap((job) => job.files);
  assertEquals(lane.filter((file) => !mannerOf(file).waits), []);
  assert(lane.includes("tests/signals/terminal_test.ts"));
  const kinds = suite().map(({ files }) =>
    new Set(files.map((file) => mannerOf(file).hasQuickKernels)).size
  );
  assert(kinds.every((kinds) => kinds <= 1));
});

Deno.test("suite leaves out what asks no device for anything where an earlier run has passed it", () => {
  const again = new Set(suite("cpu").flatMap((job) => job.files));
  const passed = files.filter((file) => !again.has(file));
  assert(passed.includes("tests/backend/tile/programs/gemm_test.ts"));
  assertEquals(passed.filter((file) => mannerOf(file).hasDevice), []);
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
