/**
 * A process that builds programs beside the one that started it, which `build_helpers.ts` does: takes
 * open jobs of a folder until there are none, or the folder is gone, or who started it. Its arguments:
 * the folder, the names of the platform and of the device, the device's number among those of these
 * names, and the number of the process that started it.
 */
import { Context, type Device, platforms } from "../../../ffi/mod.ts";
import { buildProgram } from "./build_program.ts";
import { JobFolder } from "./job_folder.ts";

/** How long it waits for jobs that are still to come. */
const MAX_WAIT_MS = 15_000;
/** Milliseconds between two looks for them. */
const LOOK_MS = 10;

const flag = new Int32Array(new SharedArrayBuffer(4));

/** The device of these names; null where this process does not see it. */
function findDevice(platformName: string, deviceName: string, place: number): Device | null {
  const found = platforms().filter(({ name }) => name === platformName)
    .flatMap((platform) => platform.devices())
    .filter(({ name }) => name === deviceName);
  return found[place] ?? null;
}

/** Builds what is open, and what is still to come. What it cannot build is left to who started it. */
function buildJobs(
  folder: JobFolder,
  context: Context,
  device: Device,
  starter: number,
): void {
  const until = performance.now() + MAX_WAIT_MS;
  for (;;) {
    if (Deno.ppid !== starter) return folder.remove();
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
  const [path, platformName, deviceName, place, starter] = Deno.args;
  const device = findDevice(platformName!, deviceName!, Number(place));
  if (device !== null) {
    using context = new Context(device);
    try {
      buildJobs(new JobFolder(path!), context, device, Number(starter));
    } catch (error) {
      // The folder was removed: everything is built, or the other process was interrupted.
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
}
