/** Rows of the table of functions with options: a name as the documentation has it, and a call. */

// deno-lint-ignore no-explicit-any -- what a caller without types may pass
export type Untyped = any;

/** A call of a function with the given options. */
export type Call = (options: Untyped) => unknown;

/**
 * Rows of functions that take the same before their options.
 *
 * @param prefix What stands before their names: "nn.", "Tensor::", "new optim.".
 * @param owner The object whose members they are.
 * @param before The arguments before the options.
 * @param names Their names, with spaces between them.
 */
export function rowsOf(
  prefix: string,
  owner: Untyped,
  before: readonly unknown[],
  names: string,
): Record<string, Call> {
  const call = (name: string): Call => (options) =>
    prefix.startsWith("new ")
      ? new owner[name](...before, options)
      : owner[name](...before, options);
  return Object.fromEntries(
    names.split(" ").map((name) => [`${prefix}${name}(${before.length})`, call(name)]),
  );
}
