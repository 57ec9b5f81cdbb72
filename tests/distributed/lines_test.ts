import { assertEquals } from "@std/assert";
import { assertGood, hasMpirun, mpirun } from "./mpirun.ts";

Deno.test("long lines that ranks print at the same time come out of mpirun whole", {
  ignore: !hasMpirun,
}, async () => {
  const ended = await mpirun(3, "lines_program.ts");
  assertGood(ended, 3);
  const long = ended.text.split("\n").filter((line) => line.startsWith("{"));
  const read = long.map((line): { rank: number; k: number; text: string } => JSON.parse(line));
  assertEquals(read.length, 30);
  for (const { rank, k, text } of read) assertEquals(text, `${rank}`.repeat(1000 * (k + 1)));
  assertEquals(ended.text.match(/^short \d$/gm)?.length, 30);
});
