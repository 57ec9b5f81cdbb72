/**
 * Runs tests on a second OpenCL implementation: Mesa's rusticl, with llvmpipe on the CPU.
 *
 *     deno run -A tests/rusticl/check.ts [file or folder of tests, or acceptance program ...]
 *
 * Without a name it runs a share that takes a minute. What the driver's faults forbid is left out, by the
 * table `left_out.ts`, and only while the fault shows. Where rusticl is not installed (Debian:
 * mesa-opencl-icd) it says so and succeeds, unless CI=true.
 */
import { fileURLToPath } from "node:url";
import { type FaultName, faults } from "./faults.ts";
import { programs } from "./left_out.ts";

const vendor = "/etc/OpenCL/vendors/rusticl.icd";
const root = fileURLToPath(new URL("../../", import.meta.url));
const share = [
  "tests/ffi/memory/buffer_test.ts",
  "tests/ffi/queue/command_queue_test.ts",
  "tests/ffi/objects/device_test.ts",
  "tests/ffi/events/event_test.ts",
  "tests/ffi/kernels/kernel_test.ts",
  "tests/ffi/kernels/program_test.ts",
  "tests/memory/fences/fences_test.ts",
  "tests/memory/pools/slab_pool_test.ts",
  "tests/memory/devices/storage_test.ts",
  "tests/backend/opencl/templates/gpu_kernels_test.ts",
  "tests/backend/opencl/runtime/programs_test.ts",
  "tests/backend/opencl/codegen/vector_math_test.ts",
  "tests/tensor/execution/fusion_test.ts",
  "tests/tensor/ops/precision_test.ts",
  "tests/tensor/ops/without_doubles_test.ts",
  "tests/tensor/nn/losses_test.ts",
];

/** A folder that names this driver alone. */
async function onlyRusticl(): Promise<string> {
  const folder = await Deno.makeTempDir({ prefix: "rusticl" });
  await Deno.copyFile(vendor, `${folder}/rusticl.icd`);
  return `${folder}/`;
}

/** The environment of a program that sees llvmpipe only, and keeps binaries for the next one of this run. */
function environment(vendors: string): Record<string, string> {
  return {
    OCL_ICD_VENDORS: vendors,
    RUSTICL_ENABLE: "llvmpipe",
    NO_COLOR: "1",
    NETCL_CACHE_DIR: `${vendors}binaries`,
  };
}

async function deno(
  args: readonly string[],
  env: Record<string, string>,
): Promise<[boolean, string]> {
  const command = new Deno.Command(Deno.execPath(), {
    args: [...args],
    env,
    cwd: root,
    stdin: "null",
  });
  const { success, stdout, stderr } = await command.output();
  const text = new TextDecoder();
  return [success, text.decode(stdout) + text.decode(stderr)];
}

/** The faults that show: a program that ends by a signal shows its own. */
async function findFaults(env: Record<string, string>): Promise<Set<FaultName>> {
  const found = new Set<FaultName>();
  for (const [name, { what }] of Object.entries(faults)) {
    const [success, output] = await deno([
      "run",
      "-A",
      "--no-check",
      "tests/rusticl/faults.ts",
      name,
    ], env);
    const shows = !success || /^shows$/m.test(output);
    if (shows) found.add(name as FaultName);
    console.log(`${shows ? "fault " : "absent"}  ${name}: ${what}`);
  }
  return found;
}

/** The tests that a path names: a program of acceptance has a number, everything else is tests. */
function numberOf(path: string): string | null {
  return /(?:^|\/)(\d\d)_\w+\.ts$/.exec(path)?.[1] ?? null;
}

async function report(title: string, args: readonly string[], env: Record<string, string>) {
  const start = performance.now();
  const [success, output] = await deno(args, env);
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`${success ? "passed" : "FAILED"}  ${title} (${seconds} s)`);
  console.log(success ? output.match(/^ok \|.*$|^.*: met$/m)?.[0] ?? "" : output);
  return success;
}

function runProgram(path: string, found: ReadonlySet<FaultName>, env: Record<string, string>) {
  const reason = programs[numberOf(path)!];
  if (reason === undefined || !found.has(reason)) {
    return report(path, ["run", "-A", "--no-check", "--config", "deno.json", path], env);
  }
  console.log(`left out  ${path}: ${reason}`);
  return Promise.resolve(true);
}

async function main(): Promise<boolean> {
  const vendors = await onlyRusticl(), env = environment(vendors);
  const paths = Deno.args.length > 0 ? Deno.args : share;
  const files = paths.filter((path) => numberOf(path) === null);
  try {
    const found = await findFaults(env);
    const args = ["test", "-A", "--no-check", "--preload=tests/rusticl/leave_out.ts", ...files];
    const testing = { ...env, RUSTICL_FAULTS: [...found].join() };
    let passed = files.length === 0 || await report(files.join(" "), args, testing);
    for (const path of paths) {
      if (numberOf(path) !== null) passed = await runProgram(path, found, env) && passed;
    }
    return passed;
  } finally {
    await Deno.remove(vendors, { recursive: true });
  }
}

try {
  Deno.statSync(vendor);
} catch (error) {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
  console.log("rusticl is not installed (Debian: mesa-opencl-icd): nothing runs there");
  Deno.exit(Deno.env.get("CI") === "true" ? 1 : 0);
}
Deno.exit(await main() ? 0 : 1);
