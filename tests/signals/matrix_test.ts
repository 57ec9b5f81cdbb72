import { assertEquals } from "@std/assert";
import { hasOpenCL } from "../opencl.ts";
import { faults, runAll } from "./driver.ts";
import { type ColumnName, columns, expectedOf, runCell, states } from "./matrix.ts";

const cells = states.flatMap((state) =>
  (Object.keys(columns) as ColumnName[]).map((column) => ({ state, column }))
);

let endings: Promise<string[][]> | null = null;

/** Faults of the end of each cell; the cells run side by side. */
function faultsOfAll(): Promise<string[][]> {
  return endings ??= runAll(
    cells.map(({ state, column }) => async () =>
      faults(await runCell(state, column), expectedOf(state, column))
    ),
  );
}

for (const [i, { state, column }] of cells.entries()) {
  Deno.test(`${columns[column].title} ends a program as the table says: ${state.title}`, {
    ignore: Deno.build.os === "windows" || !hasOpenCL,
  }, async () => assertEquals((await faultsOfAll())[i], []));
}
