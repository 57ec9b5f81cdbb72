/**
 * Programs in a process of their own: what happens once in a process's life can be tested again.
 */
import { fileURLToPath } from "node:url";
import { runDeno } from "../run_deno.ts";

const config = fileURLToPath(new URL("../../deno.json", import.meta.url));

interface Child {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

interface ChildOptions {
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
  const { code, out, err } = await runDeno(denoArgs(source, permissions), { env });
  return { code, out: out.trim(), err: err.trim() };
}
