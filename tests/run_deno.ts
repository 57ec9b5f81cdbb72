/** Programs in a process of their own, with what they print as plain text. */
import { plain } from "./plain.ts";

/** The end of a process, and its output. */
export interface Run {
  readonly success: boolean;
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

type RunOptions = Pick<Deno.CommandOptions, "cwd" | "env"> & {
  /** A command and its arguments that start Deno, such as `setpriv`. */
  readonly through?: readonly string[];
};

/** Runs Deno to its end, without input unless there is some. */
export async function runDeno(
  args: readonly string[],
  { env = {}, through = [], ...options }: RunOptions = {},
  input?: string,
): Promise<Run> {
  const [command, ...all] = [...through, Deno.execPath(), ...args];
  const child = new Deno.Command(command!, {
    ...options,
    args: all,
    env: { ...plain, ...env },
    stdin: input === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const output = child.output();
  if (input !== undefined) await new Response(input).body!.pipeTo(child.stdin);
  const { success, code, stdout, stderr } = await output;
  const text = new TextDecoder();
  return { success, code, out: text.decode(stdout), err: text.decode(stderr) };
}

/**
 * Runs a program from its text, with all permissions. Not by `deno eval`, for which V8 compiles all of
 * netcl again (50 ms).
 *
 * @param flags Of `deno run`.
 */
export function runProgram(
  text: string,
  { flags = [], ...options }: RunOptions & { readonly flags?: readonly string[] } = {},
): Promise<Run> {
  return runDeno(["run", "-A", "--no-check", "--quiet", "--ext=ts", ...flags, "-"], options, text);
}
