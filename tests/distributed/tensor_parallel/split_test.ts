import { assertEquals } from "@std/assert";
import { readPart } from "../../../tensor/models/weights/weight_part.ts";
import { testWay } from "../ways/test_ways.ts";

for (const [ranks, where] of [[2, "cpu,all"], [3, "cpu"], [4, "cpu"], [2, "cl"]] as const) {
  testWay(
    `LanguageModel that ${ranks} ranks on "${where}" hold together: what one writes, from a part of the weights`,
    ranks,
    `tensor_parallel/split_program.ts?${where}`,
  );
}

Deno.test("readPart reads rows and columns of whole units, and nothing else of whole rows", async () => {
  const matrix = Uint8Array.from({ length: 6 * 8 }, (_, k) => k), asked: number[][] = [];
  const read = (begin: number, end: number): Promise<Uint8Array> => {
    asked.push([begin, end]);
    return Promise.resolve(matrix.subarray(begin, end));
  };
  const unit = { elements: 2, bytes: 4 }, shape = [6, 4];
  const rows = await readPart(read, shape, { rows: [[1, 2], [4, 6]], columns: null }, unit);
  assertEquals([...rows], [...matrix.subarray(8, 16), ...matrix.subarray(32, 48)]);
  assertEquals(asked, [[8, 16], [32, 48]]);
  const half = await readPart(read, shape, { rows: null, columns: [[2, 4]] }, unit);
  assertEquals([...half], [...matrix].filter((value) => value % 8 >= 4));
});
