/** What the command line asks for; a mistake in it is said in a line, with status 2. */
export function argumentsOrExit<T>(parse: (args: string[]) => T): T {
  try {
    return parse(Deno.args);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    console.error(error.message);
    Deno.exit(2);
  }
}
