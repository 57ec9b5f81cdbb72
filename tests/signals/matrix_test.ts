import { assertEquals } from "@std/assert";
import { hasOpenCL } from "../opencl.ts";
import { runAll } from "./driver.ts";
import { type ColumnName, columns, expectedOf, faults, runCell, states } from "./matrix.ts";

const cells = states.flatMap((state) =>
  (Object.keys(columns) as ColumnName[]).map((column) => ({ state, column }))
);

Deno.test("every signal ends a program in every state as the table says", {
  ignore: Deno.build.os === "windows" || !hasOpenCL,
}, async (t) => {
  const endings = await runAll(
    cells.map(({ state, column }) => async () =>
      faults(await runCell(state, column), expectedOf(state, column))
    ),
  );
  for (const [i, { state, column }] of cells.entries()) {
    await t.step(`${columns[column].title}, ${state.title}`, () => assertEquals(endings[i], []));
  }
});
