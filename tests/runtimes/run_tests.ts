/**
 * Runs files of tests on Node and Bun: `Deno.test` for them, and what came of it.
 *
 *     node tests/runtimes/run_tests.js FILE.js ...
 */
import { LeftOut } from "./deno.ts";
import { reasonFor } from "../suite/left_out/left_out.ts";
import { leftOut } from "./left_out.ts";
import { host } from "../../ffi/runtime/host.ts";
import { pathToFileURL } from "node:url";

type Fn = (t: Context) => unknown;
interface Definition {
  readonly name: string;
  readonly fn: Fn;
  readonly ignore?: boolean;
  readonly only?: boolean;
}
interface Context {
  readonly name: string;
  readonly origin: string;
  step(first: string | Definition | Fn, fn?: Fn): Promise<boolean>;
}

const tables = leftOut[host.runtime as keyof typeof leftOut];
const counts = { passed: 0, failed: 0, ignored: 0 };
let tests: Definition[] = [];

type Arguments = readonly (string | Partial<Definition> | Fn | undefined)[];

/** A test as `Deno.test` takes it: a name and options at any place, and a function. */
function definitionOf(...args: Arguments): Definition {
  const fn = args.find((arg) => typeof arg === "function");
  const name = args.find((arg) => typeof arg === "string") ?? fn?.name ?? "";
  const options = args.find((arg) => typeof arg === "object") as Partial<Definition> | undefined;
  return { name, ...(fn && { fn: fn as Fn }), ...options } as Definition;
}

const register = (...args: Arguments): void => void tests.push(definitionOf(...args));

Object.assign((globalThis as unknown as { Deno: Record<string, unknown> }).Deno, {
  test: Object.assign(register, {
    ignore: (...args: Arguments) => void tests.push({ ...definitionOf(...args), ignore: true }),
  }),
});

/** Runs one; says what is wrong with one that fails. */
async function passes({ name, fn, ignore = false }: Definition, origin: string): Promise<boolean> {
  const reason = tables.map((table) => reasonFor(table, origin, name)).find(Boolean);
  if (ignore || reason) {
    counts.ignored++;
    if (reason) console.log(`left out  ${name} (${origin}): ${reason}`);
    return true;
  }
  let allSteps = true;
  const context: Context = {
    name,
    origin,
    step: async (first, second) => {
      const step = definitionOf(first, second);
      const passed = await passes({ ...step, name: `${name}: ${step.name}` }, origin);
      allSteps &&= passed;
      return passed;
    },
  };
  try {
    await fn(context);
    if (!allSteps) throw new Error("a step failed");
    counts.passed++;
    console.log(`passed  ${name} (${origin})`);
    return true;
  } catch (error) {
    if (error instanceof LeftOut) {
      counts.ignored++;
      console.log(`left out  ${name} (${origin}): ${error.message}`);
      return true;
    }
    counts.failed++;
    console.log(`FAILED  ${name} (${origin})`);
    console.log(error);
    return false;
  }
}

for (const file of process.argv.slice(2)) {
  tests = [];
  try {
    await import(pathToFileURL(file).href);
  } catch (error) {
    if (error instanceof LeftOut) {
      counts.ignored++;
      console.log(`left out  ${file}: ${error.message}`);
      continue;
    }
    counts.failed++;
    console.log(`FAILED  ${file} cannot be loaded`, error);
    continue;
  }
  for (const test of tests) await passes(test, file);
}
const { passed, failed, ignored } = counts;
console.log(
  `${failed === 0 ? "ok" : "FAILED"} | ${passed} passed | ${failed} failed | ${ignored} ignored`,
);
// Listeners and threads that tests leave keep no program of theirs alive.
process.exit(failed === 0 ? 0 : 1);
