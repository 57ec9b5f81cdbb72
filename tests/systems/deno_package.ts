/** Deno for another system, from npm. */
import { exists } from "../machine.ts";
import { succeed } from "../runtimes/tools.ts";
import { repository } from "./root.ts";

/**
 * Puts the Deno that runs this, made for another system, into a folder.
 *
 * @param platform Its name in the packages of npm, such as "win32-x64".
 * @param file Its name in the package.
 * @returns Its path.
 * @throws {Error} Where npm or the package is out of reach.
 */
export async function installDeno(folder: string, platform: string, file: string): Promise<string> {
  const name = `@deno/${platform}`, place = `${folder}/deno-${Deno.version.deno}`;
  const path = `${place}/node_modules/${name}/${file}`;
  if (!exists(path)) {
    await Deno.mkdir(place, { recursive: true });
    await Deno.writeTextFile(`${place}/package.json`, "{}\n");
    // It is for another system, which npm would refuse.
    const quiet = ["--force", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"];
    await succeed("npm", ["install", ...quiet, `${name}@${Deno.version.deno}`], place);
  }
  return path;
}

/** Modules that import packages of npm, which programs without a network find where they are cached. */
const withPackages = ["tensor/models/mod.ts", "tests/backend/kernel/row_program_test.ts"];

/** Puts these packages into a folder of Deno's. */
export async function fetchPackages(cache: string): Promise<void> {
  const args = ["cache", "--quiet", "--no-check", "--config", "deno.json", ...withPackages];
  const env = { DENO_DIR: cache };
  const run = new Deno.Command(Deno.execPath(), { args, env, cwd: repository, stdin: "null" });
  const { success, stderr } = await run.output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}
