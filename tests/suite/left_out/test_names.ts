/**
 * Prints the names of the tests of files, by file, as JSON: `deno run -A tests/suite/left_out/test_names.ts FILE...`.
 * None of them runs.
 */

/** The name of a test, as `Deno.test` takes its first argument. */
export function nameOf(first: string | { readonly name?: string }): string {
  return typeof first === "string" ? first : first.name ?? "";
}

async function namesIn(file: string): Promise<string[]> {
  const names: string[] = [];
  const register = (first: Parameters<typeof nameOf>[0]): void => void names.push(nameOf(first));
  Object.defineProperty(Deno, "test", {
    value: Object.assign(register, { ignore: register }),
    configurable: true,
  });
  await import(new URL(`../../../${file}`, import.meta.url).href);
  return names;
}

if (import.meta.main) {
  const found: Record<string, string[]> = {};
  for (const file of Deno.args) found[file] = await namesIn(file);
  console.log(JSON.stringify(found));
  Deno.exit(); // what files keep open for their tests
}
