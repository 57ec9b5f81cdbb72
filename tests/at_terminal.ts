/** Programs at a terminal of their own, which `script` of util-linux gives them. */

/** The shell's line that becomes a program. */
function lineOf(words: readonly string[]): string {
  // A shell that stayed would hear Ctrl+C as well: dash then ends by it, and its status is no longer the program's.
  return `exec ${words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ")}`;
}

/** Such a line with other words instead of its own; any other text as it is. */
export function withWords(line: string, change: (words: string[]) => readonly string[]): string {
  if (!line.startsWith("exec '")) return line;
  const quoted = line.match(/(?:'[^']*'|\\')+/g)!;
  return lineOf(change(quoted.map((word) => word.slice(1, -1).replaceAll(`'\\''`, "'"))));
}

/** A command that runs `words` at a terminal, whose keys are its standard input, and ends with their status. */
export function atTerminal(
  words: readonly string[],
  { env, ...options }: Deno.CommandOptions = {},
): Deno.Command {
  return new Deno.Command("script", {
    args: ["--quiet", "--return", "--flush", "--command", lineOf(words), "/dev/null"],
    env: { ...env, SHELL: "/bin/sh" }, // which script runs
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
    ...options,
  });
}
