import { fileURLToPath } from "node:url";
import { plain } from "../plain.ts";

/** The end of an example, and its output. */
export interface Run {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/**
 * Runs an example away from the package.
 *
 * @param watch Called with what it has written so far, whenever that grows.
 * @param options.folder A folder to run in; by default one of its own, which is taken away.
 */
export async function runExample(
  name: string,
  args: readonly string[],
  watch: (out: string, child: Deno.ChildProcess) => void = () => {},
  { folder, env = {} }: { folder?: string; env?: Record<string, string> } = {},
): Promise<Run> {
  const example = fileURLToPath(new URL(`../../examples/${name}`, import.meta.url));
  const cwd = folder ?? await Deno.makeTempDir();
  try {
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", example, ...args],
      cwd,
      // What ends after Ctrl+C may take longer than the usual grace on a busy machine.
      env: { ...plain, NETCL_SIGINT_GRACE_MS: "60000", ...env },
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const err = new Response(child.stderr).text();
    let out = "";
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      out += text;
      watch(out, child);
    }
    return { code: (await child.status).code, out, err: await err };
  } finally {
    if (folder === undefined) await Deno.remove(cwd, { recursive: true });
  }
}
