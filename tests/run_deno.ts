/** Programs in a process of their own, with what they print as plain text. */
import { plain } from "./plain.ts";

/** How a process ended, and what it printed. */
export interface Run {
  readonly success: boolean;
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs Deno to its end, without input. */
export async function runDeno(
  args: readonly string[],
  { env = {}, ...options }: Pick<Deno.CommandOptions, "cwd" | "env" | "uid" | "gid"> = {},
): Promise<Run> {
  const { success, code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    ...options,
    args: [...args],
    env: { ...plain, ...env },
    stdin: "null",
  }).output();
  const text = new TextDecoder();
  return { success, code, out: text.decode(stdout), err: text.decode(stderr) };
}
