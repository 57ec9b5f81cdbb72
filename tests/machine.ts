/** Files and commands that a machine has, or not: what needs them is left out elsewhere. */

/** True where there is a file or folder. */
export function exists(path: string | URL): boolean {
  return succeeds(() => Deno.statSync(path)) !== null;
}

/** True where a command is there and ends well. */
export function works(command: string, ...args: string[]): boolean {
  const options = { args, stdout: "null", stderr: "null" } as const;
  return succeeds(() => new Deno.Command(command, options).outputSync())?.success === true;
}

/** Null where what it needs is not found. */
function succeeds<T>(fn: () => T): T | null {
  try {
    return fn();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}
