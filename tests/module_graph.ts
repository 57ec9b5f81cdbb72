import { runDeno } from "./run_deno.ts";
// What `deno info --json` says of the published modules.

interface Dependency {
  specifier: string;
  code?: { specifier?: string; error?: string };
  type?: { specifier?: string; error?: string };
}

interface Info {
  modules: { specifier: string; error?: string; dependencies?: Dependency[] }[];
}

/** One import: both ends as paths from the root of the package, or as they were written. */
export interface Import {
  readonly from: string;
  readonly to: string;
  /** Erased before the program runs. */
  readonly typeOnly: boolean;
}

export const root = new URL("../", import.meta.url);

/** The files that a user of the package imports by name. */
export async function entryPoints(): Promise<string[]> {
  const config = JSON.parse(await Deno.readTextFile(new URL("deno.json", root)));
  return (Object.values(config.exports) as string[]).map((path) => path.replace(/^\.\//, ""));
}

/** Every import in the modules that `entry` needs, types included. */
export async function importsOf(entry: string): Promise<Import[]> {
  const { success, out, err } = await runDeno(["info", "--json", new URL(entry, root).href], {
    cwd: root,
  });
  if (!success) throw new Error(err);
  const info: Info = JSON.parse(out);
  return info.modules.flatMap(({ specifier, error, dependencies = [] }) => {
    if (error !== undefined) throw new Error(`${specifier}: ${error}`);
    return dependencies.map((dependency) => ({
      from: local(specifier),
      to: local((dependency.code ?? dependency.type)?.specifier ?? dependency.specifier),
      typeOnly: dependency.code === undefined,
    }));
  });
}

function local(specifier: string): string {
  return specifier.startsWith(root.href) ? specifier.slice(root.href.length) : specifier;
}
