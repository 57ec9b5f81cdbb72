/**
 * Runs Deno for Linux on arm64 under qemu: training, built in and on PoCL for arm64, and tests of ffi and
 * memory. Emulated, it takes twenty times as long and more: some hours for all.
 *
 *     deno run -A tests/systems/arm64_check.ts [--folder FOLDER] [file or folder of tests ...]
 *
 * The systems are put below the folder (2 GB; default "netcl-arm64" beside other temporary files), where they
 * are found the next time.
 */
import { availableParallelism, tmpdir } from "node:os";
import { parseArgs } from "node:util";
import { type Arm64, installArm64 } from "./arm64.ts";
import { mayEnter } from "./root.ts";
import { type Job, runJobs } from "./side_by_side.ts";

/** Seconds until a program that hangs is ended. */
const TIME_LIMIT = 3600;

const tests = [
  "tests/ffi/events",
  "tests/ffi/host",
  "tests/ffi/kernels",
  "tests/ffi/library",
  "tests/ffi/memory",
  "tests/ffi/objects",
  "tests/ffi/queue",
  "tests/memory/pools",
  "tests/memory/sources",
  "tests/memory/devices",
];

function train(arm64: Arm64, device: "cpu" | "cl"): Job {
  const args = ["run", "-A", "--no-check", "--config", "deno.json", "examples/train.ts"];
  return {
    name: `train (${device})`,
    command: arm64.deno([...args, "--epochs", "2", "--out", "/tmp/out"], { NETCL_DEVICE: device }),
    isMet: ({ success, output }) => success && /^accuracy: +0\.9/m.test(output),
  };
}

/** Each path in a process of its own: to start one takes half a minute. */
function testing(arm64: Arm64, path: string): Job {
  const preload = "--preload=tests/systems/arm64_preload.ts";
  return { name: path, command: arm64.deno(["test", "-A", "--no-check", preload, path]) };
}

async function main(): Promise<boolean> {
  const { values: { folder }, positionals } = parseArgs({
    args: Deno.args,
    allowPositionals: true,
    options: { folder: { type: "string", default: `${tmpdir()}/netcl-arm64` } },
  });
  const reason = await mayEnter();
  if (reason !== null) {
    console.log(`Programs for arm64 do not run here: ${reason}`);
    return false;
  }
  const arm64 = await installArm64(folder);
  const jobs = positionals.length > 0
    ? positionals.map((path) => testing(arm64, path))
    : [train(arm64, "cpu"), train(arm64, "cl"), ...tests.map((path) => testing(arm64, path))];
  return await runJobs(jobs, { atOnce: availableParallelism(), limit: TIME_LIMIT });
}

Deno.exit(await main() ? 0 : 1);
