/**
 * A process that builds programs beside the one that started it, which `build_helpers.ts` does: takes
 * open jobs of a folder until there are none, or the folder is gone, or who started it. Its arguments:
 * those of `helper_process.ts`, and the folder.
 */
import { host } from "../../../ffi/runtime/host.ts";
import { Context, type Device } from "../../../ffi/mod.ts";
import { buildProgram } from "./build_program.ts";
import { foundDevice, isAlone } from "./helper_process.ts";
import { JobFolder } from "./job_folder.ts";

/** Longest wait for jobs that are still to come. */
const MAX_WAIT_MS = 15_000;
/** Milliseconds between two looks for them. */
const LOOK_MS = 10;

const flag = new Int32Array(new SharedArrayBuffer(4));

/** Builds what is open, and what is still to come. What it cannot build is left to who started it. */
function buildJobs(folder: JobFolder, context: Context, device: Device): void {
  const until = performance.now() + MAX_WAIT_MS;
  for (;;) {
    if (isAlone()) return folder.remove();
    // Asked first: jobs come before the wait ends.
    const { isWaiting } = folder, next = folder.take();
    if (next === null) {
      if (!isWaiting) return;
      if (performance.now() > until) return folder.leave();
      Atomics.wait(flag, 0, 0, LOOK_MS);
      continue;
    }
    try {
      using program = buildProgram(context, device, next.source);
      folder.built(next.job, program.binary(device));
    } catch (error) {
      // Who wants the program builds it itself, and gets the error if it is the program's.
      folder.failed(next.job);
      throw error;
    }
  }
}

if (import.meta.main) {
  const device = foundDevice();
  if (device !== null) {
    using context = new Context(device);
    try {
      buildJobs(new JobFolder(host.args.at(-1)!), context, device);
    } catch (error) {
      // The folder was removed: everything is built, or the other process was interrupted.
      if (!(error instanceof host.errors.NotFound)) throw error;
    }
  }
}
