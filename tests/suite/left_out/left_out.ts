/** Tests that a driver, a system or a runtime cannot pass. */
import { nameOf } from "./test_names.ts";

/** Such tests by their file, below `tests/`: parts of their names, with the reasons. "" is part of every name. */
export type LeftOutTests<Reason extends string = string> = Readonly<
  Record<string, Readonly<Record<string, Reason>>>
>;

/**
 * The reason to leave a test out; undefined for others.
 *
 * @param file Its path or address, also that of its JavaScript.
 */
export function reasonFor<Reason extends string>(
  tests: LeftOutTests<Reason>,
  file: string,
  name: string,
): Reason | undefined {
  const path = file.replace(/^.*\btests\//, "").replace(/\.js$/, ".ts");
  return Object.entries(tests[path] ?? {}).find(([part]) => name.includes(part))?.[1];
}

/**
 * Has `Deno.test` ignore tests of the file that `deno test` runs: for a module that it loads before.
 *
 * @param counts True for a reason that holds here.
 */
export function leaveOut<Reason extends string>(
  tests: LeftOutTests<Reason>,
  counts: (reason: Reason) => boolean = () => true,
): void {
  const register = Deno.test as (...args: unknown[]) => void;
  const test = (...args: unknown[]): void => {
    const name = nameOf(args[0] as string), reason = reasonFor(tests, Deno.mainModule, name);
    if (reason !== undefined && counts(reason)) Deno.test.ignore(name, () => {});
    else register(...args);
  };
  Object.defineProperty(Deno, "test", { value: Object.assign(test, Deno.test) });
}
