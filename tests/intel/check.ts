/**
 * Runs tests and programs on a third OpenCL implementation: Intel's runtime for processors, which pip
 * installs in a folder of its own.
 *
 *     deno run -A tests/intel/check.ts [file or folder of tests, or program ...]
 *
 * Without a file of tests it runs a share of them. A name with a number, such as `05_tensor.ts`, is a program.
 * As many run side by side as there are cores. Where pip cannot install the runtime it says so and succeeds.
 */
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { plain } from "../plain.ts";
import { runDeno } from "../run_deno.ts";
import { type Job, runJobs } from "../systems/side_by_side.ts";

/** Packages that are installed: the runtime, and the library of functions that it loads. */
const packages = ["intel-opencl-rt==2025.3.3", "intel-cmplr-lib-rt==2025.3.3"];
const root = fileURLToPath(new URL("../../", import.meta.url));
const share = [
  "tests/ffi/events/event_test.ts",
  "tests/ffi/kernels",
  "tests/ffi/memory/buffer_test.ts",
  "tests/ffi/objects/device_test.ts",
  "tests/ffi/queue/command_queue_test.ts",
  "tests/memory/pools/slab_pool_test.ts",
  "tests/memory/devices/storage_test.ts",
  "tests/backend/opencl/runtime/programs_test.ts",
  "tests/tensor/execution/fusion_test.ts",
];
/** Seconds until a program that hangs is ended. */
const TIME_LIMIT = 300;

/** The output of a command that failed; null where it did not. */
async function failureOf(command: string, ...args: string[]): Promise<string | null> {
  try {
    const { success, stdout, stderr } = await new Deno.Command(command, { args }).output();
    const text = new TextDecoder();
    return success ? null : text.decode(stdout) + text.decode(stderr);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return `there is no ${command}`;
    throw error;
  }
}

/** Installs the runtime; says why where that fails. */
async function install(folder: string): Promise<boolean> {
  const failure = await failureOf("python3", "-m", "venv", folder) ??
    await failureOf(
      `${folder}/bin/pip`,
      ...["install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"],
      ...packages,
    );
  if (failure !== null) console.log(`Intel's runtime cannot be installed: ${failure.trim()}`);
  return failure === null;
}

/** The environment of a program that sees this runtime only, and keeps binaries for the next one of this run. */
async function environmentIn(folder: string): Promise<Record<string, string>> {
  await Deno.mkdir(`${folder}/vendors`);
  await Deno.writeTextFile(`${folder}/vendors/intel.icd`, `${folder}/lib/libintelocl.so\n`);
  return {
    OCL_ICD_VENDORS: `${folder}/vendors/`,
    NETCL_CACHE_DIR: `${folder}/binaries`,
    NETCL_DETERMINISTIC: "1",
  };
}

/** Fails where netcl sees another platform, or none: nothing would be shown. */
async function seesIntel(env: Record<string, string>): Promise<boolean> {
  const text = 'import { manager } from "@netcl/netcl";' +
    'console.log(manager.default("cl").platformName);';
  const { out, err } = await runDeno(["eval", text], { env, cwd: root });
  const isIntel = /Intel/.test(out);
  if (!isIntel) console.log(`FAILED  no platform of Intel: ${out}${err}`);
  return isIntel;
}

function isProgram(path: string): boolean {
  return /(?:^|\/)\d\d_\w+\.ts$/.test(path);
}

function jobFor(path: string, env: Record<string, string>): Job {
  const args = isProgram(path)
    ? ["run", "-A", "--no-check", "--config", "deno.json", path]
    : ["test", "-A", "--no-check", path];
  return { name: path, command: [Deno.execPath(), ...args], env: { ...plain, ...env }, cwd: root };
}

async function main(): Promise<boolean> {
  const folder = await Deno.makeTempDir({ prefix: "intel" });
  try {
    if (!await install(folder)) return true;
    const env = await environmentIn(folder);
    const paths = [...Deno.args.every(isProgram) ? share : [], ...Deno.args];
    const jobs = paths.map((path) => jobFor(path, env));
    return await seesIntel(env) &&
      await runJobs(jobs, { atOnce: availableParallelism(), limit: TIME_LIMIT });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.exit(await main() ? 0 : 1);
