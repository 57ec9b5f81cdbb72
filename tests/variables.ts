/** Variables of the environment that hold for a part of a test. */

function set(variables: Readonly<Record<string, string | undefined>>): void {
  for (const [name, value] of Object.entries(variables)) {
    if (value === undefined) Deno.env.delete(name);
    else Deno.env.set(name, value);
  }
}

/** Sets variables until it is disposed of; undefined takes one away. */
export function setVariables(variables: Readonly<Record<string, string | undefined>>): Disposable {
  const former = Object.keys(variables).map((name) => [name, Deno.env.get(name)] as const);
  set(variables);
  return { [Symbol.dispose]: () => set(Object.fromEntries(former)) };
}
