import { fileURLToPath } from "node:url";
import { plain } from "../plain.ts";

/** The end of an example, and its output. */
export interface Run {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/**
 * Runs an example in a folder away from the package.
 *
 * @param watch Called with what it has written so far, whenever that grows.
 */
export async function runExample(
  name: string,
  args: readonly string[],
  watch: (out: string, child: Deno.ChildProcess) => void = () => {},
): Promise<Run> {
  const example = fileURLToPath(new URL(`../../examples/${name}`, import.meta.url));
  const cwd = await Deno.makeTempDir();
  try {
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", example, ...args],
      cwd,
      env: plain,
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
    await Deno.remove(cwd, { recursive: true });
  }
}
