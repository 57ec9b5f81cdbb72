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

async function succeeds(command: string, args: string[], quiet = true): Promise<boolean> {
  const output = quiet ? "null" : "inherit";
  try {
    const child = new Deno.Command(command, {
      args,
      stdin: "null",
      stdout: output,
      stderr: output,
      env: { DEBIAN_FRONTEND: "noninteractive" },
    });
    return (await child.output()).success;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Asked in a process of its own: the ICD loader looks for platforms once in a process's life. */
function hasOpenCL(): Promise<boolean> {
  const probe = 'import { hasOpenCL } from "./tests/opencl.ts"; if (!hasOpenCL) Deno.exit(1);';
  return succeeds(Deno.execPath(), ["eval", "--quiet", probe]);
}

async function installPoCL(): Promise<boolean> {
  const asRoot = Deno.uid() === 0 ? [] : ["sudo", "-n"];
  const run = (...args: string[]) => {
    const [command, ...rest] = [...asRoot, "apt-get", ...args];
    return succeeds(command!, rest, false);
  };
  if (!await succeeds("apt-get", ["--version"])) {
    console.log("This machine has no OpenCL platform, and no apt-get to install PoCL with.");
    return false;
  }
  console.log(`This machine has no OpenCL platform: installing PoCL (${packages.join(", ")}).`);
  // An update fails for any one source that is out of reach; the packages may be there all the same.
  await run("update", "-qq");
  const done = await run("install", "-y", "-qq", "--no-install-recommends", ...packages);
  if (!done) console.log("PoCL could not be installed.");
  return done && await hasOpenCL();
}

/** Runs `deno test`; gives back how it ended and how many tests there were. */
async function denoTest(args: string[]): Promise<[code: number, counts: Counts]> {
  const report = await Deno.makeTempFile({ suffix: ".xml" });
  try {
    const { code } = await new Deno.Command(Deno.execPath(), {
      args: ["test", "-A", `--junit-path=${report}`, ...args],
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
if (!withOpenCL) {
  console.log(
    `${counts.ignored} of ${counts.all} tests were left out, as were the examples in the ` +
      `documentation of ${openCLDocs.join(", ")}: they need an OpenCL platform. ` +
      "Install a GPU driver, or PoCL (Debian, Ubuntu: apt install pocl-opencl-icd).",
  );
  if (Deno.env.get("CI") === "true") {
    console.log("CI=true: tests that are left out are a failure.");
    Deno.exitCode ||= 1;
  }
}
