/**
 * `deno task test`: the whole suite, with its own set-up. Where there is no OpenCL platform and the
 * machine is Debian-like it installs PoCL first; where that cannot be done, it runs what needs no
 * OpenCL and says how much was left out, which with CI=true is a failure.
 *
 * Arguments go to `deno test`: `deno task test tests/memory --filter SlabPool`.
 */
import { type Counts, countTests } from "./junit.ts";

const packages = ["pocl-opencl-icd", "ocl-icd-libopencl1"];

/** Doc comments whose snippets need no OpenCL platform. */
const docs = ["README.md", "mod.ts", "tensor"];
const openCLDocs = ["ffi", "memory", "backend"];

interface Outcome {
  readonly success: boolean;
  /** What the command printed, or that there is none of that name. */
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
async function hasOpenCL(): Promise<boolean> {
  const probe = 'import { hasOpenCL } from "./tests/opencl.ts"; if (!hasOpenCL) Deno.exit(1);';
  return (await run(Deno.execPath(), "eval", "--quiet", probe)).success;
}

/** Says what it does; true where there is an OpenCL platform afterwards. */
async function installPoCL(): Promise<boolean> {
  const isDebianLike = (await run("apt-get", "--version")).success;
  if (!isDebianLike) {
    console.log("This machine has no OpenCL platform, and no apt-get to install PoCL with.");
    return false;
  }
  console.log(`This machine has no OpenCL platform: installing PoCL (${packages.join(", ")}).`);
  const [command, ...prefix] = Deno.uid() === 0 ? ["apt-get"] : ["sudo", "-n", "apt-get"];
  // An update fails for any one source that is out of reach; the packages may be there all the same.
  await run(command!, ...prefix, "update");
  const options = ["install", "-y", "--no-install-recommends", ...packages];
  const { success, output } = await run(command!, ...prefix, ...options);
  if (success && await hasOpenCL()) return true;
  console.log(success ? "PoCL is installed, and has no device here." : output);
  return false;
}

/**
 * Thousands of kernels, each for one test: to keep them would compile every one twice on PoCL, a third
 * of the whole time, and push a user's own out of the cache.
 */
const env = { NETCL_CACHE_DIR: Deno.env.get("NETCL_CACHE_DIR") ?? "off" };

/** Runs `deno test`; gives back how it ended and how many tests there were. */
async function denoTest(args: string[]): Promise<[code: number, counts: Counts]> {
  const report = await Deno.makeTempFile({ suffix: ".xml" });
  try {
    const { code } = await new Deno.Command(Deno.execPath(), {
      args: ["test", "-A", `--junit-path=${report}`, ...args],
      env,
      stdin: "null",
      stdout: "inherit",
      stderr: "inherit",
    }).output();
    return [code, countTests(await Deno.readTextFile(report))];
  } finally {
    await Deno.remove(report);
  }
}

Deno.chdir(new URL("..", import.meta.url));
const withOpenCL = await hasOpenCL() || await installPoCL();
const chosen = Deno.args.some((arg) => !arg.startsWith("-"));
const [code, counts] = await denoTest([...chosen ? [] : ["tests"], ...Deno.args]);
Deno.exitCode = code;
if (!chosen) {
  const files = [...docs, ...withOpenCL ? openCLDocs : []];
  const [docCode] = await denoTest(["--doc", "--preload=tests/doc_setup.ts", ...files]);
  Deno.exitCode ||= docCode;
}
if (!withOpenCL && counts.all > 0) {
  console.log(
    `${counts.ignored} of ${counts.all} tests were left out, as were the examples in the ` +
      `documentation of ${openCLDocs.join(", ")}: they need an OpenCL platform. ` +
      "Install a GPU driver, or PoCL (Debian, Ubuntu: apt install pocl-opencl-icd).",
  );
}
if (!withOpenCL && Deno.env.get("CI") === "true") {
  console.log("CI=true: tests that are left out are a failure.");
  Deno.exitCode ||= 1;
}
