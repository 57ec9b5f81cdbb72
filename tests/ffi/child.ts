import { plain } from "../plain.ts";
import { fileURLToPath } from "node:url";
/**
 * Programs in a process of their own: what happens once in a process's life can be tested again.
 */

const config = fileURLToPath(new URL("../../deno.json", import.meta.url));

export interface Child {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface ChildOptions {
  readonly permissions?: readonly string[];
  readonly env?: Record<string, string>;
}

/** The arguments that run a module from text. */
export function denoArgs(source: string, permissions: readonly string[] = ["-A"]): string[] {
  const url = `data:application/typescript,${encodeURIComponent(resolve(source))}`;
  return ["run", "--no-prompt", "--config", config, ...permissions, url];
}

/** Modules of data: URLs cannot use relative names. */
function resolve(source: string): string {
  return source.replaceAll("@netcl/netcl/ffi", new URL("../../ffi/mod.ts", import.meta.url).href);
}

/** Runs a module from text to its end. */
export async function runChild(source: string, options: ChildOptions = {}): Promise<Child> {
  const { permissions, env = {} } = options;
  const command = new Deno.Command(Deno.execPath(), {
    args: denoArgs(source, permissions),
    env: { ...plain, ...env },
    stdin: "null",
  });
  const { code, stdout, stderr } = await command.output();
  const text = new TextDecoder();
  return { code, out: text.decode(stdout).trim(), err: text.decode(stderr).trim() };
}
