import { assertEquals } from "@std/assert";
import { isOpenCLAvailable } from "../../ffi/mod.ts";
import {
  type ColumnName,
  columns,
  expectedOf,
  faults,
  runCell,
  type State,
  states,
} from "./matrix.ts";

/** Programs at a time; most of them only wait for a signal. */
const AT_ONCE = 4;
const ignore = Deno.build.os === "windows" || !isOpenCLAvailable();

const cells = states.flatMap((state) =>
  (Object.keys(columns) as ColumnName[]).map((column) => ({ state, column }))
);

async function runAll(): Promise<Map<string, string[]>> {
  const results = new Map<string, string[]>();
  const waiting = cells.values();
  async function work(): Promise<void> {
    for (const { state, column } of waiting) {
      results.set(
        key(state, column),
        faults(await runCell(state, column), expectedOf(state, column)),
      );
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return results;
}

function key(state: State, column: ColumnName): string {
  return `${columns[column].title}, ${state.title}`;
}

Deno.test({
  name: "every signal ends a program in every state as the table says",
  ignore,
  async fn(t) {
    const results = await runAll();
    for (const { state, column } of cells) {
      const name = key(state, column);
      await t.step(name, () => assertEquals(results.get(name), []));
    }
  },
});
