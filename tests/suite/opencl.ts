/** Asks whether this machine has OpenCL, and installs what it lacks. */

/** A folder with the `ld` by which PoCL links kernels in a sixth of the time: says how. */
export const linker: string = `${import.meta.dirname}/linker`;

interface Outcome {
  readonly success: boolean;
  /** The output of the command, or that there is none of that name. */
  readonly output: string;
}

async function run(command: string, ...args: string[]): Promise<Outcome> {
  try {
    const env = { DEBIAN_FRONTEND: "noninteractive" };
    const child = new Deno.Command(command, { args, env, stdin: "null" });
    const { success, stdout, stderr } = await child.output();
    const text = new TextDecoder();
    return { success, output: text.decode(stdout) + text.decode(stderr) };
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    return { success: false, output: `There is no ${command} on this machine` };
  }
}

/** Asked in a process of its own: the ICD loader looks for platforms once in a process's life. */
export async function hasOpenCL(): Promise<boolean> {
  const probe = 'import { hasOpenCL } from "./tests/opencl.ts"; if (!hasOpenCL) Deno.exit(1);';
  return (await run(Deno.execPath(), "eval", "--quiet", probe)).success;
}

/**
 * Installs packages where there is an apt-get; says what it does.
 *
 * @returns Whether they are there now.
 */
export async function installPackages(packages: readonly string[]): Promise<boolean> {
  const isDebianLike = (await run("apt-get", "--version")).success;
  if (!isDebianLike) {
    console.log(`There is no apt-get to install ${packages.join(", ")} with.`);
    return false;
  }
  console.log(`Installing ${packages.join(", ")}.`);
  const [command, ...prefix] = Deno.uid() === 0 ? ["apt-get"] : ["sudo", "-n", "apt-get"];
  // An update fails for any one source that is out of reach; the packages may be there all the same.
  await run(command!, ...prefix, "update");
  const options = ["install", "-y", "--no-install-recommends", ...packages];
  const { success, output } = await run(command!, ...prefix, ...options);
  if (!success) console.log(output.trimEnd());
  return success;
}
