/** Node, Bun and TypeScript from npm, in a folder of their own: nothing of the machine's own is changed. */

/** Names of a system and a processor in packages of npm. */
const platform = `${Deno.build.os}-${Deno.build.arch === "aarch64" ? "arm64" : "x64"}`;
const packages = [
  `node-${platform}@26.12.1`,
  `@oven/bun-${platform}@1.4.4`,
  "typescript@7.0.2",
  "fast-check@4.10.2",
];

/** The programs, as commands with their first arguments. */
export interface Tools {
  /** Folder of the packages. */
  readonly modules: string;
  readonly runtimes: Readonly<Record<"node" | "bun", string>>;
  readonly typescript: string;
}

/** Runs a command to its end; its output is in the error of one that fails. */
export async function succeed(command: string, args: string[], cwd?: string): Promise<string> {
  const run = new Deno.Command(command, { args, stdin: "null", ...(cwd && { cwd }) });
  const { success, stdout, stderr } = await run.output(), text = new TextDecoder();
  if (success) return text.decode(stdout);
  throw new Error(`${command} ${args.join(" ")}: ${text.decode(stdout)}${text.decode(stderr)}`);
}

/**
 * Installs the tools; a folder that has them already is left as it is.
 *
 * @throws {Error} Where npm or a package is out of reach.
 */
export async function installTools(folder: string): Promise<Tools> {
  const modules = `${folder}/node_modules`,
    done = `${folder}/installed`,
    list = packages.join("\n");
  const former = await Deno.readTextFile(done).catch(() => "");
  if (former !== list) {
    await Deno.mkdir(folder, { recursive: true });
    await Deno.writeTextFile(`${folder}/package.json`, "{}\n");
    const quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"];
    await succeed("npm", ["install", ...quiet, "--save-exact", ...packages], folder);
    await Deno.writeTextFile(done, list);
  }
  return {
    modules,
    runtimes: {
      node: `${modules}/node-${platform}/bin/node`,
      bun: `${modules}/@oven/bun-${platform}/bin/bun`,
    },
    typescript: `${modules}/.bin/tsc`,
  };
}
