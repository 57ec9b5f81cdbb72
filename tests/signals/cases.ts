/** Programs that end in ways of their own, as rows: run side by side, and a step each. */
import { assertEquals } from "@std/assert";
import { type Expected, faults, run, runAll, type RunOptions } from "./driver.ts";
import { GRACE } from "./matrix.ts";

/** A program with its due end. */
export interface Case extends Expected, RunOptions {
  /** The first argument of the module; others follow it. */
  readonly program: string;
  readonly title: string;
  readonly graceMs?: number;
}

/** A row, with what it has in common with others. */
export function row(
  program: string,
  title: string,
  ending: string,
  ...parts: readonly Partial<Case>[]
): Case {
  return Object.assign({ program, title, ending }, ...parts);
}

/** Tests that programs of a module end as they should. */
export function testCases(
  name: string,
  module: URL,
  cases: readonly Case[],
  { ignore }: { readonly ignore: boolean },
): void {
  Deno.test(name, { ignore }, async (t) => {
    const endings = await runAll(cases.map((each) => () => {
      const { program, args = [], graceMs = GRACE, env } = each;
      const window = { NETCL_SIGINT_GRACE_MS: String(graceMs) };
      return run(module, { ...each, args: [program, ...args], env: { ...window, ...env } });
    }));
    for (const [i, each] of cases.entries()) {
      await t.step(each.title, () => assertEquals(faults(endings[i]!, each), []));
    }
  });
}
