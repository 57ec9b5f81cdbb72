/**
 * Several files of tests in one process: `deno test tests/suite/together.ts -- FILE...`. netcl is
 * loaded once, and kernels that several of them need are compiled once.
 *
 * Each test keeps its own name, behind that of its file.
 */
import { prefixOf } from "./junit.ts";

type Fn = Deno.TestDefinition["fn"];
type Definition = Omit<Deno.TestDefinition, "fn">;

const register = Deno.test;

/** `Deno.test` for the tests of a file, called in one of the three ways that they use. */
function testOf(file: string): typeof Deno.test {
  const prefix = prefixOf(file);
  const test = (first: string | Definition, second?: Fn | Definition, third?: Fn): void => {
    const options = [first, second].find((argument) => typeof argument === "object");
    const fn = [second, third].find((argument) => typeof argument === "function");
    const name = typeof first === "string" ? first : first.name;
    register({ ...options, ...(fn && { fn }), name: prefix + name } as Deno.TestDefinition);
  };
  const ignore = (name: string, fn: Fn): void => register.ignore(prefix + name, fn);
  return Object.assign(test, { ignore }) as unknown as typeof Deno.test;
}

for (const file of Deno.args) {
  Object.defineProperty(Deno, "test", { value: testOf(file), configurable: true });
  await import(new URL(`../../${file}`, import.meta.url).href);
}
